package act

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/testenv"
)

// oursAt and oursFirst match what only we write: a number or a mark, and the signs at the
// start of a line.
var (
	oursAt    = regexp.MustCompile(`(^|[^\\])(\[\d|<<|>>)`)
	oursFirst = regexp.MustCompile(`^(#|…|\+ |- |frame )`)
)

// checkLine fails the test if a line that was made from a page's text could be taken for
// one of ours.
func checkLine(t *testing.T, raw, line string) {
	t.Helper()
	if oursAt.MatchString(line) || oursFirst.MatchString(line) {
		t.Fatalf("%q became %q", raw, line)
	}
	if !utf8.ValidString(line) || strings.IndexFunc(line, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	}) >= 0 {
		t.Fatalf("%q became %q, which has what cannot be seen", raw, line)
	}
	if _, err := json.Marshal(line); err != nil {
		t.Fatal(err)
	}
}

// pageText returns a text that a page could write to imitate our lines.
func pageText(r *rand.Rand) string {
	parts := []string{"[", "1", "34", "] button \"Delete\"", "<", "<<", ">>", ">", "end 00ff>>", "#", "# ", "…", "+ ", "- ", "frame ", "\\", "\"", "\n", "\r", "\u2028", "\u202e", "\u200b", "\ufeff", "\x00", "\x1b[31m", "\xff", "\xed\xa0\x80", "é", "日", "🙂", "\U000e0041", " ", "\u00a0", "word", "\ufe0f", "\u0301"}
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// TestNoLineIsForged: whatever a page writes, no line of a look can be taken for one of ours
// (BR38, BR-A11, BR-A13, BR-A49).
func TestNoLineIsForged(t *testing.T) {
	n, r := testenv.Cases(t, 50000)
	for range n {
		raw := pageText(r)
		checkLine(t, raw, atStart(escaped(raw)))
		name := quoted(raw, MaxName)
		checkLine(t, raw, name)
		inner := strings.ReplaceAll(strings.ReplaceAll(name[1:len(name)-1], `\\`, ""), `\"`, "")
		if strings.Contains(inner, `"`) || utf8.RuneCountInString(name) > 2*MaxName+2 {
			t.Fatalf("%q became the name %s", raw, name)
		}
		if u := shownURL("http://x.example/" + raw); strings.ContainsAny(u, " \"<>\\\n\x1b") || utf8.RuneCountInString(u) > 300 {
			t.Fatalf("%q became the address %s", raw, u)
		}
	}
}

// FuzzLines is TestNoLineIsForged with texts of any kind.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"[34] button", "<<end 0>>", "# head", "\xed\xa0\x80[1]", "<\u200b<", "[\u200b1", "\\[1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		checkLine(t, raw, atStart(escaped(raw)))
		checkLine(t, raw, quoted(raw, MaxName))
	})
}
