package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// cSplitter splits C and C++ into tokens, and chooses between the branches of #if.
//
// A branch counts if its brackets are balanced. Of the branches with unbalanced brackets,
// only the first counts. Within braces in C, only the first of all branches counts, because
// the branches belong to one function there. The text after #if 0 does not count.
type cSplitter struct {
	*braces
	cpp      bool
	branches []cBranch
	skipping bool // the text that is read gets tokens, but no items
}

// cBranch is an #if that has not ended, with the state of its present branch.
type cBranch struct {
	items, open, deep int  // numbers of items, open brackets and open braces when the present branch began
	outer             bool // the text around the #if is skipped
	first             bool // this is the first branch that is not skipped
	done              bool // the remaining branches are skipped
}

func splitC(b *braces, cpp bool) {
	s := &cSplitter{braces: b, cpp: cpp}
	fresh := int32(0) // line of the last token: a # later on this line does not begin a directive
	for s.blanks() {
		c := s.text[s.at]
		line := s.line
		switch {
		case c == '#' && fresh != line:
			s.directive()
		case s.comment():
			if line != s.line {
				fresh = 0
			}
			continue
		case c == '\\' && (s.peek(1) == '\n' || s.peek(1) == '\r'):
			s.at++
			continue
		default:
			s.token(c)
		}
		fresh = s.line
	}
	for len(s.branches) > 0 {
		s.end()
	}
}

// token takes one token of code.
func (s *cSplitter) token(c byte) {
	items, open, deep := len(s.items), len(s.open), s.deep
	switch {
	case startsName(c) || c == '$':
		s.word()
	case isDigit(c) || c == '.' && isDigit(s.peek(1)):
		s.short(code.Number, opNumber, s.numberEnd())
	case c == '"' || c == '\'':
		s.long(opString, s.quoted(s.at, false))
	default:
		if n := len(s.branches); n > 0 && !s.skipping && closes(op(c)) && len(s.open) <= s.branches[n-1].open && !s.branches[n-1].first {
			s.drop() // the branch closes a bracket that is open around it
		}
		if s.skipping {
			s.emit(code.Operator, s.at, s.at+s.length(), s.line)
			s.at += s.length()
			return
		}
		s.operator(s.length())
		return
	}
	if s.skipping {
		s.items, s.open, s.deep = s.items[:items], s.open[:open], deep
	}
}

// drop discards the items of the present branch, which is not the first.
func (s *cSplitter) drop() {
	b := &s.branches[len(s.branches)-1]
	// The brackets that were open before the branch are open again, except those that the
	// branch closed and overwrote in s.open.
	n := min(len(s.open), b.open)
	for n > 0 && int(s.open[n-1]) >= b.items {
		n--
	}
	for before := s.open[:b.open]; n < b.open && int(before[n]) < b.items; n++ {
		s.items[before[n]].match = -1
	}
	s.items, s.open, s.deep = s.items[:b.items], s.open[:n], b.deep
	s.skipping = true
}

// directive takes a line of the preprocessor with its continuations.
func (s *cSplitter) directive() {
	i := s.at + 1
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t') {
		i++
	}
	word := s.text[i:s.name(i)]
	rest := i + len(word)
	end := s.directiveEnd(rest)
	argument := strings.TrimSpace(s.text[rest:end])
	line := s.line
	s.emit(code.Keyword, s.at, end, line)
	s.to(end)
	switch word {
	case "if", "ifdef", "ifndef":
		s.begin(word == "if" && (argument == "0" || strings.HasPrefix(argument, "0 ")))
	case "else", "elif", "elifdef", "elifndef":
		s.other()
	case "endif":
		s.end()
	case "include", "include_next", "import":
		if len(argument) > 2 && (argument[0] == '"' || argument[0] == '<') && len(s.f.Imports) < maxImports {
			mark := byte('"')
			if argument[0] == '<' {
				mark = '>'
			}
			if n := strings.IndexByte(argument[1:], mark); n > 0 {
				s.f.Imports = append(s.f.Imports, code.Import{Path: argument[:n+2], Line: int(line)})
			}
		}
	}
}

// directiveEnd returns the end of a directive: the end of the first line that does not
// continue, or the beginning of a comment.
func (s *cSplitter) directiveEnd(i int) int {
	for ; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			if i+1 < len(s.text) && s.text[i+1] == '\r' {
				i++
			}
			i++
		case '\n':
			if s.text[i-1] == '\r' {
				i--
			}
			return i
		case '/':
			if i+1 < len(s.text) && (s.text[i+1] == '*' || s.text[i+1] == '/') {
				return i
			}
		case '"', '\'':
			i = max(i, s.quoted(i, false)-1)
		}
	}
	return len(s.text)
}

// begin enters an #if; never is true for #if 0.
func (s *cSplitter) begin(never bool) {
	s.branches = append(s.branches, cBranch{items: len(s.items), open: len(s.open), deep: s.deep, outer: s.skipping, first: !never})
	s.skipping = s.skipping || never
}

// leave ends a branch of the innermost #if.
func (s *cSplitter) leave() {
	b := &s.branches[len(s.branches)-1]
	if b.outer {
		return
	}
	if !s.skipping && len(s.open) != b.open {
		if b.first {
			b.done = true
		} else {
			s.drop()
		}
	}
	s.skipping = false
}

// other begins the next branch of the innermost #if.
func (s *cSplitter) other() {
	if len(s.branches) == 0 {
		return
	}
	b := &s.branches[len(s.branches)-1]
	never := s.skipping && !b.first && !b.outer && b.items == len(s.items)
	s.leave()
	b.items, b.open, b.deep = len(s.items), len(s.open), s.deep
	b.first = never && !b.done // no branch has counted before
	s.skipping = b.outer || b.done || !s.cpp && s.deep > 0 && !b.first
}

// end leaves the innermost #if.
func (s *cSplitter) end() {
	if len(s.branches) == 0 {
		return
	}
	s.leave()
	s.skipping = s.branches[len(s.branches)-1].outer
	s.branches = s.branches[:len(s.branches)-1]
}

// word takes a name, a keyword, or a string with a prefix.
func (s *cSplitter) word() {
	end := s.at
	for end < len(s.text) && (inName(s.text[end]) || s.text[end] == '$') {
		end++
	}
	word := s.text[s.at:end]
	if end < len(s.text) && (s.text[end] == '"' || s.text[end] == '\'') {
		switch word {
		case "L", "u", "U", "u8":
			s.long(opString, s.quoted(end, false))
			return
		case "R", "LR", "uR", "UR", "u8R":
			if stop := s.raw(end); s.cpp && stop > 0 {
				s.long(opString, stop)
				return
			}
		}
	}
	if o := cKeyword(word, s.cpp); o != opNone {
		s.short(code.Keyword, o, end)
		return
	}
	s.short(code.Name, opName, end)
}

// raw returns the end of the raw string whose quote is at an offset; 0 if it is not a raw
// string.
func (s *cSplitter) raw(at int) int {
	open := strings.IndexByte(s.text[at:min(at+19, len(s.text))], '(')
	if open < 0 {
		return 0
	}
	mark := ")" + s.text[at+1:at+open] + `"`
	n := strings.Index(s.text[at+open:], mark)
	if n < 0 {
		return len(s.text)
	}
	return at + open + n + len(mark)
}

// numberEnd returns the end of a number, in which apostrophes can separate digits.
func (s *cSplitter) numberEnd() int {
	end := s.number(s.at)
	for s.cpp && end+1 < len(s.text) && s.text[end] == '\'' && inName(s.text[end+1]) {
		end = s.number(end + 1)
	}
	return end
}

// length returns how many bytes the operator here has.
func (s *cSplitter) length() int {
	t := s.text[s.at:]
	if len(t) >= 3 {
		switch t[:3] {
		case "...", "<<=", ">>=", "->*":
			return 3
		case "<=>":
			if s.cpp {
				return 3
			}
		}
	}
	if len(t) >= 2 {
		switch t[:2] {
		case "->", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<", ">>", "++", "--", "##":
			return 2
		case "::":
			if s.cpp {
				return 2
			}
		}
	}
	return 1
}

func cKeyword(word string, cpp bool) op {
	switch word {
	case "break":
		return kwBreak
	case "case":
		return kwCase
	case "continue":
		return kwContinue
	case "default":
		return kwDefault
	case "do":
		return kwDo
	case "else":
		return kwElse
	case "enum":
		return kwEnum
	case "extern":
		return kwExtern
	case "for":
		return kwFor
	case "goto":
		return kwGoto
	case "if":
		return kwIf
	case "return":
		return kwReturn
	case "struct":
		return kwStruct
	case "switch":
		return kwSwitch
	case "typedef":
		return kwTypedef
	case "union":
		return kwUnion
	case "while":
		return kwWhile
	case "static", "inline", "register", "auto", "const", "volatile", "restrict", "_Atomic", "_Noreturn", "_Thread_local":
		return kwModifier
	case "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "_Complex", "sizeof", "_Alignof", "_Generic":
		return kwOther
	}
	if !cpp {
		return opNone
	}
	switch word {
	case "this", "true", "false", "nullptr":
		return kwValue
	case "catch":
		return kwCatch
	case "class":
		return kwClass
	case "namespace":
		return kwNamespace
	case "new":
		return kwNew
	case "delete":
		return kwDelete
	case "operator":
		return kwOperator
	case "template":
		return kwTemplate
	case "throw":
		return kwThrow
	case "try":
		return kwTry
	case "using":
		return kwUsing
	case "friend":
		return kwPub
	case "constexpr", "consteval", "constinit", "explicit", "mutable", "virtual", "thread_local":
		return kwModifier
	case "public", "private", "protected":
		return kwImplements
	case "bool", "char8_t", "char16_t", "char32_t", "wchar_t", "typename", "typeid", "co_await", "co_return", "co_yield", "static_cast", "const_cast", "dynamic_cast", "reinterpret_cast", "alignof":
		return kwOther
	}
	return opNone
}
