package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrDeep is returned for JSON that is nested deeper than the limit.
var ErrDeep = errors.New("the message is nested too deeply")

var errUTF8 = errors.New("the text is not UTF-8")

// syntaxError is the error for a text that is not JSON.
type syntaxError struct {
	at  int // byte offset
	why string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.at, e.why) }

// DuplicateKeyError is the error for a member that occurs twice in one object. Parsers
// differ in which of the two they take, so a policy and a tool could read different calls
// from the same bytes.
type DuplicateKeyError struct{ Key string }

// Error names the member, but only the beginning of its name: a name can be as long as a
// message.
func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("the member %.80q occurs twice in one object", e.Key)
}

// CheckJSON reports whether data is exactly one JSON value in UTF-8, nested at
// most depth levels, with no member twice in an object. It allocates only for
// objects with many members or escaped names.
func CheckJSON(data []byte, depth int) error {
	if !utf8.Valid(data) {
		return errUTF8
	}
	c := checker{data: data, limit: depth}
	if err := c.value(0); err != nil {
		return err
	}
	c.space()
	if c.at != len(data) {
		return c.fault("more text after the end of the value")
	}
	return nil
}

type checker struct {
	data  []byte
	at    int
	limit int
}

func (c *checker) fault(why string) error { return &syntaxError{at: c.at, why: why} }

func (c *checker) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// next skips space and returns the byte after it, or 0 at the end.
func (c *checker) next() byte {
	c.space()
	if c.at >= len(c.data) {
		return 0
	}
	return c.data[c.at]
}

func (c *checker) value(depth int) error {
	switch b := c.next(); {
	case b == '{' || b == '[':
		if depth == c.limit {
			return ErrDeep
		}
		c.at++
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case b == '"':
		return c.text()
	case b == '-' || '0' <= b && b <= '9':
		return c.number()
	case b == 't':
		return c.word("true")
	case b == 'f':
		return c.word("false")
	case b == 'n':
		return c.word("null")
	case c.at == len(c.data):
		return c.fault("the text ends where a value should stand")
	}
	return c.fault("no JSON value starts like this")
}

func (c *checker) word(w string) error {
	if !bytes.HasPrefix(c.data[c.at:], []byte(w)) {
		return c.fault("no JSON value starts like this")
	}
	c.at += len(w)
	return nil
}

func (c *checker) array(depth int) error {
	if c.next() == ']' {
		c.at++
		return nil
	}
	for {
		if err := c.value(depth); err != nil {
			return err
		}
		switch c.next() {
		case ',':
			c.at++
		case ']':
			c.at++
			return nil
		default:
			return c.fault("a comma or ] should stand here")
		}
	}
}

func (c *checker) object(depth int) error {
	var keys keySet
	if c.next() == '}' {
		c.at++
		return nil
	}
	for {
		if c.next() != '"' {
			return c.fault("a member's name should stand here")
		}
		from := c.at
		if err := c.text(); err != nil {
			return err
		}
		if key := c.data[from:c.at]; !keys.add(key) {
			return &DuplicateKeyError{Unquote(key)}
		}
		if c.next() != ':' {
			return c.fault("a colon should stand here")
		}
		c.at++
		if err := c.value(depth); err != nil {
			return err
		}
		switch c.next() {
		case ',':
			c.at++
		case '}':
			c.at++
			return nil
		default:
			return c.fault("a comma or } should stand here")
		}
	}
}

func (c *checker) text() error {
	for c.at++; c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; {
		case b == '"':
			c.at++
			return nil
		case b < 0x20:
			return c.fault("a string contains an unescaped control character")
		case b == '\\':
			c.at++
			if err := c.escape(); err != nil {
				return err
			}
		}
	}
	return c.fault("the text ends in a string")
}

func (c *checker) escape() error {
	if c.at == len(c.data) {
		return c.fault("the text ends in a string")
	}
	switch c.data[c.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			c.at++
			if c.at == len(c.data) || !isHex(c.data[c.at]) {
				return c.fault("four hexadecimal digits should follow \\u")
			}
		}
		return nil
	}
	return c.fault("this is not a valid escape")
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

func (c *checker) number() error {
	if c.data[c.at] == '-' {
		c.at++
	}
	switch from := c.at; {
	case c.digits() == 0:
		return c.fault("a digit should stand here")
	case c.data[from] == '0' && c.at > from+1:
		return c.fault("a number starts with a zero that JSON does not allow")
	}
	if c.at < len(c.data) && c.data[c.at] == '.' {
		c.at++
		if c.digits() == 0 {
			return c.fault("a digit should stand here")
		}
	}
	if c.at < len(c.data) && (c.data[c.at] == 'e' || c.data[c.at] == 'E') {
		c.at++
		if c.at < len(c.data) && (c.data[c.at] == '+' || c.data[c.at] == '-') {
			c.at++
		}
		if c.digits() == 0 {
			return c.fault("a digit should stand here")
		}
	}
	return nil
}

func (c *checker) digits() (n int) {
	for c.at < len(c.data) && '0' <= c.data[c.at] && c.data[c.at] <= '9' {
		c.at++
		n++
	}
	return n
}

// keySet is the set of the names in one object. Most objects have few names, and a map for
// each object would cost more than the rest of the check. But comparing each name with
// every other name would let a client burn the CPU with one large object.
type keySet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

// add reports whether a quoted name was not in the set. Two names are the same if
// their unescaped forms are.
func (k *keySet) add(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		quoted = append(append([]byte{'"'}, Unquote(quoted)...), '"')
	}
	if k.n < len(k.few) {
		for _, old := range k.few[:k.n] {
			if bytes.Equal(old, quoted) {
				return false
			}
		}
		k.few[k.n] = quoted
		k.n++
		return true
	}
	if k.many == nil {
		k.many = make(map[string]struct{})
		for _, old := range k.few {
			k.many[string(old)] = struct{}{}
		}
	}
	if _, old := k.many[string(quoted)]; old {
		return false
	}
	k.many[string(quoted)] = struct{}{}
	return true
}

// Unquote returns the text of a JSON string that has passed CheckJSON.
func Unquote(quoted []byte) string { return string(unquoted(quoted)) }

// unquoted does the same as Unquote, but copies a string only if it has escapes.
func unquoted(quoted []byte) []byte {
	if len(quoted) < 2 { // the text ends within the string
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

// AppendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD; the output of a command may contain such bytes.
func AppendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// Members calls yield with each member of an object that has passed CheckJSON, in order,
// until yield returns false. The name is without its quotes.
func Members(object []byte, yield func(name, value []byte) bool) {
	c := checker{data: object}
	if c.next() != '{' {
		return
	}
	c.at++
	for c.next() == '"' {
		from := c.at
		c.skip()
		name := unquoted(object[from:c.at])
		if c.next() != ':' { // the text ends early
			return
		}
		c.at++
		c.next()
		from = c.at
		c.skip()
		if !yield(name, object[from:c.at]) || c.next() != ',' {
			return
		}
		c.at++
	}
}

// IsObject reports whether a value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// Elements calls yield with each element of an array that has passed CheckJSON, in order,
// until yield returns false.
func Elements(array []byte, yield func(value []byte) bool) {
	c := checker{data: array}
	if c.next() != '[' {
		return
	}
	c.at++
	for b := c.next(); b != ']' && b != 0; b = c.next() {
		from := c.at
		c.skip()
		if !yield(array[from:c.at]) || c.next() != ',' {
			return
		}
		c.at++
	}
}

// Member returns the value of the member name of an object that has passed CheckJSON, or
// nil.
func Member(object []byte, name string) (found []byte) {
	Members(object, func(n, value []byte) bool {
		if string(n) == name {
			found = value
		}
		return found == nil
	})
	return found
}

// skip moves past one value of checked JSON.
func (c *checker) skip() {
	depth := 0
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case '"':
			c.skipText()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return // the end of the object or array that contains this number or word
			}
			depth--
			if depth == 0 {
				c.at++
				return
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return
			}
		}
		c.at++
	}
}

func (c *checker) skipText() {
	for c.at++; c.at < len(c.data); c.at++ {
		switch c.data[c.at] {
		case '\\':
			c.at++
		case '"':
			c.at++
			return
		}
	}
	c.at = len(c.data) // the text ends early, maybe within an escape
}
