package console

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// Bounds of a sequence that sets colours. A longer one is shown as text.
const (
	maxSequence = 128 // bytes
	maxNumbers  = 32  // numbers in it
)

// Piece is a text of one look.
type Piece struct {
	Text  string `json:"t"`
	Style string `json:"s"` // classes, or empty: see style
}

// style is the look of text on a terminal. Its zero value is the usual one.
type style struct {
	bold, italic, under, struck, inverse bool
	fg, bg                               uint8 // 0 for the usual colour, or one more than its number among 16
	control                              bool  // of characters that do not stand for themselves
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

// cell is what a column of a line shows.
type cell struct {
	text  string
	style style
}

// screen makes pieces of what a program wrote to a terminal. A carriage return and a
// backspace move in the line, and later text replaces earlier text, as on a terminal. Of
// escape sequences only those that set a look have an effect (ECMA-48, SGR); all others are
// shown, so that nothing moves, hides or sends anything.
type screen struct {
	now    style
	line   []cell
	column int
	pieces []Piece
	text   strings.Builder // of the last piece
	look   style           // of the last piece
}

// render returns the pieces of a text that begins with a look. The time and the size of
// the result are linear in the text.
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

// lookAfter returns the look that holds behind a text.
func lookAfter(text []byte) style { return lookBehind(text, style{}) }

// lookBehind is lookAfter for a text that begins with a look.
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

// next takes one character or sequence, and returns how long it is.
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

// codeOf is what stands for a character that does not stand for itself. The control pictures of Unicode
// would do, but few fonts have them.
func codeOf(r rune) string {
	if r < utf8.RuneSelf {
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u{%x}`, r)
}

// sequence returns the length of the sequence for a look with which a text begins; zero for
// none.
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

// show puts a character that does not stand for itself.
func (s *screen) show(text string) {
	look := s.now
	look.control = true
	s.put(cell{text, look})
}

// put puts a character at the column.
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

// put1 adds a text to the pieces.
func (s *screen) put1(text string, look style) {
	if look != s.look {
		s.end()
		s.look = look
	}
	s.text.WriteString(text)
}

// end ends the last piece.
func (s *screen) end() {
	if s.text.Len() > 0 {
		s.pieces = append(s.pieces, Piece{s.text.String(), s.look.String()})
		s.text.Reset()
	}
}

// set changes a look by the numbers of a sequence.
func (s *style) set(codes []byte) {
	groups := strings.Split(string(codes), ";")
	for i := 0; i < len(groups); i++ {
		parts := strings.Split(groups[i], ":")
		code := number(parts[0])
		if code != 38 && code != 48 {
			s.one(code, parts[1:])
			continue
		}
		if len(parts) == 1 { // the colour is in the groups behind it
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
			parts = append(parts[:2], parts[3:]...) // without the colour space
		}
		if colour, ok := colourOf(parts[1:]); ok && code == 38 {
			s.fg = colour + 1
		} else if ok {
			s.bg = colour + 1
		}
	}
}

// number is a number of a sequence; one that is left out is zero.
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

// one changes a look by one number, and what stands behind its colons.
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

// colourOf is the nearest of the 16 colours: of one among 256, or of red, green and blue.
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

// nearest is the colour of the palette that differs least.
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

// wholeUpTo returns how much of a text can be shown although more of it will come: it ends
// with no part of a character or sequence, and where the text is long with a line.
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

// opens reports whether a text may become a sequence for a look with what comes.
func opens(text []byte) bool {
	if len(text) == 1 {
		return true
	}
	return text[1] == '[' && len(bytes.Trim(text[2:], "0123456789;:")) == 0
}
