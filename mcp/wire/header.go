package wire

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Headers of the modern era repeat parts of a request, for programs on its way that route
// or judge the request and do not read its body (2026-07-28, "Request Metadata"). A header
// must say the same as the body: otherwise one request is judged, and another one runs.

// ParamHeader is the prefix of the names of the headers that repeat arguments.
const ParamHeader = "Mcp-Param-"

const (
	mostHeader    = 8 << 10 // most bytes of a text in a header: half of the limit for all headers
	deepestHeader = 16      // levels of nested properties that are searched for arguments with a header
	safeInteger   = 1<<53 - 1
	encodedStart  = "=?base64?"
	encodedEnd    = "?="
)

// Repeats are the arguments of a tool that headers repeat, because their properties in its
// input schema have x-mcp-header. A nil *Repeats contains no arguments.
type Repeats struct {
	header string // name of this argument's header; empty if it has none
	names  []string
	below  map[string]*Repeats // the properties of this argument, by name
}

// ReadRepeats returns the arguments of an input schema that headers repeat, or nil if there
// are no such arguments.
func ReadRepeats(schema []byte) *Repeats { return readRepeats(schema, "", deepestHeader) }

func readRepeats(schema []byte, header string, depth int) *Repeats {
	r := &Repeats{header: header, below: make(map[string]*Repeats)}
	if properties := Member(schema, "properties"); depth > 0 && IsObject(properties) {
		Members(properties, func(name, property []byte) bool {
			if !IsObject(property) {
				return true
			}
			own := Text(Member(property, "x-mcp-header"))
			if isToken(own) {
				own = ParamHeader + own
			} else {
				own = ""
			}
			if one := readRepeats(property, own, depth-1); one != nil {
				r.names = append(r.names, string(name))
				r.below[string(name)] = one
			}
			return true
		})
	}
	if header == "" && len(r.names) == 0 {
		return nil
	}
	return r
}

// Each calls yield with each argument that a header repeats, until yield returns false. The
// argument is nil if the call does not have it. Each reads each byte of the arguments at
// most once for each level of properties.
func (r *Repeats) Each(arguments []byte, yield func(header string, argument []byte) bool) (goOn bool) {
	if r == nil {
		return true
	}
	found := make(map[string][]byte)
	if len(r.names) > 0 && IsObject(arguments) {
		Members(arguments, func(name, value []byte) bool {
			if r.below[string(name)] != nil {
				found[string(name)] = value
			}
			return true
		})
	}
	for _, name := range r.names {
		one := r.below[name]
		if one.header != "" && !yield(one.header, found[name]) || !one.Each(found[name], yield) {
			return false
		}
	}
	return true
}

// HeaderText returns the text of an argument that a header can repeat: a string that is not
// too long, a whole number or a truth value. It returns false for any other argument.
func HeaderText(argument []byte) (text string, ok bool) {
	if len(argument) == 0 {
		return "", false
	}
	switch argument[0] {
	case '"':
		text = Text(argument)
		return text, len(text) <= mostHeader
	case 't', 'f':
		return string(argument), true
	case 'n', '{', '[':
		return "", false
	}
	n, ok := wholeNumber(string(argument))
	return strconv.FormatInt(n, 10), ok
}

// wholeNumber returns the whole number that a text stands for, in any form of JSON, if every client
// can write it exactly.
func wholeNumber(text string) (n int64, ok bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "-+.0123456789eE") != "" || strings.HasPrefix(text, "+") || f != math.Trunc(f) || math.Abs(f) > safeInteger {
		return 0, false
	}
	return int64(f), true
}

// HeaderSays reports whether the decoded value of a header is the same as an argument. A
// whole number has several forms. For an object, an array, null or any other number
// HeaderSays returns false.
func HeaderSays(value string, argument []byte) bool {
	if len(argument) == 0 {
		return false
	}
	switch argument[0] {
	case '"':
		return value == Text(argument)
	case 't', 'f':
		return value == string(argument)
	case 'n', '{', '[':
		return false
	}
	want, ok := wholeNumber(string(argument))
	got, is := wholeNumber(value)
	return ok && is && got == want
}

// isToken reports whether a text can be a part of a header's name (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	for _, b := range []byte(text) {
		letter := '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= 128
}

// EncodeHeader returns a text as the value of a header. A text that a header cannot contain
// as it is becomes base64.
func EncodeHeader(text string) string {
	encoded := strings.HasPrefix(text, encodedStart) && strings.HasSuffix(text, encodedEnd)
	plain := !encoded && text == strings.Trim(text, " \t")
	for _, b := range []byte(text) {
		plain = plain && (b >= ' ' && b < 0x7f || b == '\t')
	}
	if plain {
		return text
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(text)) + encodedEnd
}

// DecodeHeader returns the text that the value of a header stands for. It returns false for
// a value that is not valid base64, or not UTF-8.
func DecodeHeader(value string) (text string, ok bool) {
	encoded, starts := strings.CutPrefix(value, encodedStart)
	encoded, ends := strings.CutSuffix(encoded, encodedEnd)
	if !starts || !ends {
		return value, true
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(raw), err == nil && utf8.Valid(raw)
}
