package pin

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of a text that has a canonical form.
const (
	maxDepth    = 128
	maxExponent = 100_000
)

// The reasons why a text has no canonical form. If two readers could understand a
// definition differently, a person cannot trust it.
var (
	errUTF8      = errors.New("it is not UTF-8")
	errSyntax    = errors.New("it is not JSON")
	errDeep      = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	errTwice     = errors.New("it has an object with the same member twice")
	errSurrogate = errors.New("it has half of a surrogate pair, which is not a character")
	errNumber    = errors.New("it has a number with an exponent that is too large")
)

// canon converts JSON texts to their canonical form: two texts have the same canonical
// form exactly if they have the same meaning. The form is that of RFC 8785, with two
// differences.
//
//   - Strings are in Unicode's normal form C, so that it does not matter how a server
//     composes its letters.
//   - A number is written as RFC 8785 writes it, but with all its digits. The RFC rounds to
//     a double: 9007199254740993 and 9007199254740992 would be the same.
//
// The zero canon is ready for use; it keeps its buffers for the next text.
type canon struct {
	in      []byte
	at      int // index of the next byte of in
	out     []byte
	members []member // members of the open objects
	names   []byte   // names of members, unquoted
	spare   []byte   // buffer for sorting the members of an object
}

// member is a member of an object. It has no pointers, so that sorting costs little.
type member struct {
	name, end int // offsets in names
	from, to  int // offsets in out
}

// append appends the canonical form of a text to out.
func (c *canon) append(out, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	c.in, c.at, c.out, c.members, c.names = text, 0, out, c.members[:0], c.names[:0]
	err := c.value(0)
	if c.space(); err == nil && c.at != len(c.in) {
		err = errSyntax
	}
	out, c.in, c.out = c.out, nil, nil
	if err != nil {
		return nil, err
	}
	return out, nil
}

// next returns the next byte that is not white space, or 0 at the end.
func (c *canon) next() byte {
	if c.space(); c.at < len(c.in) {
		return c.in[c.at]
	}
	return 0
}

func (c *canon) space() {
	for c.at < len(c.in) {
		switch c.in[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// value writes the value that begins at c.at. depth is the number of values around it.
func (c *canon) value(depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch b := c.next(); b {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		_, err := c.text()
		return err
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	default:
		return c.number()
	}
}

func (c *canon) word(word string) error {
	if !bytes.HasPrefix(c.in[c.at:], []byte(word)) {
		return errSyntax
	}
	c.at += len(word)
	c.out = append(c.out, word...)
	return nil
}

func (c *canon) array(depth int) error {
	c.at++
	c.out = append(c.out, '[')
	for n := 0; ; n++ {
		if more, err := c.more(n, ']'); !more {
			c.out = append(c.out, ']')
			return err
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
}

// more reports whether an array or object, which ends with the byte end, has a further
// element after n elements. It writes the comma before that element.
func (c *canon) more(n int, end byte) (bool, error) {
	switch b := c.next(); {
	case b == end:
		c.at++
		return false, nil
	case n > 0 && b != ',':
		return false, errSyntax
	case n > 0:
		c.at++
		c.out = append(c.out, ',')
	}
	return true, nil
}

func (c *canon) object(depth int) error {
	c.at++
	c.out = append(c.out, '{')
	first, names, start := len(c.members), len(c.names), len(c.out)
	for n := 0; ; n++ {
		if more, err := c.more(n, '}'); !more {
			if err == nil {
				err = c.order(c.members[first:], start)
			}
			c.out = append(c.out, '}')
			c.members, c.names = c.members[:first], c.names[:names]
			return err
		}
		if c.next() != '"' {
			return errSyntax
		}
		m := member{name: len(c.names), from: len(c.out)}
		name, err := c.text()
		if err != nil {
			return err
		}
		c.names = append(c.names, name...)
		m.end = len(c.names)
		if c.next() != ':' {
			return errSyntax
		}
		c.at++
		c.out = append(c.out, ':')
		if err := c.value(depth + 1); err != nil {
			return err
		}
		m.to = len(c.out)
		c.members = append(c.members, m)
	}
}

// order sorts the members of an object, whose text is c.out[start:]. If two members have
// the same name, it returns errTwice.
func (c *canon) order(members []member, start int) error {
	byName := func(a, b member) int { return compare(c.names[a.name:a.end], c.names[b.name:b.end]) }
	if !slices.IsSortedFunc(members, byName) {
		slices.SortFunc(members, byName)
		c.spare = append(c.spare[:0], c.out[start:]...)
		c.out = c.out[:start]
		for i, m := range members {
			if i > 0 {
				c.out = append(c.out, ',')
			}
			c.out = append(c.out, c.spare[m.from-start:m.to-start]...)
		}
	}
	for i := 1; i < len(members); i++ {
		if byName(members[i-1], members[i]) == 0 {
			return errTwice
		}
	}
	return nil
}

// compare orders names as RFC 8785 does, by their UTF-16 code units. That is the order of
// their bytes, with one exception: a surrogate is less than U+E000 to U+FFFF, which begin
// with the bytes 0xee and 0xef, while characters that need surrogates begin with 0xf0 or
// more.
func compare(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0) {
			x, y = y, x
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}

// text reads and writes a string, and returns it unquoted and in normal form C. A string
// without escapes is written without any: it has no character that needs one, and normal
// form C creates none.
func (c *canon) text() ([]byte, error) {
	c.at++
	from, ascii := c.at, true
	for c.at < len(c.in) {
		switch b := c.in[c.at]; {
		case b == '"':
			text := normal(c.in[from:c.at], ascii)
			c.at++
			c.out = append(append(append(c.out, '"'), text...), '"')
			return text, nil
		case b == '\\':
			text, err := c.unescaped(from)
			if err != nil {
				return nil, err
			}
			text = normal(text, false)
			c.out = appendText(c.out, text)
			return text, nil
		case b < ' ':
			return nil, errSyntax
		case b >= utf8.RuneSelf:
			ascii = false
		}
		c.at++
	}
	return nil, errSyntax
}

func normal(text []byte, ascii bool) []byte {
	if ascii || norm.NFC.IsNormal(text) {
		return text
	}
	return norm.NFC.Bytes(text)
}

// unescaped reads the rest of a string that has escapes and began at from.
func (c *canon) unescaped(from int) ([]byte, error) {
	text := append([]byte(nil), c.in[from:c.at]...)
	for c.at < len(c.in) {
		b := c.in[c.at]
		c.at++
		switch {
		case b == '"':
			return text, nil
		case b < ' ':
			return nil, errSyntax
		case b != '\\':
			text = append(text, b)
		default:
			r, err := c.escape()
			if err != nil {
				return nil, err
			}
			text = utf8.AppendRune(text, r)
		}
	}
	return nil, errSyntax
}

// escape reads the characters after a backslash.
func (c *canon) escape() (rune, error) {
	if c.at == len(c.in) {
		return 0, errSyntax
	}
	b := c.in[c.at]
	c.at++
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), b); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if b != 'u' {
		return 0, errSyntax
	}
	r, err := c.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !bytes.HasPrefix(c.in[c.at:], []byte(`\u`)) {
		return 0, errSurrogate
	}
	c.at += 2
	low, err := c.unit()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, errSurrogate
	}
	return r, nil
}

// unit reads the four digits of a UTF-16 code unit.
func (c *canon) unit() (rune, error) {
	if len(c.in)-c.at < 4 {
		return 0, errSyntax
	}
	var r rune
	for _, b := range c.in[c.at : c.at+4] {
		switch {
		case '0' <= b && b <= '9':
			r = r<<4 | rune(b-'0')
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			r = r<<4 | rune(b|0x20-'a'+10)
		default:
			return 0, errSyntax
		}
	}
	c.at += 4
	return r, nil
}

// appendText writes a string as RFC 8785 does, which escapes as little as JSON allows.
func appendText(out, text []byte) []byte {
	out = append(out, '"')
	from := 0
	for i, b := range text {
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		out = append(out, text[from:i]...)
		from = i + 1
		if at := bytes.IndexByte([]byte("\"\\\b\f\n\r\t"), b); at >= 0 {
			out = append(out, '\\', `"\bfnrt`[at])
		} else {
			out = fmt.Appendf(out, `\u%04x`, b)
		}
	}
	return append(append(out, text[from:]...), '"')
}

// number writes the number that begins at c.at.
func (c *canon) number() error {
	negative := false
	if c.at < len(c.in) && c.in[c.at] == '-' {
		negative = true
		c.at++
	}
	whole := c.digits()
	if len(whole) == 0 || len(whole) > 1 && whole[0] == '0' {
		return errSyntax
	}
	var fraction []byte
	if c.at < len(c.in) && c.in[c.at] == '.' {
		c.at++
		if fraction = c.digits(); len(fraction) == 0 {
			return errSyntax
		}
	}
	exponent := 0
	if c.at < len(c.in) && c.in[c.at]|0x20 == 'e' {
		from := c.at + 1
		if c.at = from; c.at < len(c.in) && (c.in[c.at] == '+' || c.in[c.at] == '-') {
			c.at++
		}
		if len(c.digits()) == 0 {
			return errSyntax
		}
		var err error
		if exponent, err = strconv.Atoi(string(c.in[from:c.at])); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return errNumber
		}
	}
	// The number is 0.DIGITS times ten to the power of point.
	all := append(append([]byte(nil), whole...), fraction...)
	point := len(whole) + exponent
	for len(all) > 0 && all[0] == '0' {
		all, point = all[1:], point-1
	}
	c.out = appendNumber(c.out, negative, bytes.TrimRight(all, "0"), point)
	return nil
}

func (c *canon) digits() []byte {
	from := c.at
	for c.at < len(c.in) && '0' <= c.in[c.at] && c.in[c.at] <= '9' {
		c.at++
	}
	return c.in[from:c.at]
}

// appendNumber writes 0.DIGITS times ten to the power of point as ECMAScript writes numbers
// (ECMA-262, Number::toString), which RFC 8785 refers to.
func appendNumber(out []byte, negative bool, digits []byte, point int) []byte {
	if len(digits) == 0 {
		return append(out, '0') // also for -0
	}
	if negative {
		out = append(out, '-')
	}
	n := len(digits)
	switch {
	case n <= point && point <= 21:
		out = append(out, digits...)
		return append(out, bytes.Repeat([]byte{'0'}, point-n)...)
	case 0 < point && point <= 21:
		return append(append(append(out, digits[:point]...), '.'), digits[point:]...)
	case -6 < point && point <= 0:
		out = append(append(out, "0."...), bytes.Repeat([]byte{'0'}, -point)...)
		return append(out, digits...)
	}
	if out = append(out, digits[0]); n > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	return fmt.Appendf(out, "e%+d", point-1)
}
