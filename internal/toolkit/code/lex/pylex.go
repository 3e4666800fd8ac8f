package lex

import (
	"strconv"

	"belljar.dev/internal/toolkit/code"
)

// maxPieces is how many strings with expressions may be nested in each other. A deeper
// string is read as a plain string.
const maxPieces = 100

// pyLexer makes the tokens of Python, including the line ends and the indentation that have
// a meaning. The only grammar that it knows is that of brackets. It reads any text to its
// end.
type pyLexer struct {
	*tokenizer

	depth   int     // number of open brackets
	first   int     // token of the outermost open bracket
	strings []piece // open strings with expressions, the innermost last
	indents []int   // columns of the open blocks, except for the outermost
	ended   int     // token of the last line end
	fault   string  // first fault, with its line
	broken  int     // index of the token of the first fault
}

// piece is a string that contains expressions.
type piece struct {
	quote  byte
	triple bool
	raw    bool
	state  pieceState
	base   int  // number of open brackets in its expression, including the expression's own
	start  int  // offset of its content
	inner  bool // it is only the field of a format, within another string
}

type pieceState uint8

const (
	pieceText   pieceState = iota // between the expressions of the string
	pieceExpr                     // in an expression
	pieceFormat                   // after the colon of an expression
)

// newPyLexer returns a lexer that has read the whole text.
func newPyLexer(text string) *pyLexer {
	p := &pyLexer{tokenizer: newTokenizer(text)}
	fresh := true // at the start of a line that does not continue a bracket or a string
	for p.at < len(text) {
		if n := len(p.strings); n > 0 && p.strings[n-1].state != pieceExpr {
			p.piece(&p.strings[n-1])
			continue
		}
		if fresh && p.depth == 0 {
			if !p.indentation() {
				continue // the line is empty
			}
		}
		fresh = p.next()
	}
	if p.depth > 0 {
		p.failed("a bracket is not closed", p.first, p.tokens[p.first].Line)
	} else if !fresh {
		p.take(code.Newline, p.at)
	}
	for range p.indents {
		p.take(code.Dedent, p.at)
	}
	return p
}

// failed records a fault at a token. Only the first fault of a file is kept.
func (p *pyLexer) failed(why string, token int, line int32) {
	if p.fault == "" || token < p.broken {
		p.fault, p.broken = "line "+strconv.Itoa(int(line))+": "+why, token
	}
}

// indentation reads the blanks at the start of a line, and opens and closes blocks. It
// reports whether the line has code.
func (p *pyLexer) indentation() bool {
	column := 0
	i := p.at
count:
	for ; i < len(p.text); i++ {
		switch p.text[i] {
		case ' ':
			column++
		case '\t':
			column = column/8*8 + 8
		case '\f':
			column = 0
		default:
			break count
		}
	}
	p.at = i
	if i == len(p.text) || p.text[i] == '#' || p.text[i] == '\n' || p.text[i] == '\r' {
		p.emptyLine()
		return false
	}
	for len(p.indents) > 0 && column < p.indents[len(p.indents)-1] {
		p.indents = p.indents[:len(p.indents)-1]
		p.take(code.Dedent, p.at)
		if column > p.column() {
			p.failed("the indentation of a line does not belong to any block", p.ended, p.line)
		}
	}
	if column > p.column() {
		p.indents = append(p.indents, column)
		p.take(code.Indent, p.at)
	}
	return true
}

// column returns the column of the current block.
func (p *pyLexer) column() int {
	if len(p.indents) == 0 {
		return 0
	}
	return p.indents[len(p.indents)-1]
}

// emptyLine reads a line without code, with its end.
func (p *pyLexer) emptyLine() {
	if p.at < len(p.text) && p.text[p.at] == '#' {
		p.take(code.Comment, p.commentEnd())
	}
	if p.at < len(p.text) {
		p.to(p.at + 1)
	}
}

func (p *pyLexer) commentEnd() int {
	for i := p.at; i < len(p.text); i++ {
		if c := p.text[i]; c == '\n' || c == '\r' {
			return i
		}
	}
	return len(p.text)
}

// next reads a token or a blank, and reports whether a line of code has ended.
func (p *pyLexer) next() (fresh bool) {
	c := p.text[p.at]
	switch {
	case c == '\n' || c == '\r':
		end := p.at + 1
		if c == '\r' && p.peek(1) == '\n' {
			end++
		}
		if p.depth > 0 {
			p.to(end)
			return false
		}
		p.ended = len(p.tokens)
		p.take(code.Newline, end)
		return true
	case isBlank(c):
		p.at++
	case c == '\\':
		p.to(p.at + 1)
		if p.at < len(p.text) && p.text[p.at] == '\r' && p.peek(1) == '\n' {
			p.at++
		}
		if p.at < len(p.text) && (p.text[p.at] == '\n' || p.text[p.at] == '\r') {
			p.to(p.at + 1) // the line continues
		}
	case c == '#':
		p.take(code.Comment, p.commentEnd())
	case c == '"' || c == '\'':
		p.literal(p.at)
	case startsName(c):
		p.word()
	case isDigit(c) || c == '.' && isDigit(p.peek(1)):
		p.take(code.Number, p.pyNumber())
	default:
		p.operator(c)
	}
	return false
}

// word reads a name, a keyword, or the letters before a string.
func (p *pyLexer) word() {
	end := p.name(p.at)
	if end < len(p.text) && end-p.at <= 2 && (p.text[end] == '"' || p.text[end] == '\'') && isPrefix(p.text[p.at:end]) {
		p.literal(end)
		return
	}
	kind := code.Name
	if isPyKeyword(p.text[p.at:end]) {
		kind = code.Keyword
	}
	p.take(kind, end)
}

// isPrefix reports whether letters may stand before a string.
func isPrefix(letters string) bool {
	switch letters {
	case "r", "R", "u", "U", "b", "B", "f", "F", "t", "T",
		"br", "bR", "Br", "BR", "rb", "rB", "Rb", "RB",
		"fr", "fR", "Fr", "FR", "rf", "rF", "Rf", "RF",
		"tr", "tR", "Tr", "TR", "rt", "rT", "Rt", "RT":
		return true
	}
	return false
}

func isPyKeyword(word string) bool {
	switch word {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
		"elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
		"not", "or", "pass", "raise", "return", "try", "while", "with", "yield":
		return true
	}
	return false
}

// literal reads a string whose quote is at an offset, after its prefix letters. It reads a
// string with expressions only up to the first expression.
func (p *pyLexer) literal(quote int) {
	s := piece{quote: p.text[quote]}
	formatted := false
	for _, letter := range []byte(p.text[p.at:quote]) {
		switch letter | 0x20 {
		case 'r':
			s.raw = true
		case 'f', 't':
			formatted = true
		}
	}
	content := quote + 1
	if quote+2 < len(p.text) && p.text[quote+1] == s.quote && p.text[quote+2] == s.quote {
		s.triple, content = true, quote+3
	}
	s.start = content
	if formatted && len(p.strings) < maxPieces {
		p.strings = append(p.strings, s)
		p.piece(&p.strings[len(p.strings)-1])
		return
	}
	end, how := p.textEnd(&s, content, false)
	if how == textBroken {
		p.unclosed()
	}
	p.take(code.String, end)
}

func (p *pyLexer) unclosed() {
	p.failed("a string is not closed", len(p.tokens), p.line)
}

// textStop is what ends a text in a string.
type textStop uint8

const (
	textClosed textStop = iota // the closing quote of the string
	textBroken                 // the end of the line or of the file
	textField                  // a brace
)

// textEnd returns the offset after a text in a string, which begins at from. The text ends
// after the closing quote. If formatted is true, it also ends before a brace that begins or
// ends an expression.
func (p *pyLexer) textEnd(s *piece, from int, formatted bool) (end int, how textStop) {
	for i := from; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == '\\':
			if i++; i+1 < len(p.text) && p.text[i] == '\r' && p.text[i+1] == '\n' {
				i++
			}
			switch {
			case !formatted || i >= len(p.text):
			case p.text[i] == '{' || p.text[i] == '}':
				i-- // a backslash does not escape a brace
			case p.text[i] == 'N' && !s.raw && i+1 < len(p.text) && p.text[i+1] == '{':
				i = p.lineOr(i, '}')
			}
		case c == s.quote && !s.triple:
			return i + 1, textClosed
		case c == s.quote && i+2 < len(p.text) && p.text[i+1] == c && p.text[i+2] == c:
			return i + 3, textClosed
		case (c == '\n' || c == '\r') && !s.triple:
			return i, textBroken
		case formatted && c == '{':
			if s.state == pieceText && i+1 < len(p.text) && p.text[i+1] == '{' {
				i++
				continue
			}
			return i, textField
		case formatted && c == '}' && s.state == pieceFormat:
			return i, textField
		}
	}
	return len(p.text), textBroken
}

// lineOr returns the offset of the first mark at or after an offset, or the offset of the
// line's last byte if the line does not contain the mark.
func (p *pyLexer) lineOr(from int, mark byte) int {
	for i := from; i < len(p.text); i++ {
		if c := p.text[i]; c == mark || c == '\n' || c == '\r' {
			if c != mark {
				i--
			}
			return i
		}
	}
	return len(p.text) - 1
}

// piece reads the text of a string up to the end of the string, or up to the beginning or
// the end of an expression.
func (p *pyLexer) piece(s *piece) {
	from := p.at
	if s.state == pieceText {
		from = max(from, s.start)
	}
	end, how := p.textEnd(s, from, true)
	if how == textBroken {
		p.unclosed()
	}
	if end > p.at {
		p.take(code.String, end)
	}
	switch {
	case how != textField:
		p.leave(s)
	case p.text[p.at] == '{':
		p.bracket()
		if s.state == pieceFormat {
			inner := *s
			inner.inner, inner.state, inner.base = true, pieceExpr, p.depth
			if len(p.strings) == 2*maxPieces {
				p.leave(s)
				return
			}
			p.strings = append(p.strings, inner)
			return
		}
		s.state, s.base = pieceExpr, p.depth
	default:
		p.closeField()
	}
}

// leave ends a string and the fields that are open in it.
func (p *pyLexer) leave(s *piece) {
	n := len(p.strings) - 1
	for n > 0 && p.strings[n].inner {
		n--
	}
	first := p.strings[n]
	if s.state != pieceText || n < len(p.strings)-1 {
		p.failed("a field of a string is not closed", len(p.tokens)-1, p.line)
		if first.base > 0 && first.base <= p.depth {
			p.depth = first.base - 1
		}
	}
	p.strings = p.strings[:n]
}

// closeField reads the brace at the end of an expression in a string.
func (p *pyLexer) closeField() {
	n := len(p.strings) - 1
	p.depth = p.strings[n].base - 1
	p.take(code.Operator, p.at+1)
	if p.strings[n].inner {
		p.strings = p.strings[:n]
		return
	}
	p.strings[n].state = pieceText
	p.strings[n].start = 0
}

func (p *pyLexer) bracket() {
	if p.depth == 0 {
		p.first = len(p.tokens)
	}
	p.depth++
	p.take(code.Operator, p.at+1)
}

// operator reads an operator or a bracket.
func (p *pyLexer) operator(c byte) {
	switch c {
	case '(', '[', '{':
		p.bracket()
		return
	case ')', ']', '}':
		n := len(p.strings)
		switch {
		case n > 0 && p.depth == p.strings[n-1].base && c == '}':
			p.closeField()
			return
		case n > 0 && p.depth <= p.strings[n-1].base || p.depth == 0:
			p.failed("a bracket was never opened", len(p.tokens), p.line)
		default:
			p.depth--
		}
		p.take(code.Operator, p.at+1)
		return
	}
	if n := len(p.strings); n > 0 && p.depth == p.strings[n-1].base && c == ':' {
		p.take(code.Operator, p.at+1)
		p.strings[n-1].state = pieceFormat
		return
	}
	p.take(code.Operator, p.at+pyOperator(p.text[p.at:]))
}

// pyOperator returns the length of the operator with which a text begins.
func pyOperator(text string) int {
	var next, third byte
	if len(text) > 1 {
		next = text[1]
	}
	if len(text) > 2 {
		third = text[2]
	}
	switch c := text[0]; c {
	case '*', '/', '<', '>':
		if next == c {
			if third == '=' {
				return 3
			}
			return 2
		}
		if next == '=' || c == '<' && next == '>' {
			return 2
		}
	case '+', '%', '&', '|', '^', '@', '=', '!', ':':
		if next == '=' {
			return 2
		}
	case '-':
		if next == '=' || next == '>' {
			return 2
		}
	case '.':
		if next == '.' && third == '.' {
			return 3
		}
	}
	return 1
}

// pyNumber returns the offset after the number that begins here. Letters that cannot belong
// to a number begin a word, as in 1if x.
func (p *pyLexer) pyNumber() int {
	i := p.at
	if p.text[i] == '0' {
		switch p.peek(1) | 0x20 {
		case 'x', 'o', 'b':
			for i += 2; i < len(p.text) && (isDigit(p.text[i]) || p.text[i] == '_' || 'a' <= p.text[i]|0x20 && p.text[i]|0x20 <= 'f'); i++ {
			}
			return i
		}
	}
	digits := func() {
		for i < len(p.text) && (isDigit(p.text[i]) || p.text[i] == '_') {
			i++
		}
	}
	at := func(n int) byte {
		if i+n < len(p.text) {
			return p.text[i+n]
		}
		return 0
	}
	digits()
	if at(0) == '.' {
		i++
		digits()
	}
	if at(0)|0x20 == 'e' && (isDigit(at(1)) || (at(1) == '+' || at(1) == '-') && isDigit(at(2))) {
		i += 2
		digits()
	}
	if c := at(0) | 0x20; c == 'j' || c == 'l' {
		i++
	}
	return i
}
