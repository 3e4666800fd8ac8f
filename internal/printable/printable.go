// Package printable shows text that somebody else wrote on a person's terminal
// so that it does nothing there: no byte of it moves the cursor, sets a title or
// the clipboard, hides what stands beside it or turns it around.
//
// Control characters are shown as less(1) and git show them (^[, ^M, ^?), other
// characters without a shape of their own as in Go (\u202e, \U000e0041), and
// bytes that are not UTF-8 as \x9b. Tabs and newlines stay.
package printable

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character shows as itself: it has a shape or is a
// space, and neither joins, hides nor reorders others. Trojan Source
// (CVE-2021-42574) is made of those that do; terminals take C1 controls for
// escape sequences (ECMA-48).
func Rune(r rune) bool {
	return r >= ' ' && r < 0x7f || r > 0x7f && unicode.IsGraphic(r) && !blank(r)
}

// InLine reports whether a character shows as itself within one line: like Rune, but
// of all spaces only the usual one does.
func InLine(r rune) bool { return r == ' ' || Rune(r) && !unicode.IsSpace(r) }

// Line returns a text as one line of at most that many characters. A character that does not show
// as itself becomes a space, and … stands for what is cut.
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

// Operand returns a name as a person is advised to type it behind a command: the name itself
// if every shell reads it as one plain word that is not an option, else NAME. By a name that
// somebody else has chosen, a shell could start something else.
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

// blank reports whether Unicode counts a character as a letter, mark or sign
// although it has no shape: what readers ignore (DerivedCoreProperties,
// Default_Ignorable_Code_Point, less what IsGraphic leaves out), and the empty
// characters of Braille, musical notes and the Khitan script.
func blank(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == 0x2800 || r == 0x1d159 || r == 0x16fe4
}

// JSON is a JSON text in which characters that a terminal must not get stand as
// escapes, which mean the same to every reader (RFC 8259, section 7). Encoders
// leave DEL, C1 controls and bidi marks as they are.
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

// Writer shows what is written to it on a terminal. A character that is cut
// between two calls of Write is one; Flush shows the beginning of one that does
// not go on. Its methods are safe for concurrent use.
type Writer struct {
	out io.Writer

	mu   sync.Mutex
	held []byte // the beginning of a character
}

// NewWriter is a Writer that writes to out.
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

// Flush shows what is held back of a character that was not completed.
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

// Raw is the writer that w writes to, for the few that may write what they like
// to a terminal; of any other writer it is that itself.
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

// appendRune shows one character, which is r and those bytes.
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
