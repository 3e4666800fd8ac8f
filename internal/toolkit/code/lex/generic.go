package lex

import (
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
)

// parsePlain makes tokens of a text in a language without a lexer of its own, and finds no
// functions in it. A text in an unknown language has no comments and no strings, because an
// apostrophe in prose does not begin a string.
func parsePlain(f *code.File) {
	look := f.Language.Plain()
	if look == nil {
		look = &code.Plain{}
		if f.Language != code.Other {
			gap(f, "functions", "no lexer of its own for "+string(f.Language))
		}
	}
	f.Tokens = generic(f.Text, look)
}

// generic splits a text into tokens as a language writes them. The keywords are the words
// that many languages reserve. In a language for data, every word is a keyword.
func generic(text string, look *code.Plain) []code.Token {
	s := newTokenizer(text)
	for s.at < len(text) {
		c := text[s.at]
		switch {
		case isBlank(c):
			if c == '\n' {
				s.line++
			}
			s.at++
		case s.plainMark(look):
		case strings.IndexByte(look.Quotes, c) >= 0:
			s.take(code.String, s.quoted(s.at, false))
		case startsName(c):
			end := s.name(s.at)
			kind := code.Name
			if look.Data || plainKeyword(look, text[s.at:end]) {
				kind = code.Keyword
			}
			s.take(kind, end)
		case isDigit(c):
			s.take(code.Number, s.number(s.at))
		default:
			s.take(code.Operator, s.at+1)
		}
	}
	return s.done()
}

// plainMark takes a comment, a string over several lines, a quoted character, or an
// operator that begins like one of them. It reports whether it found one.
func (s *tokenizer) plainMark(look *code.Plain) bool {
	for _, mark := range look.Except {
		if s.has(mark) {
			s.take(code.Operator, s.at+len(mark))
			return true
		}
	}
	if end := s.plainComment(look); end > s.at {
		s.take(code.Comment, end)
		return true
	}
	for _, raw := range look.Raw {
		if s.has(raw[0]) {
			s.take(code.String, s.past(s.at+len(raw[0]), raw[1]))
			return true
		}
	}
	if look.Char && s.text[s.at] == '\'' {
		if end := s.character(); end > s.at {
			s.take(code.String, end)
		} else {
			s.take(code.Operator, s.at+1)
		}
		return true
	}
	return false
}

// plainComment returns the end of the comment that begins at the next byte, or the offset
// of that byte if no comment begins there.
func (s *tokenizer) plainComment(look *code.Plain) int {
	starts := s.at == 0 || s.text[s.at-1] == '\n'
	for _, b := range look.Block {
		switch {
		case !s.has(b[0]) || look.AtStart && !starts:
		case look.Nested:
			return s.nested(b[0], b[1])
		case look.AtStart: // the line of the closing mark belongs to the comment
			return s.lineEnd(s.past(s.at+len(b[0]), b[1]))
		default:
			return s.past(s.at+len(b[0]), b[1])
		}
	}
	for _, mark := range look.Line {
		if s.has(mark) && (!look.Spaced || starts || isBlank(s.text[s.at-1])) {
			return s.lineEnd(s.at)
		}
	}
	return s.at
}

// nested returns the offset after a comment that begins at the next byte and may contain
// other comments; the end of the text if the comment has no end.
func (s *tokenizer) nested(begins, ends string) int {
	depth := 0
	for i := s.at; i < len(s.text); {
		switch rest := s.text[i:]; {
		case strings.HasPrefix(rest, begins):
			depth++
			i += len(begins)
		case strings.HasPrefix(rest, ends):
			i += len(ends)
			if depth--; depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return len(s.text)
}

// character returns the offset after a quoted character that begins at the next byte; the
// offset of that byte if the apostrophe has another meaning.
func (s *tokenizer) character() int {
	if s.at > 0 && inName(s.text[s.at-1]) {
		return s.at // such as foldl' or an attribute of Ada
	}
	if s.peek(1) == '\\' {
		return s.quoted(s.at, false)
	}
	_, size := utf8.DecodeRuneInString(s.text[min(len(s.text), s.at+1):])
	if s.peek(1) != '\n' && s.peek(1+size) == '\'' {
		return s.at + 1 + size + 1
	}
	return s.at
}

// plainKeyword reports whether a word is a keyword of a language. A clone with other names
// has the same keywords at the same places.
func plainKeyword(look *code.Plain, word string) bool {
	const longest = 12
	if len(word) < 2 || len(word) > longest {
		return false
	}
	if look.Fold {
		word = strings.ToLower(word)
	}
	return common(word) || look.Language == "sql" && ofSQL(word)
}

// common reports whether a word is a keyword of several languages and rarely a name in the
// others.
func common(word string) bool {
	switch word {
	case "if", "then", "else", "elsif", "elseif", "elif", "unless", "case", "when", "match", "switch", "default", "cond",
		"for", "foreach", "while", "until", "loop", "repeat", "do", "done", "break", "continue", "goto", "in", "of", "to",
		"return", "yield", "try", "catch", "except", "rescue", "ensure", "finally", "raise", "throw", "throws", "defer", "guard",
		"begin", "end", "def", "defp", "defmodule", "defn", "defun", "lambda", "fn", "fun", "func", "function", "proc", "procedure", "sub", "my", "our", "local",
		"class", "struct", "interface", "trait", "module", "namespace", "package", "enum", "union", "type", "impl", "extends", "implements", "where", "deriving",
		"let", "var", "val", "const", "static", "final", "public", "private", "protected", "internal", "abstract", "override", "virtual", "async", "await", "new", "delete", "void",
		"import", "using", "use", "require", "include", "open", "export", "from", "as", "with", "self", "this", "super", "nil", "null", "none", "true", "false", "and", "or", "not", "is":
		return true
	}
	return false
}

// ofSQL reports whether a word is a keyword of SQL that can be a name in other languages.
func ofSQL(word string) bool {
	switch word {
	case "select", "insert", "into", "values", "update", "set", "join", "left", "right", "inner", "outer", "cross", "on", "group", "order", "by", "having", "limit", "offset",
		"create", "table", "index", "view", "trigger", "drop", "alter", "add", "column", "constraint", "primary", "foreign", "key", "references", "distinct", "exists", "between", "like", "all", "asc", "desc", "replace":
		return true
	}
	return false
}
