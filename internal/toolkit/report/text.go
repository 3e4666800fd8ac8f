package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// maxText is the longest text, in bytes; a longer text loses its end.
const maxText = 8 << 10

// visible returns a text in which every character can be seen. Control characters,
// characters that change the direction of writing, and bytes that are not UTF-8 become
// escapes such as \x1b. Line feeds and tabs stay.
func visible(s string) string {
	s = clipped(s)
	if !strings.ContainsFunc(s, hidden) {
		return s // an invalid byte is found, too: it is read as utf8.RuneError
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a rune is invisible, or may stand for a byte that is not UTF-8.
// This includes all characters that XML 1.0 does not allow (section 2.2).
func hidden(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case utf8.RuneError, 0x2028, 0x2029, 0xfffe, 0xffff:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs)
}

// clipped returns at most maxText bytes of a text, with an ellipsis if the text was longer.
func clipped(s string) string {
	if len(s) <= maxText {
		return s
	}
	return printable.Head(s, maxText) + "…"
}

// line returns a visible text in one line.
func line(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(visible(s))
}
