package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// How much of a foreign text is shown, in characters.
const (
	titleMost   = 160
	snippetMost = 320
	answerMost  = 500
)

// clean returns foreign text in a form that may be shown: on one line, without characters
// that are invisible or change the direction of text, and with at most `most` characters.
// The words themselves are not filtered: a filter would lose results about the words that
// it filters.
func clean(s string, most int) string {
	var b strings.Builder
	b.Grow(min(len(s), most+8))
	space, n := false, 0
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		bad := r == utf8.RuneError && size == 1
		s = s[size:]
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case bad || !printable.Rune(r):
			continue
		}
		if n+1 >= most && strings.TrimSpace(s) != "" {
			b.WriteString("…")
			break
		}
		if space {
			b.WriteByte(' ')
			space, n = false, n+1
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
