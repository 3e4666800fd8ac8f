package lex

import "belljar.dev/internal/toolkit/code"

// goTokens returns the tokens of a text in Go, and the first line on which brackets are
// nested deeper than maxGoBrackets, or 0. It is several times as fast as the scanner of the
// standard library. internal/toolkit/quality compares the tokens of both.
func goTokens(text string) (tokens []code.Token, deep int) {
	t := newTokenizer(text)
	depth := 0
	for t.at < len(text) {
		switch c := text[t.at]; {
		case c == '\n':
			t.line++
			t.at++
		case isBlank(c):
			t.at++
		case startsName(c):
			end := t.name(t.at)
			kind := code.Name
			if end-t.at > 1 && c >= 'a' && goKeyword(text[t.at:end]) {
				kind = code.Keyword
			}
			t.take(kind, end)
		case isDigit(c) || c == '.' && isDigit(t.peek(1)):
			t.take(code.Number, t.goNumber())
		case c == '"' || c == '\'':
			t.take(code.String, t.quoted(t.at, false))
		case c == '`':
			t.take(code.String, t.past(t.at+1, "`"))
		case c == '/' && t.peek(1) == '/':
			t.take(code.Comment, t.lineEnd(t.at))
		case c == '/' && t.peek(1) == '*':
			t.take(code.Comment, t.past(t.at+2, "*/"))
		default:
			switch c {
			case '(', '[', '{':
				if depth++; depth > maxGoBrackets && deep == 0 {
					deep = int(t.line)
				}
			case ')', ']', '}':
				depth = max(0, depth-1)
			}
			t.take(code.Operator, t.at+goOperator(text[t.at:]))
		}
	}
	return t.done(), deep
}

// goKeyword reports whether a word is a keyword of Go. The switch is faster than a table.
func goKeyword(word string) bool {
	switch word {
	case "break", "case", "chan", "const", "continue", "default", "defer", "else", "fallthrough", "for", "func", "go", "goto",
		"if", "import", "interface", "map", "package", "range", "return", "select", "struct", "switch", "type", "var":
		return true
	}
	return false
}

// goNumber returns the offset after the number that begins here.
func (s *tokenizer) goNumber() int {
	hex := s.text[s.at] == '0' && s.peek(1)|0x20 == 'x'
	for i := s.at + 1; ; i++ {
		if i == len(s.text) {
			return i
		}
		c, last := s.text[i], s.text[i-1]|0x20
		sign := (c == '+' || c == '-') && (last == 'e' && !hex || last == 'p' && hex)
		if !sign && c != '.' && (c >= 0x80 || !inName(c)) {
			return i
		}
	}
}

// goOperator returns the length of the operator with which a text begins.
func goOperator(text string) int {
	var next, third byte
	if len(text) > 1 {
		next = text[1]
	}
	if len(text) > 2 {
		third = text[2]
	}
	switch c := text[0]; c {
	case '<', '>':
		switch {
		case next == c && third == '=':
			return 3
		case next == c, next == '=', c == '<' && next == '-':
			return 2
		}
	case '&':
		switch {
		case next == '^' && third == '=':
			return 3
		case next == '^', next == '&', next == '=':
			return 2
		}
	case '+', '-', '|':
		if next == c || next == '=' {
			return 2
		}
	case '*', '/', '%', '^', '=', '!', ':':
		if next == '=' {
			return 2
		}
	case '.':
		if next == '.' && third == '.' {
			return 3
		}
	}
	return 1
}
