package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// countLines counts the lines of a text by its tokens. A line that contains only white
// space is blank, also within a comment or a string.
func countLines(text string, tokens []code.Token) (n code.Lines) {
	next := 0 // first token that does not end before the line
	for at := 0; at < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		first := at // offset of the line's first byte that is not white space
		for first < end && isBlank(text[first]) {
			first++
		}
		for next < len(tokens) && int(tokens[next].End) <= at {
			next++
		}
		switch {
		case first == end:
			n.Blank++
		// #! in the first line names a program
		case hasCode(tokens[next:], end) || at == 0 && strings.HasPrefix(text, "#!"):
			n.Code++
		default:
			n.Comment++
		}
		at = end + 1
	}
	return n
}

// hasCode reports whether a token of code is among those that begin before an offset.
func hasCode(tokens []code.Token, end int) bool {
	for _, t := range tokens {
		if int(t.Start) >= end {
			return false
		}
		switch t.Kind {
		case code.Comment, code.Newline, code.Indent, code.Dedent:
		case code.Operator, code.Name, code.Keyword, code.Number, code.String:
			return true
		}
	}
	return false
}
