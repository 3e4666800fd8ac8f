package mcp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// lineMost is the longest line of the connection to which malformed lines are sent.
const lineMost = 16 << 10

// harmless are faults after which it is still clear which request a line is. A request with
// such a fault in another member or in its line is refused.
var harmless = []func(r *rand.Rand, m []string) []string{
	member(`"method":"ping"`), member(`"jsonrpc":"2.0"`), member(`"\u006dethod":"ping"`),
	member(`"x":{"a":1,"a":2}`), member(`"x":[{"id":1,"id":2}]`), member(`"x":{"id":5},"x":1`),
	member(`"x":tru`), member(`"x":NaN`), member(`"x":01`), member(`"x":+1`), member(`"x":.5`), member(`"x":0x1f`), member(`"x":1e`), member(`"x":undefined`),
	member(`"x":"\q"`), member(`"x":"\u12"`), member("\"x\":\"a\x01b\""), member("\"x\":\"a\tb\""), member("\"x\":\"\xff\""), member("\"x\":\"\xed\xa0\x80\""), member("\"\xc0\xaf\":1"),
	member(`"x" 1`), member(`"x":`), member(`x:1`), member(`'x':'y'`), member(`"x"::1`), member(``), member(`/* x */`), member(`"x":1 2`), member(`"x":"a""b"`), member(`"x":""id":5"`),
	member(`"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)),
	member(`"x":` + strings.Repeat(`{"id":`, 200) + "1" + strings.Repeat("}", 200)),
	member(`"x":"` + strings.Repeat(`\",\"id\":5,`, lineMost/8) + `"`),
	member(`"` + strings.Repeat("x", lineMost) + `":1`),
	func(_ *rand.Rand, m []string) []string { return append(m, strings.Repeat(" ", lineMost)) },
	func(r *rand.Rand, m []string) []string { // the message ends too early, after the id
		for !strings.HasPrefix(m[len(m)-1], `"method"`) {
			r.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
		}
		m[len(m)-1] += unended
		return m
	},
}

// unended at the end of a message's last member makes write leave out the closing brace.
const unended = "\x00"

// member returns a function that inserts one more member into a message.
func member(text string) func(*rand.Rand, []string) []string {
	return func(r *rand.Rand, m []string) []string { return slices.Insert(m, r.IntN(len(m)+1), text) }
}

// doubtful are faults after which it is not clear to which request an answer would belong.
var doubtful = []func(r *rand.Rand, m []string) []string{
	member(`"id":1`), member(`"id":"a"`), member(`"\u0069d":1`), member(`"id":null`), member(`"id":{}`), member(`"x":1,"id":`),
	member(`"x":"`), member(`"x":[}`), member(`"x":{]`), member(`"x":1}`), member(`"x":1},{"id":1`), member(`"x":1}{"id":1`),
}

// anID returns an id in one of the forms that a request may use.
func anID(r *rand.Rand, i int) string {
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf(`"%d"`, i)
	case 1:
		return fmt.Sprintf(`"a\"b,\\}%d"`, i)
	case 2:
		return fmt.Sprintf(`"\u00e9世 %d"`, i)
	case 3:
		return fmt.Sprintf(`"%s%d"`, strings.Repeat("l", 1000), i)
	case 4:
		return fmt.Sprint(-i)
	}
	return fmt.Sprint(i)
}

// write returns a message with the members, with white space where JSON allows it.
func write(r *rand.Rand, m []string) string {
	gap := func() string { return strings.Repeat([]string{" ", "\t", "\r"}[r.IntN(3)], r.IntN(4)/3*r.IntN(9)) }
	end := "}"
	if last, ok := strings.CutSuffix(m[len(m)-1], unended); ok {
		m[len(m)-1], end = last, ""
	}
	line := gap() + "{" + gap()
	for i, text := range m {
		if i > 0 {
			line += "," + gap()
		}
		line += text + gap()
	}
	return line + end + gap()
}

// A refused line with one certain id is answered with this id, because its client waits for
// the answer. If the id is in doubt, the answer has the id null, because the id may be that
// of another request.
func TestRefusedLineKeepsID(t *testing.T) {
	ty := newToy(t, func(c *mcp.Config) {
		c.Limits = mcp.Limits{Line: lineMost, Rate: 1e6, Burst: 1e6}
	})
	c := ty.connect(t)
	c.greet(revLegacy)
	n, r := testenv.Cases(t, 300)
	with, without := 0, 0
	for i := 1; i <= n; i++ {
		id := anID(r, i)
		name := []string{`"id"`, `"id"`, `"i\u0064"`}[r.IntN(3)]
		m := []string{`"jsonrpc":"2.0"`, name + ":" + id, `"method":"` + []string{"ping", "tools/list", "nosuch"}[r.IntN(3)] + `"`}
		if r.IntN(2) == 0 {
			m = append(m, `"params":{"id":[1,{"id":2}]}`)
		}
		r.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
		want, malformed := id, r.IntN(8) > 0
		switch {
		case !malformed:
		case r.IntN(4) == 0:
			m = doubtful[r.IntN(len(doubtful))](r, m)
			want = "null"
			without++
		default:
			m = harmless[r.IntN(len(harmless))](r, m)
			with++
		}
		line := write(r, m)
		c.send(line)
		a := c.next()
		switch {
		case string(a.ID) != want:
			t.Errorf("case %d: answered %.200s, want the id %.60s; sent %.400q", i, a.raw, want, line)
		case malformed && (a.Error == nil || a.Error.Code != -32700 && a.Error.Code != -32600):
			t.Errorf("case %d: answered %.200s, want a refusal of the line; sent %.400q", i, a.raw, line)
		case !malformed && a.Error != nil && a.Error.Code != -32601:
			t.Errorf("case %d, control: answered %.200s, want that it is understood; sent %.400q", i, a.raw, line)
		}
		if i > 20 && t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d refused lines had an id and %d none that is certain", with, without)
}
