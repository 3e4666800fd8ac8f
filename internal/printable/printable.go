// Package printable shows untrusted text on a person's terminal so that it has no effect
// there: no byte of it moves the cursor, sets a title or the clipboard, hides the text next
// to it or reverses its direction.
//
// Control characters are shown as less(1) and git show them (^[, ^M, ^?). Other characters
// without a visible shape are shown as in Go (\u202e, \U000e0041), and bytes that are not
// UTF-8 as \x9b. Tabs and newlines stay.
package printable

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character shows as itself: it has a shape or is a space, and it
// does not join, hide or reorder other characters. Trojan Source attacks (CVE-2021-42574)
// use characters that do. Terminals read C1 controls as escape sequences (ECMA-48).
func Rune(r rune) bool {
	return r >= ' ' && r < 0x7f || r > 0x7f && unicode.IsGraphic(r) && !blank(r)
}

// InLine reports whether a character shows as itself within one line. It is Rune, except
// that the only space that it accepts is U+0020.
func InLine(r rune) bool { return r == ' ' || Rune(r) && !unicode.IsSpace(r) }

// Line returns a text as one line; most is the largest number of its characters that are
// kept. A character that does not show as itself becomes a space, and … stands for the text
// that is cut.
func Line(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == most {
			b.WriteString("…")
			break
		}
		if !InLine(r) {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// Operand returns a name for a command line that a person is advised to type: the name
// itself if every shell reads it as one plain word that is not an option, otherwise NAME. A
// name from another person could otherwise make a shell run something else.
func Operand(name string) string {
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("_-./:@+", r)
	}
	if name == "" || strings.ContainsFunc(name, odd) || strings.ContainsRune("-.+:", rune(name[0])) {
		return "NAME"
	}
	return name
}

// blank reports whether a character has no shape although Unicode counts it as a letter,
// mark or sign: the characters to ignore (DerivedCoreProperties,
// Default_Ignorable_Code_Point, without those that IsGraphic excludes), and the empty
// characters of Braille, musical notes and the Khitan script.
func blank(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == 0x2800 || r == 0x1d159 || r == 0x16fe4
}

// JSON returns a JSON text with escapes for the characters that a terminal must not get.
// Every reader gives these escapes the same meaning (RFC 8259, section 7). Encoders leave
// DEL, C1 controls and bidi marks as they are.
func JSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...)
		case Rune(r) || r == '\n' || r == '\t' || r == '\r':
			out = append(out, text[:size]...)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// Writer shows on a terminal the text that is written to it. A character that is split over
// two calls of Write is shown as one character. Flush shows an incomplete character that
// has no rest. The methods of a Writer are safe for concurrent use.
type Writer struct {
	out io.Writer

	mu   sync.Mutex
	held []byte // beginning of an incomplete character
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write shows p.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.held, p...)
	end := len(TrimEnd(text))
	shown := appendText(nil, text[:end])
	w.held = append([]byte(nil), text[end:]...)
	if _, err := w.out.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush shows the bytes of an incomplete character.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	shown := appendText(nil, w.held)
	w.held = nil
	if len(shown) == 0 {
		return nil
	}
	_, err := w.out.Write(shown)
	return err
}

// Raw returns the writer to which w writes if w is a Writer, and w itself otherwise. It is
// for the few callers that may write any bytes to a terminal.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Writer); ok {
		return p.out
	}
	return w
}

func appendText(out, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || r == '\t' {
			out = append(out, byte(r))
		} else {
			out = appendRune(out, r, string(text[:size]))
		}
		text = text[size:]
	}
	return out
}

// appendRune appends the visible form of one character. of contains the bytes of r.
func appendRune(out []byte, r rune, of string) []byte {
	switch {
	case r == utf8.RuneError && len(of) == 1:
		return fmt.Appendf(out, `\x%02x`, of[0])
	case Rune(r):
		return append(out, of...)
	case r < 0x80:
		return append(out, '^', byte(r)^0x40) // ^[ is ESC, ^? is DEL
	case r > 0xffff:
		return fmt.Appendf(out, `\U%08x`, r)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
