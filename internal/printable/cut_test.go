package printable_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// A text is cut between two characters, as far to the right as the limit allows.
func TestCuts(t *testing.T) {
	text := "aä€😀z"
	for most := range len(text) + 2 {
		head := printable.Head(text, most)
		whole := string(printable.TrimEnd([]byte(text[:min(most, len(text))])))
		next, _ := utf8.DecodeRuneInString(text[len(head):])
		if !utf8.ValidString(head) || len(head) > most || head != text && len(head)+utf8.RuneLen(next) <= most {
			t.Errorf("%d bytes: the head is %q", most, head)
		}
		if whole != head {
			t.Errorf("%d bytes: %q is whole, and the head is %q", most, whole, head)
		}
		if rest := string(printable.TrimStart([]byte(text[min(most, len(text)):]))); !strings.HasSuffix(text, rest) || !utf8.ValidString(rest) || len(head)+len(rest) < len(text)-utf8.UTFMax {
			t.Errorf("behind %d bytes: the rest is %q", most, rest)
		}
	}
	// A text that is not UTF-8 is cut too, and the trim functions remove nothing from it.
	wrong := strings.Repeat("\x80", 9)
	if head := printable.Head(wrong, 5); len(head) != 5 {
		t.Errorf("of continuation bytes %d are left", len(head))
	}
	if start, end := printable.TrimStart([]byte(wrong)), printable.TrimEnd([]byte(wrong)); len(start) != len(wrong) || len(end) != len(wrong) {
		t.Errorf("of continuation bytes %d and %d are left", len(start), len(end))
	}
}
