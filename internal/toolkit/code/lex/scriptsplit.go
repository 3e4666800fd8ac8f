package lex

import (
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
)

// opJSX is a < in code that begins an element of JSX.
const opJSX op = 1<<30 + 1

// splitter splits a script into tokens. Templates and JSX need a stack, because each can
// contain code that contains the other.
type splitter struct {
	*braces
	modes []scriptMode
	jsx   bool
	typed bool
}

// scriptMode is a part of the text that is not plain code.
type scriptMode struct {
	kind modeKind
	deep int // for a hole: number of braces that are open in it
}

type modeKind uint8

const (
	modeTemplate modeKind = iota
	modeHole              // an expression in a template or in JSX
	modeTag               // between < and >
	modeEndTag            // between </ and >
	modeChildren          // between > and </
)

// splitScript splits a text into tokens.
func splitScript(b *braces) {
	s := &splitter{
		braces: b,
		jsx:    b.f.Language != code.TypeScript,
		typed:  b.f.Language != code.JavaScript,
	}
	if b.has("#!") {
		b.take(code.Comment, b.lineEnd(b.at))
	}
	for s.at < len(s.text) {
		mode := modeHole
		if n := len(s.modes); n > 0 {
			mode = s.modes[n-1].kind
		}
		switch mode {
		case modeTemplate:
			s.template(s.at)
		case modeTag, modeEndTag:
			s.tag(mode)
		case modeChildren:
			s.children()
		case modeHole:
			if s.blanks() {
				s.code()
			}
		}
	}
}

func (s *splitter) enter(kind modeKind) {
	s.modes = append(s.modes, scriptMode{kind: kind, deep: s.deep})
}

func (s *splitter) leave() { s.modes = s.modes[:len(s.modes)-1] }

// hole opens an expression whose opening bracket has n bytes.
func (s *splitter) hole(n int) {
	s.bracket(n, opHole)
	s.enter(modeHole)
}

// template takes the text of a template up to the next expression, or to the end of the
// template. It looks for them from an offset on.
func (s *splitter) template(from int) {
	for i := from; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '`':
			s.long(opText, i+1)
			s.leave()
			return
		case '$':
			if i+1 < len(s.text) && s.text[i+1] == '{' {
				if i > s.at {
					s.long(opText, i)
				}
				s.hole(2)
				return
			}
		}
	}
	s.long(opText, len(s.text))
}

// tag takes one token of a tag of JSX.
func (s *splitter) tag(mode modeKind) {
	if !s.blanks() {
		return
	}
	c := s.text[s.at]
	switch {
	case s.comment():
	case startsName(c) || c == '$':
		end := s.at
		for end < len(s.text) && (inName(s.text[end]) || s.text[end] == '-' || s.text[end] == '$') {
			end++
		}
		s.short(code.Name, opText, end)
	case c == '"' || c == '\'':
		end := len(s.text)
		if n := strings.IndexByte(s.text[s.at+1:], c); n >= 0 {
			end = s.at + n + 2
		}
		s.long(opText, end)
	case c == '{':
		s.hole(1)
	case c == '<' && s.typed && mode == modeTag && len(s.items) > 0 && s.tokens[len(s.tokens)-1].Kind == code.Name:
		s.short(code.Operator, opText, s.arguments())
	case c == '<': // an element is the value of an attribute
		s.short(code.Operator, opText, s.at+1)
		s.enter(modeTag)
	case c == '/' && s.peek(1) == '>':
		s.short(code.Operator, opText, s.at+2)
		s.leave()
	case c == '>':
		s.short(code.Operator, opText, s.at+1)
		s.leave()
		if mode == modeTag {
			s.enter(modeChildren)
		}
	default:
		_, n := utf8.DecodeRuneInString(s.text[s.at:])
		s.short(code.Operator, opText, s.at+n)
	}
}

// arguments returns the end of the type arguments of a tag, as in <List<Item> items={a}>.
func (s *splitter) arguments() int {
	depth := 0
	for i := s.at; i < min(len(s.text), s.at+200) && s.text[i] != '\n'; i++ {
		switch s.text[i] {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return s.at + 1
}

// children takes the text between two tags. At the end of the text, it takes the beginning
// of the next tag or expression.
func (s *splitter) children() {
	n := strings.IndexAny(s.text[s.at:], "<{")
	if n < 0 {
		n = len(s.text) - s.at
	}
	if n > 0 {
		if strings.TrimSpace(s.text[s.at:s.at+n]) == "" {
			s.to(s.at + n)
			return
		}
		for s.at < len(s.text) && isBlank(s.text[s.at]) {
			s.to(s.at + 1)
			n--
		}
		s.long(opText, s.at+n)
		return
	}
	switch {
	case s.text[s.at] == '{':
		s.hole(1)
	case s.peek(1) == '/':
		s.short(code.Operator, opText, s.at+2)
		s.leave()
		s.enter(modeEndTag)
	default:
		s.short(code.Operator, opText, s.at+1)
		s.enter(modeTag)
	}
}

// code takes one token of code.
func (s *splitter) code() {
	c := s.text[s.at]
	switch {
	case startsName(c) || c == '$' || c == '#' && (startsName(s.peek(1)) || s.peek(1) == '$') || c == '\\' && s.peek(1) == 'u':
		s.word()
	case isDigit(c) || c == '.' && isDigit(s.peek(1)):
		s.short(code.Number, opNumber, s.number(s.at))
	case c == '"' || c == '\'':
		s.long(opString, s.quoted(s.at, false))
	case c == '`':
		s.enter(modeTemplate)
		s.template(s.at + 1)
	case c == '/':
		if s.comment() {
			return
		}
		if !s.operand() {
			s.short(code.String, opRegex, s.regex())
			return
		}
		s.operator(s.length())
	case c == '<' && s.jsx && !s.operand() && s.element():
		s.short(code.Operator, opJSX, s.at+1)
		s.enter(modeTag)
	case c == '}':
		n := len(s.modes)
		ends := n > 0 && s.deep == s.modes[n-1].deep
		s.operator(1)
		if ends {
			s.leave()
		}
	default:
		s.operator(s.length())
	}
}

// word takes a name or a keyword. After a dot, each word is a name.
func (s *splitter) word() {
	end := s.at + 1
	for end < len(s.text) {
		c := s.text[end]
		if c == '\\' && end+1 < len(s.text) && s.text[end+1] == 'u' {
			end += 2
			if end < len(s.text) && s.text[end] == '{' {
				for end < len(s.text) && s.text[end] != '}' && s.text[end] != '\n' {
					end++
				}
				end = min(end+1, len(s.text))
			}
			continue
		}
		if !inName(c) && c != '$' {
			break
		}
		end++
	}
	if n := len(s.items); n == 0 || s.items[n-1].op != '.' && s.items[n-1].op != opOptional {
		if o := scriptKeyword(s.text[s.at:end]); o != opNone {
			s.short(code.Keyword, o, end)
			return
		}
	}
	s.short(code.Name, opName, end)
}

// operand reports whether the last item ends an operand, so that a slash divides and
// < compares.
func (s *splitter) operand() bool {
	n := len(s.items)
	if n == 0 {
		return false
	}
	switch s.items[n-1].op {
	case opName, opNumber, opString, opText, opRegex, kwValue, ']', opInc, opDec:
		return true
	case '!': // the ! of TypeScript: never null
		if !s.typed || n < 2 || s.tokens[len(s.tokens)-1].Start != s.tokens[len(s.tokens)-2].End {
			return false
		}
		o := s.items[n-2].op
		return o == opName || o == ')' || o == ']'
	case ')':
		before := opNone
		if open := s.items[n-1].match; open > 0 {
			before = s.items[open-1].op
		}
		return before != kwIf && before != kwWhile && before != kwFor
	case '}':
		if open := s.items[n-1].match; open > 0 {
			switch s.items[open-1].op {
			case '=', '(', ',', '[', '?', kwReturn:
				return true // the end of an object
			}
		}
	}
	return false
}

// regex returns the end of a regular expression. An expression that does not end on its
// line ends with the line.
func (s *splitter) regex() int {
	class := false
	for i := s.at + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
			if i < len(s.text) && s.text[i] == '\n' {
				return i
			}
		case '[':
			class = true
		case ']':
			class = false
		case '\n':
			return i
		case '/':
			if !class {
				return s.name(i + 1)
			}
		}
	}
	return len(s.text)
}

// element reports whether the < here begins JSX, and not the parameters of a generic
// function.
func (s *splitter) element() bool {
	i := s.at + 1
	for i < len(s.text) && isBlank(s.text[i]) && i < s.at+100 {
		i++
	}
	if i >= len(s.text) {
		return false
	}
	if s.text[i] == '>' {
		return true
	}
	if !startsName(s.text[i]) && s.text[i] != '$' {
		return false
	}
	if !s.typed {
		return true
	}
	end := min(s.name(i), len(s.text))
	rest := strings.TrimLeft(s.text[end:min(end+100, len(s.text))], " \t\r\n")
	if strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, "=") {
		return false
	}
	return !strings.HasPrefix(rest, "extends") || len(rest) > 7 && (inName(rest[7]) || rest[7] == '=' || rest[7] == '>')
}

// length returns how many bytes the operator here has.
func (s *splitter) length() int {
	t := s.text[s.at:]
	if len(t) >= 4 && t[:4] == ">>>=" {
		return 4
	}
	if len(t) >= 3 {
		switch t[:3] {
		case "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=":
			return 3
		case "?.0", "?.1", "?.2", "?.3", "?.4", "?.5", "?.6", "?.7", "?.8", "?.9":
			return 1
		}
	}
	if len(t) >= 2 {
		switch t[:2] {
		case "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**":
			return 2
		}
	}
	if t[0] < 0x80 {
		return 1
	}
	_, n := utf8.DecodeRuneInString(t)
	return n
}

func scriptKeyword(word string) op {
	switch word {
	case "debugger", "instanceof", "typeof", "void", "with", "yield":
		return kwOther
	case "this", "null", "true", "false", "super":
		return kwValue
	case "break":
		return kwBreak
	case "case":
		return kwCase
	case "catch":
		return kwCatch
	case "class":
		return kwClass
	case "const":
		return kwConst
	case "continue":
		return kwContinue
	case "default":
		return kwDefault
	case "delete":
		return kwDelete
	case "do":
		return kwDo
	case "else":
		return kwElse
	case "enum":
		return kwEnum
	case "export":
		return kwExport
	case "extends":
		return kwExtends
	case "finally":
		return kwFinally
	case "for":
		return kwFor
	case "function":
		return kwFunction
	case "if":
		return kwIf
	case "import":
		return kwImport
	case "in":
		return kwIn
	case "new":
		return kwNew
	case "return":
		return kwReturn
	case "switch":
		return kwSwitch
	case "throw":
		return kwThrow
	case "try":
		return kwTry
	case "var":
		return kwVar
	case "while":
		return kwWhile
	}
	return opNone
}
