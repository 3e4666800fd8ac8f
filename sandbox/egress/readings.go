package egress

import (
	"html"
	"slices"
	"unicode/utf8"
)

// Bounds of the attempts to read one place of a text.
const (
	maxNested   = 3  // levels of escapes, for example those of JSON in a URL in JSON
	maxReading  = 64 // length of one reading in bytes
	maxReadings = 12 // readings of one place
	maxEntity   = 24 // letters of an HTML entity's name; entities of ASCII characters have fewer
)

// readings are the ways to read the beginning of a text. It is not known which escapes
// the text uses, so each kind is tried: those of JSON, JavaScript, C, shells, URLs,
// HTML and quoted-printable. Each character of an escape may be escaped itself, so a
// place is read level by level: the characters that one level of escapes gives may be
// parts of an escape of the next level.
type readings struct {
	list [2 * maxReadings]reading
	size int
	more bool // whether the text ends inside of what may be an escape

	b     []byte
	from  int // where b begins in the whole text
	run   int // the number of the call of read
	level [maxNested + 1][maxReading]chars
}

// reading is one way to read the bytes at a place: n of them stand for text.
type reading struct {
	text [utf8.UTFMax]byte
	size int // length of text; 0 if the bytes stand for nothing, for example for a soft line break
	n    int // number of bytes that were read
}

// chars are the characters that one place may stand for, at one level of escapes. They are
// kept for the next read, which would find the same, unless b ended too early to find all
// of them.
type chars struct {
	at   int // the place in the whole text, plus 1
	run  int // the call of read in which b ended too early; 0 if b did not
	size int
	list [maxReadings]char
}

// char is a character that was read.
type char struct {
	c   rune
	end int // end of the bytes that were read for the character, in the whole text
}

// nothing is the character of an escape that stands for no character.
const nothing = -1

// opener contains the bytes with which an escape may begin.
var opener = [256]bool{'\\': true, '%': true, '&': true, '=': true, '+': true, 0xc2: true, 0xc3: true}

// read finds the readings of the beginning of b, which is not empty and begins at
// from in the whole text.
func (r *readings) read(b []byte, from int) {
	r.size, r.more, r.b, r.from = 0, false, b, from
	if !opener[b[0]] {
		r.add(char{rune(b[0]), from + 1})
		return
	}
	r.run++
	all := r.at(from, 1)
	again := func(c char) bool { return 0 <= c.c && c.c <= 0xff && opener[c.c] }
	if !single(b) || slices.ContainsFunc(all[1:], again) {
		all = r.at(from, maxNested)
	}
	for _, c := range all {
		r.add(c)
	}
}

// single reports whether no other escape begins inside of the escape with which b begins.
// That is nearly always true, and saves most of the work.
func single(b []byte) bool {
	longest := 2 // length of most escapes in bytes, after the opener
	switch b[0] {
	case '\\':
		longest = len("U00000000")
	case '%':
		longest = len("u0000")
	case '&':
		longest = maxEntity + 1
	}
	for _, c := range b[1:min(len(b), longest+1)] {
		if opener[c] {
			return false
		}
		if c != '#' && c != '{' && c != '\r' && !isAlnum(rune(c)) {
			break
		}
	}
	return true
}

// add adds the readings of a character. A character of Latin-1 may also stand for its byte.
func (r *readings) add(c char) {
	o := &r.list[r.size]
	if o.size, o.n = 0, c.end-r.from; c.c <= 0xff {
		if c.c != nothing {
			o.text[0], o.size = byte(c.c), 1
		}
		r.size++
	}
	if c.c >= utf8.RuneSelf && utf8.ValidRune(c.c) {
		o = &r.list[r.size]
		o.size, o.n = utf8.EncodeRune(o.text[:], c.c), c.end-r.from
		r.size++
	}
}

// at returns the characters that may be read at the place i of the whole text, through at
// most deep levels of escapes.
func (r *readings) at(i, deep int) []char {
	if i >= r.from+len(r.b) {
		r.more = true
		return nil
	}
	p := &r.level[deep][i%maxReading]
	if p.at != i+1 || p.run != 0 && p.run != r.run {
		more := r.more
		r.more = false
		*p = chars{at: i + 1}
		first := r.b[i-r.from]
		p.add(rune(first), i+1)
		if deep > 0 && opener[first] {
			for _, open := range r.at(i, deep-1) {
				if 0 <= open.c && open.c <= 0xff && opener[open.c] {
					r.escape(p, byte(open.c), open.end, deep-1)
				}
			}
		}
		if r.more {
			p.run = r.run
		}
		r.more = r.more || more
	} else if p.run != 0 {
		r.more = true
	}
	return p.list[:p.size]
}

func (p *chars) add(c rune, end int) {
	if p.size < maxReadings {
		p.list[p.size] = char{c, end}
		p.size++
	}
}

// escape adds the characters that an escape may stand for; its opener was read.
func (r *readings) escape(to *chars, open byte, i, deep int) {
	switch open {
	case '+': // a space in an HTML form
		to.add(' ', i)
		return
	case '%', '=': // RFC 3986, 2.1, and RFC 2045, 6.7
		r.number(to, byte2, 0, 0, i, deep)
	}
	for _, c := range r.at(i, deep) {
		switch {
		case open == '\\':
			r.backslash(to, c, deep)
		case open == '&' && c.c == '#':
			r.number(to, number{base: 10, least: 1, most: 8, end: ';'}, 0, 0, c.end, deep)
			for _, x := range r.at(c.end, deep) {
				if x.c|0x20 == 'x' {
					r.number(to, number{base: 16, least: 1, most: 8, end: ';'}, 0, 0, x.end, deep)
				}
			}
		case open == '&' && isAlnum(c.c):
			var name [maxEntity]byte
			name[0] = byte(c.c)
			r.entity(to, &name, 1, c.end, deep)
		case open == '%' && c.c|0x20 == 'u': // JavaScript's escape function
			r.number(to, byte4, 0, 0, c.end, deep)
		case open == '=':
			r.lineEnd(to, c, deep)
		case open >= 0xc2 && 0x80 <= c.c && c.c < 0xc0: // two bytes of UTF-8 for one character of Latin-1
			to.add(rune(open&3)<<6|c.c&0x3f, c.end)
		}
	}
}

// number describes how a number in an escape is written.
type number struct {
	base        rune
	least, most rune // number of digits
	end         rune // the character that must follow; 0 if any may
}

var (
	byte2 = number{base: 16, least: 2, most: 2}
	byte4 = number{base: 16, least: 4, most: 4}
	byte8 = number{base: 16, least: 8, most: 8}
)

// number reads the rest of a number whose first n digits were read.
func (r *readings) number(to *chars, of number, n, value rune, i, deep int) {
	if n >= of.least && of.end == 0 {
		to.add(value, i)
	}
	if n == of.most && of.end == 0 {
		return
	}
	for _, c := range r.at(i, deep) {
		if d, ok := hexDigit(c.c); ok && d < of.base && n < of.most {
			r.number(to, of, n+1, value*of.base+d, c.end, deep)
		} else if n >= of.least && c.c == of.end {
			to.add(value, c.end)
		}
	}
}

func hexDigit(c rune) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return (c | 0x20) - 'a' + 10, true
	}
	return 0, false
}

// lineEnd reads the end of a line that the encoding has added.
func (r *readings) lineEnd(to *chars, c char, deep int) {
	if c.c == '\n' {
		to.add(nothing, c.end)
	}
	if c.c == '\r' {
		for _, c := range r.at(c.end, deep) {
			if c.c == '\n' {
				to.add(nothing, c.end)
			}
		}
	}
}

// backslash reads what follows a backslash.
func (r *readings) backslash(to *chars, c char, deep int) {
	switch {
	case c.c|0x20 == 'x':
		r.number(to, byte2, 0, 0, c.end, deep)
	case c.c|0x20 == 'u': // the case of letters changes in names of headers
		r.number(to, byte4, 0, 0, c.end, deep)
		r.number(to, byte8, 0, 0, c.end, deep)
		for _, c := range r.at(c.end, deep) {
			if c.c == '{' {
				r.number(to, number{base: 16, least: 1, most: 6, end: '}'}, 0, 0, c.end, deep)
			}
		}
	case '0' <= c.c && c.c <= '7':
		r.number(to, number{base: 8, least: 1, most: 3}, 1, c.c-'0', c.end, deep)
	case c.c == 'n':
		to.add('\n', c.end)
	case c.c == 'r':
		to.add('\r', c.end)
	case c.c == '\n', c.c == '\r':
		r.lineEnd(to, c, deep)
	case c.c > ' ' && c.c < utf8.RuneSelf && !isAlnum(c.c):
		to.add(c.c, c.end)
	}
}

func isAlnum(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// entity reads the rest of an HTML entity's name whose first n letters were read.
func (r *readings) entity(to *chars, name *[maxEntity]byte, n, i, deep int) {
	for _, c := range r.at(i, deep) {
		switch {
		case c.c == ';':
			known, ok := entities[string(name[:n])]
			if !ok {
				text := html.UnescapeString("&" + string(name[:n]) + ";")
				var size int
				known, size = utf8.DecodeRuneInString(text)
				ok = size == len(text)
			}
			if ok {
				to.add(known, c.end)
			}
		case isAlnum(c.c) && n < maxEntity:
			name[n] = byte(c.c)
			r.entity(to, name, n+1, c.end, deep)
		}
	}
}

// entities are the HTML entities that are written most often.
var entities = map[string]rune{"amp": '&', "apos": '\'', "gt": '>', "lt": '<', "nbsp": 0xa0, "quot": '"'}
