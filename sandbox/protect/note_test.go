package protect

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// A name that a box chose cannot hide in a message, reverse its direction, or end the code
// in which it is quoted.
func TestPlainNames(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := string(r)
		if !utf8.ValidRune(r) {
			continue
		}
		if r == '`' || !printable.Rune(r) {
			want = "?"
		}
		if got := plain("a" + string(r) + "b"); got != "a"+want+"b" {
			t.Errorf("%U is shown as %q", r, got)
		}
	}
}
