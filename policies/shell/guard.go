package shell

import (
	"errors"
	"io"
	"runtime"
	"strings"
)

// Bounds of what is read.
const (
	MaxText     = 64 << 10 // bytes of a script
	MaxDepth    = 64       // substitutions, brackets and quotes in each other
	MaxCommands = 1000

	maxNested = 4 * MaxText // bytes of all nested texts together, for example those of bash -c
	maxWords  = 1024        // that braces may make of one word
	maxMade   = 4 * MaxText // bytes that braces may make of one script
)

// guard refuses what must not reach the parser.
//
// The parser calls itself for each level of nesting, without a bound: some
// hundred thousand levels exhaust the stack, which ends the process. nested
// counts in one pass over the bytes, and never less than the levels of brackets
// outside quotes; what it does not count (quotes as levels, keywords, operators
// of arithmetic) is bounded by the length of the text and by shallow.
func guard(text string) *Error {
	if len(text) > MaxText {
		return &Error{Kind: TooLong, Offset: MaxText, Why: "it is longer than 64 KiB"}
	}
	// bash drops NUL bytes and takes a carriage return for a letter, which the
	// parser takes for a blank; it marks its own text with the other two.
	if i := strings.IndexAny(text, "\x00\r\x01\x7f"); i >= 0 {
		why := "it contains a control character that shells read in different ways"
		switch text[i] {
		case 0:
			why = "it contains a NUL byte"
		case '\r':
			why = "it contains a carriage return"
		}
		return &Error{Kind: Foreign, Offset: i, Why: why}
	}
	if at := nested(text); at >= 0 {
		return deep(at)
	}
	return nil
}

func deep(at int) *Error {
	return &Error{Kind: TooDeep, Offset: at, Why: "it nests more than 64 levels deep"}
}

// nested is the first byte at which more than MaxDepth opening brackets have
// not been closed, or -1.
func nested(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			if depth++; depth > MaxDepth {
				return i
			}
		case ')', '}':
			depth = max(depth-1, 0)
		}
	}
	return -1
}

// maxFrames is how many calls the parser may be in at once: MaxDepth levels
// take a dozen each.
const maxFrames = 1500

var errDeep = errors.New("too deep")

// shallow hands a text to the parser, a kilobyte at most at a time, and refuses
// to go on once the parser stands too many calls deep. It sees nesting of every
// kind, also where quotes hide brackets from nested.
type shallow struct {
	text string
	at   int
	from int // calls below the parser's own
	pcs  []uintptr
}

// reset starts a text.
func (s *shallow) reset(text string) {
	s.text, s.at, s.from = text, 0, 0
	if len(text) < 512 {
		return // the parser has it all with the first read
	}
	if s.pcs == nil {
		s.pcs = make([]uintptr, maxFrames+1)
	}
	s.from = runtime.Callers(1, s.pcs)
}

// Read is io.Reader.
func (s *shallow) Read(b []byte) (int, error) {
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	if s.at > 0 && s.from > 0 && (s.from > maxFrames/2 || runtime.Callers(1, s.pcs) > s.from+maxFrames/2) {
		return 0, errDeep
	}
	n := copy(b, s.text[s.at:])
	s.at += n
	return n, nil
}
