package mcp_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/mcp"
)

// oddCalls are the parameters of calls that two parsers could read differently.
var oddCalls = []string{
	`"name":"echo","arguments":{"text":"plain"}`,
	`"name":"echo","arguments":{"text":"\u0000\u001f\"\\\/\n\t\r <&> \u2028 \ud83d\ude00 \ud800 é"}`,
	`"name":"echo","arguments":{"text":"forbidden"}`,
	`"name":"echo","arguments":{"text":5}`,
	`"name":"echo","arguments":[]`,
	`"name":"echo","arguments":null`,
	`"name":"echo"`,
	`"name":"steps","arguments":{}`,
	`"name":"steps","_meta":{"progressToken":7}`,
	`"name":"steps","_meta":{"progressToken":1.5}`,
	`"name":"echo","arguments":{"text":"x"},"_meta":{"belljar.dev/structured":true}`,
	`"name":"echo","arguments":{"text":"forbidden"},"_meta":{"belljar.dev/structured":true}`,
	`"name":"echo","arguments":{"text":"x"},"_meta":{"belljar.dev/structured":"true"}`,
	`"name":"echo","arguments":{"text":"x"},"_meta":{"traceparent":7,"tracestate":[]}`,
	`"name":"echo","arguments":{"text":"x"},"requestState":"x"`,
	`"name":"echo","arguments":{"text":"x"},"requestState":7`,
	`"name":"echo","arguments":{"text":"x"},"inputResponses":{"a":{"action":"accept"}}`,
	`"name":"echo","arguments":{"text":"x"},"inputResponses":{}`,
	`"name":"echo","arguments":{"text":"x"},"inputResponses":{"a":7}`,
	`"name":"echo","arguments":{"text":"x"},"inputResponses":[]`,
	`"name":"echo","arguments":{"text":"x"},"inputResponses":null`,
	`"name":"fail","arguments":{}`,
	`"name":"panic","arguments":{}`,
	`"name":"ecko","arguments":{}`,
	`"name":"big","arguments":{"bytes":0}`,
	`"name":"","arguments":{}`,
}

// TestStdioReadsCallsAsTheSDK sends each call twice, once with a member that readCall
// does not know, which makes the go-sdk answer it.
func TestStdioReadsCallsAsTheSDK(t *testing.T) {
	old, young := newToy(t).connect(t), newToy(t).connect(t)
	old.greet(revLegacy)
	ask := func(c *client, line string) any {
		t.Helper()
		c.send(line)
		a := c.next()
		for a.Method != "" {
			a = c.next()
		}
		return withoutChance(t, a.raw)
	}
	for _, params := range oddCalls {
		legacyCall := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{@` + params + `}}`
		calls := map[*client]string{old: legacyCall}
		if !strings.Contains(params, "_meta") {
			calls[young] = modern("1", "tools/call", "@"+params+",")
		}
		for c, call := range calls {
			own := ask(c, strings.Replace(call, "@", "", 1))
			throughSDK := ask(c, strings.Replace(call, "@", `"another":1,`, 1))
			if diff := cmp.Diff(throughSDK, own); diff != "" {
				t.Errorf("%s: the go-sdk (-) and direct.go (+) answer differently:\n%s", call, diff)
			}
		}
	}
}

// withoutChance returns an answer without the parts that may differ: the order of the keys,
// the ids of calls, and the member with which a test makes the go-sdk answer, since the
// go-sdk's errors quote the parameters.
func withoutChance(t *testing.T, raw string) (out any) {
	t.Helper()
	raw = callID.ReplaceAllString(strings.ReplaceAll(raw, `\\\"another\\\":1,`, ""), "c-X")
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

var callID = regexp.MustCompile(`c-[A-Z2-7]{8}`)

// TestHTTPReadsCallsAsTheSDK does the same over HTTP, where the statuses must also be
// equal. An answer of the go-sdk is a stream of events. An answer without the go-sdk is
// plain JSON, unless progress is sent before it.
func TestHTTPReadsCallsAsTheSDK(t *testing.T) {
	s := newSite(t)
	session := s.greet()
	direct := 0
	for _, params := range oddCalls {
		legacyCall := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{@` + params + `}}`
		youngCall := modern("1", "tools/call", "@"+params+",")
		name, _, _ := strings.Cut(strings.TrimPrefix(params, `"name":"`), `"`)
		for call, headers := range map[string][]string{legacyCall: session, youngCall: modernHeaders("tools/call", name)} {
			if call == youngCall && strings.Contains(params, "_meta") {
				continue
			}
			own := s.do("POST", strings.Replace(call, "@", "", 1), headers...)
			throughSDK := s.do("POST", strings.Replace(call, "@", `"another":1,`, 1), headers...)
			if own.status != throughSDK.status {
				t.Errorf("%s: the go-sdk answered %d and direct.go %d", call, throughSDK.status, own.status)
			}
			if name == "" { // the header Mcp-Name needs a name
				continue
			}
			if diff := cmp.Diff(withoutChance(t, throughSDK.last().raw), withoutChance(t, own.last().raw)); diff != "" {
				t.Errorf("%s: the go-sdk (-) and direct.go (+) answer differently:\n%s", call, diff)
			}
			if own.header.Get("Content-Type") == "application/json" {
				direct++
			}
		}
	}
	if direct < len(oddCalls) {
		t.Errorf("%d answers were plain JSON, want most of them", direct)
	}
}

// TestWireText sends texts that need care in JSON, and checks that it gets the same texts
// back.
func TestWireText(t *testing.T) {
	c := newToy(t).connect(t)
	c.greet(revLegacy)
	for _, text := range []string{"", "a\x00b", "\u2028\u2029", "\x7f", "😀", `"\`, strings.Repeat("\n", 5000)} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		c.send(call("1", "echo", `{"text":`+string(quoted)+`}`))
		if a := c.next(); a.text() != text {
			t.Errorf("echo of %.20q answered %.200s", text, a.raw)
		}
	}
}

// TestStdioReadsListsAsTheSDK compares the lists that directlist.go writes with those of
// the go-sdk, byte for byte. A parameter that the protocol does not know makes the go-sdk
// answer.
func TestStdioReadsListsAsTheSDK(t *testing.T) {
	ty := newToy(t)
	for _, name := range []string{"far", "other"} {
		var many []mcp.Remote
		for i := range 600 {
			many = append(many, farEcho(fmt.Sprintf("mcp_%s_tool%d", name, i)))
		}
		ty.set(t, name, mcp.Remotes{Tools: many, Note: "\"<&>", Fresh: time.Minute})
	}
	c := ty.connect(t)
	c.greet(revLegacy)
	ask := func(params string) string {
		t.Helper()
		if params != "" {
			params = `,"params":` + params
		}
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"` + params + `}`)
		a := c.next()
		for a.Method != "" {
			a = c.next()
		}
		return a.raw
	}
	first := ask(`{}`)
	var page struct{ Result struct{ NextCursor string } }
	if err := json.Unmarshal([]byte(first), &page); err != nil || page.Result.NextCursor == "" {
		t.Fatalf("%.200s, %v: want a cursor", first, err)
	}
	if own := ask(``); own != first {
		t.Errorf("without params: got\n%.400s\nwant\n%.400s", own, first)
	}
	for _, cursor := range []string{``, `"cursor":""`, `"cursor":"` + page.Result.NextCursor + `"`, `"cursor":"no!"`, `"cursor":7`, `"cursor":null`} {
		// The errors of the go-sdk quote the parameters.
		throughSDK := strings.ReplaceAll(ask(strings.TrimSuffix(`{"another":1,`+cursor, ",")+`}`), `\\\"another\\\":1,`, "")
		if own := ask(`{` + cursor + `}`); own != throughSDK {
			t.Errorf("%s: directlist.go answers\n%.400s\nwant, of the go-sdk,\n%.400s", cursor, own, throughSDK)
		}
	}
}
