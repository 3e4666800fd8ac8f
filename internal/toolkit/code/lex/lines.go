package lex

import "belljar.dev/internal/toolkit/code"

// countLines counts the lines of a file by its tokens. A line with nothing but white
// space is a blank one, also within a comment or a string.
func countLines(f *code.File) (n code.Lines) {
	next := 0 // the first token that does not end before the line
	for at := 0; at < len(f.Text); {
		end, blank := at, true
		for ; end < len(f.Text) && f.Text[end] != '\n'; end++ {
			blank = blank && isBlank(f.Text[end])
		}
		for next < len(f.Tokens) && int(f.Tokens[next].End) <= at {
			next++
		}
		switch {
		case blank:
			n.Blank++
		case hasCode(f, next, end):
			n.Code++
		default:
			n.Comment++
		}
		at = end + 1
	}
	return n
}

// hasCode reports whether a token of code is among those that begin before an
// offset, from a token on.
func hasCode(f *code.File, from, end int) bool {
	for _, t := range f.Tokens[from:] {
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
