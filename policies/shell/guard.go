package shell

import (
	"errors"
	"io"
	"runtime"
	"strings"
)

// Bounds of a text that is read.
const (
	MaxText     = 64 << 10 // bytes of a script
	MaxDepth    = 64       // levels of nested substitutions, brackets and quotes
	MaxCommands = 1000

	maxNested = 4 * MaxText // bytes of all nested texts together, for example those of bash -c
	maxWords  = 1024        // words that braces may make of one word
	maxMade   = 4 * MaxText // bytes that braces may make of one script
)

// guard refuses texts that must not reach the parser.
//
// The parser calls itself for each level of nesting, without a bound: some hundred thousand
// levels exhaust the stack, which ends the process. nested counts the levels of brackets
// outside quotes, or more, in one pass over the bytes. The levels that it does not count
// (quotes, keywords, operators of arithmetic) are bounded by the length of the text and by
// shallow.
func guard(text string) *Error {
	if len(text) > MaxText {
		return &Error{Kind: TooLong, Offset: MaxText, Why: "it is longer than 64 KiB"}
	}
	// bash drops NUL bytes, and takes a carriage return for a letter, which the parser
	// takes for a blank. bash uses the other two characters as marks in its own text.
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

// nested returns the first byte at which more than MaxDepth brackets are open, or -1.
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

// maxFrames bounds the depth of the parser's calls: each of MaxDepth levels takes about a
// dozen calls.
const maxFrames = 1500

var errDeep = errors.New("too deep")

// shallow passes a text to the parser, at most a kilobyte at a time. It returns an error if
// the depth of the parser's calls is too large. So it sees nesting of every kind, even if
// quotes hide brackets from nested.
type shallow struct {
	text string
	at   int
	from int // depth of calls when the parser starts
	pcs  []uintptr
}

// reset starts a new text.
func (s *shallow) reset(text string) {
	s.text, s.at, s.from = text, 0, 0
	if len(text) < 512 {
		return // the first read gives the parser the whole text
	}
	if s.pcs == nil {
		s.pcs = make([]uintptr, maxFrames+1)
	}
	s.from = runtime.Callers(1, s.pcs)
}

// Read implements io.Reader.
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
