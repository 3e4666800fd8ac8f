package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of the words of others is shown, in characters.
const (
	titleMost   = 160
	snippetMost = 320
	answerMost  = 500
)

// clean is foreign text as it may be shown: on one line, without what no
// reader sees or what turns text around, and at most so many characters of it.
// What the words say is left as it is: a filter of words would lose results
// about the very thing.
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
		case bad || hidden(r):
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

// hidden reports whether a character is not to be seen: controls, formats
// (zero widths, directions, tags), private use, and blanks that look like
// nothing. Variation selectors can carry bytes, and belong to no word.
func hidden(r rune) bool {
	switch {
	case r == '\u034F' || r == '\u115F' || r == '\u1160' || r == '\u3164' || r == '\uFFA0' || r == '\u2800':
		return true
	case r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}
