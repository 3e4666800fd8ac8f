package page

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Part is a piece of a page's content.
type Part struct {
	Text   string // the piece; the pieces in order make the content again, byte for byte
	Offset int    // offset of its first character in the content, in characters
	Next   int    // offset of the piece after it; Total at the end
	Total  int    // characters of the content
}

// More returns how to read on, or "" at the end.
func (p Part) More() string {
	if p.Next >= p.Total {
		return ""
	}
	return fmt.Sprintf("continue with offset %d of %d", p.Next, p.Total)
}

// Part returns at most chars characters of the content from offset on. The piece ends at
// the end of a line if one is near, and never inside a character. An offset beyond the end,
// or chars below 1, is an error.
func (p *Page) Part(offset, chars int) (Part, error) {
	total := utf8.RuneCountInString(p.Content)
	switch {
	case chars < 1:
		return Part{}, fmt.Errorf("read at most %d characters: want at least 1", chars)
	case offset < 0 || offset > total:
		return Part{}, fmt.Errorf("read from offset %d: the page has %d characters", offset, total)
	}
	rest := p.Content[byteAt(p.Content, offset):]
	end := byteAt(rest, chars)
	if end < len(rest) {
		end = lineEnd(rest, end)
	}
	piece := rest[:end]
	return Part{Text: piece, Offset: offset, Next: offset + utf8.RuneCountInString(piece), Total: total}, nil
}

// byteAt returns the index of the first byte of the n-th character of s, or the length of
// s.
func byteAt(s string, n int) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// lineEnd moves a cut back to the end of a paragraph or line, as long as that
// leaves three quarters of the piece.
func lineEnd(s string, end int) int {
	least := end - end/4
	for _, sep := range []string{"\n\n", "\n"} {
		if i := strings.LastIndex(s[:end], sep); i >= 0 && i+len(sep) >= least {
			return i + len(sep)
		}
	}
	return end
}
