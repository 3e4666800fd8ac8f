package console

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// Bounds of an escape sequence that sets colours. A longer sequence is shown as text.
const (
	maxSequence = 128 // length in bytes
	maxNumbers  = 32  // count of numbers in the sequence
)

// Piece is a text with one style.
type Piece struct {
	Text  string `json:"t"`
	Style string `json:"s"` // CSS classes, see style; may be empty
}

// style describes how text looks on a terminal. Its zero value is the default style.
type style struct {
	bold, italic, under, struck, inverse bool
	fg, bg                               uint8 // 0 for the default colour, otherwise the number among 16 colours plus one
	control                              bool  // whether the text shows a control character by its code
}

// String returns the classes of a style: b, i, u, s, inv, fg0 to fg15, bg0 to bg15, ctl.
func (s style) String() string {
	var words []string
	for _, one := range []struct {
		set  bool
		word string
	}{{s.bold, "b"}, {s.italic, "i"}, {s.under, "u"}, {s.struck, "s"}, {s.inverse, "inv"}} {
		if one.set {
			words = append(words, one.word)
		}
	}
	if s.fg > 0 {
		words = append(words, "fg"+strconv.Itoa(int(s.fg-1)))
	}
	if s.bg > 0 {
		words = append(words, "bg"+strconv.Itoa(int(s.bg-1)))
	}
	if s.control {
		words = append(words, "ctl")
	}
	return strings.Join(words, " ")
}

// cell is one column of a line.
type cell struct {
	text  string
	style style
}

// screen splits the output of a program for a terminal into pieces. A carriage return and a
// backspace move in the line, and later text replaces earlier text, as on a terminal. Of
// all escape sequences, only those that set a style have an effect (ECMA-48, SGR). All
// others are shown as text, so that output cannot move, hide or send anything.
type screen struct {
	now    style
	line   []cell
	column int
	pieces []Piece
	text   strings.Builder // text of the last piece
	look   style           // style of the last piece
}

// render returns the pieces of a text. from is the style at its beginning. The time and the
// size of the result are linear in the size of the text.
func render(text []byte, from style) []Piece {
	s := &screen{now: from}
	for len(text) > 0 {
		text = text[s.next(text):]
	}
	s.flush()
	s.end()
	if s.pieces == nil {
		return []Piece{}
	}
	return s.pieces
}

// lookAfter returns the style at the end of a text.
func lookAfter(text []byte) style { return lookBehind(text, style{}) }

// lookBehind is lookAfter for a text that begins with the style s.
func lookBehind(text []byte, s style) style {
	for {
		at := bytes.Index(text, []byte("\x1b["))
		if at < 0 {
			return s
		}
		text = text[at:]
		n := sequence(text)
		s.set(text[2 : max(n, 3)-1])
		text = text[max(n, 2):]
	}
}

// next handles one character or sequence, and returns its length in bytes.
func (s *screen) next(text []byte) int {
	switch text[0] {
	case '\n':
		s.flush()
		s.put1("\n", s.now)
		return 1
	case '\r':
		s.column = 0
		return 1
	case '\b':
		s.column = max(0, s.column-1)
		return 1
	case '\t':
		for stop := (s.column/8 + 1) * 8; s.column < stop; s.column++ {
			if s.column == len(s.line) {
				s.line = append(s.line, cell{" ", style{}})
			}
		}
		return 1
	case 0x1b:
		if n := sequence(text); n > 0 {
			s.now.set(text[2 : n-1])
			return n
		}
	}
	r, n := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && n <= 1:
		s.show(fmt.Sprintf(`\x%02x`, text[0]))
		return 1
	case !printable.InLine(r):
		s.show(codeOf(r))
	default:
		s.put(cell{string(text[:n]), s.now})
	}
	return n
}

// codeOf returns the code that is shown in place of a character, for example \x07. Few
// fonts have the control pictures of Unicode, which would be an alternative.
func codeOf(r rune) string {
	if r < utf8.RuneSelf {
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u{%x}`, r)
}

// sequence returns the length in bytes of the style sequence at the beginning of a text;
// zero if the text does not begin with such a sequence.
func sequence(text []byte) int {
	if len(text) < 3 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for n := 2; n < min(len(text), maxSequence); n++ {
		switch c := text[n]; {
		case c == 'm':
			if codes := bytes.Count(text[2:n], []byte(";")) + bytes.Count(text[2:n], []byte(":")); codes >= maxNumbers {
				return 0
			}
			return n + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0
		}
	}
	return 0
}

// show puts the code of a character at the column.
func (s *screen) show(text string) {
	look := s.now
	look.control = true
	s.put(cell{text, look})
}

// put puts a cell at the column.
func (s *screen) put(c cell) {
	if s.column < len(s.line) {
		s.line[s.column] = c
	} else {
		s.line = append(s.line, c)
	}
	s.column++
}

// flush adds the line to the pieces.
func (s *screen) flush() {
	for _, c := range s.line {
		s.put1(c.text, c.style)
	}
	s.line, s.column = s.line[:0], 0
}

// put1 adds a text with a style to the pieces.
func (s *screen) put1(text string, look style) {
	if look != s.look {
		s.end()
		s.look = look
	}
	s.text.WriteString(text)
}

// end completes the last piece.
func (s *screen) end() {
	if s.text.Len() > 0 {
		s.pieces = append(s.pieces, Piece{s.text.String(), s.look.String()})
		s.text.Reset()
	}
}

// set changes a style by the numbers of a sequence.
func (s *style) set(codes []byte) {
	groups := strings.Split(string(codes), ";")
	for i := 0; i < len(groups); i++ {
		parts := strings.Split(groups[i], ":")
		code := number(parts[0])
		if code != 38 && code != 48 {
			s.one(code, parts[1:])
			continue
		}
		if len(parts) == 1 { // the colour is in the following groups
			most := 0
			switch rest := groups[i+1:]; {
			case len(rest) > 0 && number(rest[0]) == 5:
				most = min(2, len(rest))
			case len(rest) > 0 && number(rest[0]) == 2:
				most = min(4, len(rest))
			}
			parts = append(parts, groups[i+1:i+1+most]...)
			i += most
		} else if len(parts) > 5 && number(parts[1]) == 2 {
			parts = append(parts[:2], parts[3:]...) // removes the colour space
		}
		if colour, ok := colourOf(parts[1:]); ok && code == 38 {
			s.fg = colour + 1
		} else if ok {
			s.bg = colour + 1
		}
	}
}

// number parses a number of a sequence. A missing number is zero.
func number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

// one changes a style by one number, and by the numbers after its colons.
func (s *style) one(code int, more []string) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1:
		s.bold = true
	case code == 3:
		s.italic = true
	case code == 4:
		s.under = len(more) == 0 || number(more[0]) != 0
	case code == 7:
		s.inverse = true
	case code == 9:
		s.struck = true
	case code == 21:
		s.under = true
	case code == 22:
		s.bold = false
	case code == 23:
		s.italic = false
	case code == 24:
		s.under = false
	case code == 27:
		s.inverse = false
	case code == 29:
		s.struck = false
	case code >= 30 && code <= 37:
		s.fg = uint8(code-30) + 1
	case code == 39:
		s.fg = 0
	case code >= 40 && code <= 47:
		s.bg = uint8(code-40) + 1
	case code == 49:
		s.bg = 0
	case code >= 90 && code <= 97:
		s.fg = uint8(code-90+8) + 1
	case code >= 100 && code <= 107:
		s.bg = uint8(code-100+8) + 1
	}
}

// colourOf returns the nearest of the 16 colours, for a number among 256, or for red, green
// and blue.
func colourOf(parts []string) (colour uint8, ok bool) {
	var n [4]int
	if len(parts) > len(n) {
		parts = parts[:len(n)]
	}
	for i, text := range parts {
		if n[i] = number(text); n[i] < 0 || n[i] > 255 {
			return 0, false
		}
	}
	switch {
	case len(parts) >= 2 && n[0] == 5 && n[1] < 16:
		return uint8(n[1]), true
	case len(parts) >= 2 && n[0] == 5 && n[1] >= 232:
		grey := 8 + 10*(n[1]-232)
		return nearest(grey, grey, grey), true
	case len(parts) >= 2 && n[0] == 5:
		cube := func(level int) int {
			if level == 0 {
				return 0
			}
			return 55 + 40*level
		}
		at := n[1] - 16
		return nearest(cube(at/36), cube(at/6%6), cube(at%6)), true
	case len(parts) == 4 && n[0] == 2:
		return nearest(n[1], n[2], n[3]), true
	}
	return 0, false
}

// palette has the 16 colours as xterm shows them.
var palette = [16][3]int{
	{0, 0, 0},
	{205, 0, 0},
	{0, 205, 0},
	{205, 205, 0},
	{0, 0, 238},
	{205, 0, 205},
	{0, 205, 205},
	{229, 229, 229},
	{127, 127, 127},
	{255, 0, 0},
	{0, 255, 0},
	{255, 255, 0},
	{92, 92, 255},
	{255, 0, 255},
	{0, 255, 255},
	{255, 255, 255},
}

// nearest returns the number of the palette's colour that differs least.
func nearest(r, g, b int) (at uint8) {
	least := 1 << 30
	for i, p := range palette {
		dr, dg, db := r-p[0], g-p[1], b-p[2]
		if d := dr*dr + dg*dg + db*db; d < least {
			least, at = d, uint8(i)
		}
	}
	return at
}

// wholeUpTo returns how many bytes of an incomplete text can be shown already: the text
// does not end within a character or a sequence. If long is set, it ends with a complete
// line if it has one.
func wholeUpTo(text []byte, long bool) int {
	if long {
		if at := bytes.LastIndexByte(text, '\n'); at >= 0 {
			return at + 1
		}
	}
	end := len(text)
	if at := bytes.LastIndexByte(text, 0x1b); at >= 0 && end-at < maxSequence && sequence(text[at:]) == 0 && opens(text[at:]) {
		end = at
	}
	return len(printable.TrimEnd(text[:end]))
}

// opens reports whether a text may become a style sequence when more text follows.
func opens(text []byte) bool {
	if len(text) == 1 {
		return true
	}
	return text[1] == '[' && len(bytes.Trim(text[2:], "0123456789;:")) == 0
}
