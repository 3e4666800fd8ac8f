package lex

import (
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
)

// splitRust splits a text into tokens.
func splitRust(b *braces) {
	if b.has("#!") && !b.has("#![") {
		b.take(code.Comment, b.lineEnd(b.at))
	}
	for b.blanks() {
		c := b.text[b.at]
		switch {
		case startsName(c):
			rustWord(b)
		case isDigit(c):
			b.short(code.Number, opNumber, b.rustNumber())
		case c == '/' && b.peek(1) == '*':
			b.take(code.Comment, b.nested())
		case c == '/' && b.comment():
		case c == '"':
			b.long(opString, b.quoted(b.at, true))
		case c == '\'':
			b.quote()
		default:
			b.operator(rustOperator(b.text[b.at:]))
		}
	}
}

// rustWord takes a name, a keyword, or a string with a prefix.
func rustWord(b *braces) {
	end := b.name(b.at)
	word := b.text[b.at:end]
	if end < len(b.text) && len(word) <= 2 {
		switch next := b.text[end]; {
		case next == '"' && (word == "b" || word == "c"):
			b.long(opString, b.quoted(end, true))
			return
		case next == '\'' && word == "b":
			b.short(code.String, opString, charEnd(b.text, end))
			return
		case (next == '"' || next == '#') && (word == "r" || word == "br" || word == "cr"):
			if stop := b.raw(end); stop > 0 {
				b.long(opString, stop)
				return
			}
			if next == '#' && word == "r" && end+1 < len(b.text) && startsName(b.text[end+1]) {
				b.short(code.Name, opName, b.name(end+1))
				return
			}
		}
	}
	if o := rustKeyword(word); o != opNone {
		b.short(code.Keyword, o, end)
		return
	}
	b.short(code.Name, opName, end)
}

// raw returns the end of the raw string whose hashes begin at an offset; 0 if it is not a
// raw string.
func (b *braces) raw(at int) int {
	hashes := at
	for hashes < len(b.text) && b.text[hashes] == '#' && hashes-at < 255 {
		hashes++
	}
	if hashes >= len(b.text) || b.text[hashes] != '"' {
		return 0
	}
	mark := `"` + b.text[at:hashes]
	n := strings.Index(b.text[hashes+1:], mark)
	if n < 0 {
		return len(b.text)
	}
	return hashes + 1 + n + len(mark)
}

// nested returns the end of a comment that may contain other comments.
func (b *braces) nested() int {
	depth := 1
	for i := b.at + 2; i+1 < len(b.text); i++ {
		switch {
		case b.text[i] == '*' && b.text[i+1] == '/':
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		case b.text[i] == '/' && b.text[i+1] == '*':
			i++
			depth++
		}
	}
	return len(b.text)
}

// quote takes a character or a lifetime, which begin with an apostrophe.
func (b *braces) quote() {
	next := b.peek(1)
	if next == '\\' {
		b.short(code.String, opString, charEnd(b.text, b.at))
		return
	}
	_, n := utf8.DecodeRuneInString(b.text[b.at+1:])
	if n > 0 && b.peek(1+n) == '\'' && next != '\n' {
		b.short(code.String, opString, b.at+1+n+1)
		return
	}
	if startsName(next) {
		b.short(code.Name, opLabel, b.name(b.at+1))
		return
	}
	b.operator(1)
}

// charEnd returns the end of the character whose apostrophe is at an offset. A character
// without a closing apostrophe ends with its line, or after the length of the longest
// character, '\u{10ffff}'.
func charEnd(text string, at int) int {
	i := at + 1
	for ; i < len(text) && i < at+13 && text[i] != '\n'; i++ {
		if text[i] == '\\' {
			i++
			continue
		}
		if text[i] == '\'' {
			return i + 1
		}
	}
	return min(i, len(text))
}

// rustNumber returns the end of a number. A number after a dot contains only digits, so
// that t.0.1 is read as two fields. Any other number includes a dot unless a range or a
// method follows.
func (b *braces) rustNumber() int {
	i := b.at
	if n := len(b.items); n > 0 && b.items[n-1].op == '.' {
		for i < len(b.text) && isDigit(b.text[i]) {
			i++
		}
		return i
	}
	return b.number(b.at)
}

func rustOperator(t string) int {
	if len(t) >= 3 {
		switch t[:3] {
		case "..=", "...", "<<=", ">>=":
			return 3
		}
	}
	if len(t) >= 2 {
		switch t[:2] {
		case "::", "->", "=>", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<", ">>", "..":
			return 2
		}
	}
	return 1
}

func rustKeyword(word string) op {
	switch word {
	case "as", "dyn", "ref":
		return kwOther
	case "false", "true":
		return kwValue
	case "Self", "self", "super", "crate":
		return kwSelf
	case "async":
		return kwAsync
	case "await":
		return kwAwait
	case "break":
		return kwBreak
	case "const":
		return kwConst
	case "continue":
		return kwContinue
	case "else":
		return kwElse
	case "enum":
		return kwEnum
	case "extern":
		return kwExtern
	case "fn":
		return kwFn
	case "for":
		return kwFor
	case "if":
		return kwIf
	case "impl":
		return kwImpl
	case "in":
		return kwIn
	case "let":
		return kwLet
	case "loop":
		return kwLoop
	case "match":
		return kwMatch
	case "mod":
		return kwMod
	case "move", "mut":
		return kwMove
	case "pub":
		return kwPub
	case "return":
		return kwReturn
	case "static":
		return kwStatic
	case "struct":
		return kwStruct
	case "trait":
		return kwTrait
	case "type":
		return kwType
	case "unsafe":
		return kwUnsafe
	case "use":
		return kwUse
	case "where":
		return kwWhere
	case "while":
		return kwWhile
	}
	return opNone
}
