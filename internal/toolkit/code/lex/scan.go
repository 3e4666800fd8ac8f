package lex

import (
	"slices"
	"sync"

	"belljar.dev/internal/toolkit/code"
)

// tokenizer walks over a text once and collects its tokens.
type tokenizer struct {
	text   string
	at     int   // offset of the next byte
	line   int32 // line of the next byte, from 1
	tokens []code.Token
}

// span is a part of a text.
type span struct{ start, end int }

// rooms contains the unused ends of slices for tokens. The number of tokens of a text is
// not known before, so the texts of a project use one slice after the other.
var rooms sync.Pool // contains *[]code.Token, each empty

// newRoom is the smallest capacity of a new slice for tokens.
const newRoom = 1 << 14

// newTokenizer returns a tokenizer at the start of a text, after a byte order mark. The
// caller must call done.
func newTokenizer(text string) *tokenizer {
	s := &tokenizer{text: text, line: 1}
	if room, ok := rooms.Get().(*[]code.Token); ok && cap(*room) >= len(text)/4+8 {
		s.tokens = *room
	} else {
		s.tokens = make([]code.Token, 0, max(len(text)/4+8, newRoom))
	}
	if len(text) >= 3 && text[:3] == "\ufeff" {
		s.at = 3
	}
	return s
}

// done returns the tokens, and releases the unused capacity of their slice.
func (s *tokenizer) done() []code.Token {
	n := len(s.tokens)
	rest := s.tokens[n:]
	s.tokens = s.tokens[:n:n]
	rooms.Put(&rest)
	return s.tokens
}

// peek returns the byte n bytes after the next one, or 0 after the end.
func (s *tokenizer) peek(n int) byte {
	if s.at+n < len(s.text) {
		return s.text[s.at+n]
	}
	return 0
}

// has reports whether the rest of the text begins with what.
func (s *tokenizer) has(what string) bool {
	return len(s.text)-s.at >= len(what) && s.text[s.at:s.at+len(what)] == what
}

// take makes a token of the bytes up to end, and moves there. Names, keywords, numbers and
// operators do not span lines.
func (s *tokenizer) take(kind code.Kind, end int) {
	s.emit(kind, s.at, end, s.line)
	switch kind {
	case code.Name, code.Keyword, code.Number, code.Operator:
		s.at = end
	case code.String, code.Comment, code.Newline, code.Indent, code.Dedent:
		s.to(end)
	}
}

// emit adds a token that begins on a line. A text rarely has more tokens than a quarter of
// its bytes. If it has more, the slice grows once to the most that the text can have:
// growing step by step would take several times the memory.
func (s *tokenizer) emit(kind code.Kind, start, end int, line int32) {
	if len(s.tokens) == cap(s.tokens) {
		s.tokens = slices.Grow(s.tokens, len(s.text)-start+8)
	}
	s.tokens = append(s.tokens, code.Token{Start: int32(start), End: int32(end), Line: line, Kind: kind})
}

// to moves to an offset after the current one, and counts the lines between.
func (s *tokenizer) to(end int) {
	for i := s.at; i < end; i++ {
		if s.text[i] == '\n' {
			s.line++
		}
	}
	s.at = end
}

// lineEnd returns the offset of the end of the line that contains an offset, without the
// line end itself.
func (s *tokenizer) lineEnd(from int) int {
	for i := from; i < len(s.text); i++ {
		if s.text[i] == '\n' {
			if i > from && s.text[i-1] == '\r' {
				return i - 1
			}
			return i
		}
	}
	return len(s.text)
}

// past returns the offset after the first occurrence of a mark at or after an offset, or
// the end of the text if the mark does not occur.
func (s *tokenizer) past(from int, mark string) int {
	for i := from; i+len(mark) <= len(s.text); i++ {
		if s.text[i] == mark[0] && s.text[i:i+len(mark)] == mark {
			return i + len(mark)
		}
	}
	return len(s.text)
}

// quoted returns the offset after a string that begins at an offset. The string has a quote
// of one byte at its start and end, and the backslash is its escape. A string that may not
// span lines ends at the end of the line.
func (s *tokenizer) quoted(from int, lines bool) int {
	quote := s.text[from]
	for i := from + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case quote:
			return i + 1
		case '\\':
			i++
			if !lines && i+1 < len(s.text) && s.text[i] == '\r' && s.text[i+1] == '\n' {
				i++
			}
		case '\n':
			if !lines {
				return i
			}
		}
	}
	return len(s.text)
}

// name returns the offset after a name that begins at an offset.
func (s *tokenizer) name(from int) int {
	text, i := s.text, from
	for i < len(text) && inName(text[i]) {
		i++
	}
	return i
}

// number returns the offset after a number that begins at an offset: digits, letters,
// underscores, a point that neither a name nor another point follows, and the sign of an
// exponent.
func (s *tokenizer) number(from int) int {
	hex := from+1 < len(s.text) && s.text[from] == '0' && (s.text[from+1]|0x20) == 'x'
	i := from
	for i < len(s.text) {
		c := s.text[i]
		switch {
		case c < 0x80 && inName(c):
			i++
			exponent := c|0x20 == 'e' && !hex || c|0x20 == 'p' && hex
			if exponent && i+1 < len(s.text) && (s.text[i] == '+' || s.text[i] == '-') && isDigit(s.text[i+1]) {
				i++
			}
		case c == '.' && (i+1 >= len(s.text) || s.text[i+1] != '.' && !startsName(s.text[i+1])):
			i++
		default:
			return i
		}
	}
	return i
}

// startsName reports whether a name can begin with c. All bytes of characters
// beyond ASCII count as parts of names.
func startsName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func inName(c byte) bool { return c >= 0x80 || nameBits[c>>6]>>(c&63)&1 != 0 }

// nameBits has a bit for each digit, letter and the underscore.
var nameBits = [2]uint64{0x3ff << '0', 0x7fffffe_87fffffe}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isBlank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'
}

// tail returns the text before the dot of a call, and only the end of a long text.
func tail(of string) string {
	const most = 64
	return of[max(0, len(of)-most):]
}

// gap records what of f was not measured, and why.
func gap(f *code.File, field, reason string) {
	f.Gaps = append(f.Gaps, code.Gap{Path: f.Path, Field: field, Reason: reason})
}
