package lex

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// parsePython reads Python by its tokens: statements by their first word, blocks by
// their indentation. Functions that a fault follows within them are left out.
func parsePython(f *code.File) {
	lexed := newPyLexer(f.Text)
	f.Tokens = lexed.tokens
	p := &pyFile{f: f, test: isPyTest(f.Path)}
	p.read()
	f.Lines = countLines(f.Text, p.withoutDocs())
	if lexed.fault == "" {
		return
	}
	gap(f, "functions", "not valid Python: "+lexed.fault)
	kept := f.Funcs[:0]
	for _, fn := range f.Funcs {
		if fn.End < lexed.broken {
			kept = append(kept, fn)
		}
	}
	f.Funcs = kept
}

// withoutDocs returns the tokens by which lines are counted, with docstrings as comments.
func (p *pyFile) withoutDocs() []code.Token {
	if len(p.docs) == 0 {
		return p.f.Tokens
	}
	all := slices.Clone(p.f.Tokens)
	for _, i := range p.docs {
		all[i].Kind = code.Comment
	}
	return all
}

// isPyTest reports whether a file is one that only tests run: as pytest and unittest
// find them.
func isPyTest(name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py") || base == "conftest.py" {
		return true
	}
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if part == "test" || part == "tests" {
			return true
		}
	}
	return false
}

// pyBlock is what begins a block.
type pyBlock uint8

const (
	pyOther pyBlock = iota // try, with, and what is not understood
	pyFinally
	pyBranch
	pyMatch
	pyCase
	pyFunction
	pyClass
)

// pyOpen is a block that is open.
type pyOpen struct {
	kind   pyBlock
	level  int // of the indentation of its statements; -1 for one on the line of its header
	nests  int // by how much it nests what Cognitive counts
	symbol int // of File.Funcs or File.Types
	scope  int // how many scopes were open before it
}

// pyFunc is a function that is open.
type pyFunc struct {
	index   int
	nesting int // around it
	depth   int // of the blocks around it
	self    bool
	finally int // blocks of finally that are open within it

	// Whether it is a decorator: a function that is nothing but another one and a
	// return. The inner one then counts as not nested.
	statements, functions, returns int
	weight                         int // how much less it counts then
}

// pyScope is a class or a function whose names are read.
type pyScope struct {
	owner string // the names of the scopes up to it, with dots
	class bool
	local bool // within a function
}

type pyVar struct{ owner, name string }

// pyFile reads the statements of a file.
type pyFile struct {
	f       *code.File
	test    bool
	at      int // index of the next token
	last    int // index of the last token with code
	level   int // of the indentation
	blocks  []pyOpen
	funcs   []pyFunc
	pending *pyOpen // a block whose statements are expected on the next lines
	scopes  []pyScope
	nesting int // of all blocks that are open, as Cognitive counts
	vars    map[pyVar]bool
	docs    []int // the tokens of strings with three quotes that are statements of their own
	expr    pyExpr
}

func (p *pyFile) kind() code.Kind { return p.f.Tokens[p.at].Kind }

// is reports whether the token that is ahead by n has a text.
func (p *pyFile) is(n int, text string) bool {
	return p.at+n < len(p.f.Tokens) && p.f.Of(p.f.Tokens[p.at+n]) == text
}

func (p *pyFile) ahead(n int) code.Kind {
	if p.at+n < len(p.f.Tokens) {
		return p.f.Tokens[p.at+n].Kind
	}
	return code.Newline
}

// read reads all statements.
func (p *pyFile) read() {
	for p.at < len(p.f.Tokens) {
		switch p.kind() {
		case code.Comment, code.Newline:
			p.at++
		case code.Indent:
			p.at++
			p.level++
			block := pyOpen{}
			if p.pending != nil {
				block = *p.pending
				p.pending = nil
			}
			block.level = p.level
			p.enter(block)
		case code.Dedent:
			p.at++
			p.leave(p.level)
			p.level--
		case code.Operator, code.Name, code.Keyword, code.Number, code.String:
			p.drop()
			p.line()
		}
	}
	p.drop()
	p.leave(0)
}

// drop gives up a block whose statements do not come.
func (p *pyFile) drop() {
	if p.pending != nil {
		block := *p.pending
		p.pending = nil
		block.level = -1
		p.enter(block)
		p.inline()
	}
}

// line reads the statements of a line: the header of a block with what follows on the
// same line, or simple statements.
func (p *pyFile) line() {
	for p.at < len(p.f.Tokens) {
		block, ok := p.header()
		if !ok {
			break
		}
		for p.at < len(p.f.Tokens) && p.kind() == code.Comment {
			p.at++
		}
		if p.at >= len(p.f.Tokens) || p.kind() == code.Newline {
			p.pending = &block
			p.at++
			p.inline()
			return
		}
		block.level = -1
		p.enter(block)
	}
	for p.at < len(p.f.Tokens) && p.kind() != code.Newline {
		if p.is(0, ";") || p.kind() == code.Comment || p.kind() == code.Indent || p.kind() == code.Dedent {
			p.at++
			continue
		}
		p.simple()
	}
	p.at++
	p.inline()
}

// inline ends the blocks that end with their line.
func (p *pyFile) inline() {
	for n := len(p.blocks); n > 0 && p.blocks[n-1].level < 0; n-- {
		p.close()
	}
}

// leave ends the blocks whose statements have an indentation.
func (p *pyFile) leave(level int) {
	for n := len(p.blocks); n > 0 && p.blocks[n-1].level >= level; n-- {
		p.close()
	}
}

// enter opens a block.
func (p *pyFile) enter(block pyOpen) {
	p.nesting += block.nests
	p.blocks = append(p.blocks, block)
	if block.kind == pyFinally {
		p.finally(1)
	}
	for i := range p.funcs {
		fn := &p.f.Funcs[p.funcs[i].index]
		fn.Nesting = max(fn.Nesting, len(p.blocks)-p.funcs[i].depth)
	}
	if block.kind == pyFunction && block.symbol >= 0 {
		p.funcs = append(p.funcs, pyFunc{index: block.symbol, nesting: p.nesting, depth: len(p.blocks)})
	}
}

// close ends the innermost block.
func (p *pyFile) close() {
	n := len(p.blocks) - 1
	block := p.blocks[n]
	p.blocks = p.blocks[:n]
	p.nesting -= block.nests
	p.scopes = p.scopes[:block.scope]
	if block.kind == pyFinally {
		p.finally(-1)
	}
	if block.symbol < 0 {
		return
	}
	last := p.f.Tokens[p.last]
	line := int(last.Line) + strings.Count(p.f.Of(last), "\n")
	switch block.kind {
	case pyFunction:
		fn := &p.f.Funcs[block.symbol]
		fn.Last, fn.End = line, p.last+1
		p.closeFunc()
	case pyClass:
		p.f.Types[block.symbol].Last = line
	case pyOther, pyFinally, pyBranch, pyMatch, pyCase:
	}
}

// closeFunc ends the innermost function.
func (p *pyFile) closeFunc() {
	n := len(p.funcs) - 1
	fn := p.funcs[n]
	if fn.functions == 1 && fn.returns == 1 && fn.statements == 0 {
		for i := range p.funcs {
			p.f.Funcs[p.funcs[i].index].Cognitive -= fn.weight
		}
	}
	p.funcs = p.funcs[:n]
}

// finally notes for each function that is open that such a block begins or ends.
func (p *pyFile) finally(n int) {
	for i := range p.funcs {
		p.funcs[i].finally += n
	}
}

// branch counts for each function that is open: paths for Cyclomatic, and one for
// Cognitive, with the nesting where nested. Cyclomatic is mccabe's number, which has none
// of the branches in blocks of finally; it has no operators and conditional expressions.
func (p *pyFile) branch(paths int, cognitive, nested bool) {
	for i := range p.funcs {
		open := &p.funcs[i]
		fn := &p.f.Funcs[open.index]
		if open.finally == 0 {
			fn.Cyclomatic += paths
		}
		if cognitive {
			fn.Cognitive++
		}
		if nested {
			fn.Cognitive += p.nesting + p.expr.nesting - open.nesting
			if i+1 < len(p.funcs) {
				open.weight++
			}
		}
	}
}

// header reads the header of a block up to its colon; false where there is none.
func (p *pyFile) header() (block pyOpen, ok bool) {
	start := p.at
	if p.kind() == code.Operator && p.is(0, "@") {
		p.at++
		p.expression(false)
		return block, false
	}
	block = pyOpen{symbol: -1, scope: len(p.scopes)}
	first := p.at
	if p.is(0, "async") && p.ahead(1) == code.Keyword {
		p.at++
	}
	word := p.f.Of(p.f.Tokens[p.at])
	if p.kind() == code.Name {
		switch {
		case word == "match" && p.isMatch():
		case word == "case" && len(p.blocks) > 0 && p.blocks[len(p.blocks)-1].kind == pyMatch:
		default:
			p.at = start
			return block, false
		}
		p.f.Tokens[p.at].Kind = code.Keyword
	} else if p.kind() != code.Keyword {
		p.at = start
		return block, false
	}
	switch word {
	case "if", "for", "while":
		p.branch(1, true, true)
		block.kind, block.nests = pyBranch, 1
	case "elif":
		p.branch(1, true, false)
		block.kind, block.nests = pyBranch, 1
	case "else":
		p.branch(0, true, false)
		block.kind, block.nests = pyBranch, 1
	case "try":
		p.branch(1, false, false) // as mccabe counts: a body may end or not
	case "except":
		p.branch(1, true, true)
		block.kind, block.nests = pyBranch, 1
	case "finally":
		block.kind = pyFinally
	case "with":
	case "match":
		p.branch(0, true, true)
		block.kind, block.nests = pyMatch, 1
	case "case":
		if !p.anyCase() {
			p.branch(1, false, false)
		}
		block.kind = pyCase
	case "def":
		return p.function(first, block)
	case "class":
		return p.class(first, block)
	default:
		p.at = start
		return block, false
	}
	p.statement()
	p.at++
	p.expression(true)
	return block, p.colon()
}

// statement notes that a function has another statement than a function or a return.
func (p *pyFile) statement() {
	if n := len(p.funcs); n > 0 && len(p.blocks) == p.funcs[n-1].depth {
		p.funcs[n-1].statements++
	}
}

// colon goes over the colon of a header; false where it is missing.
func (p *pyFile) colon() bool {
	if p.at < len(p.f.Tokens) && p.is(0, ":") {
		p.last = p.at
		p.at++
		return true
	}
	return false
}

// isMatch reports whether a match statement begins here, not a variable of this name:
// the first word of its block is case.
func (p *pyFile) isMatch() bool {
	i := p.at + 1
	switch p.ahead(1) {
	case code.Newline, code.Comment, code.Indent, code.Dedent:
		return false
	case code.Operator:
		switch p.f.Of(p.f.Tokens[i]) {
		case "(", "[", "{", "-", "+", "~", "*":
		default:
			return false
		}
	case code.Name, code.Keyword, code.Number, code.String:
	}
	for i < len(p.f.Tokens) && p.f.Tokens[i].Kind != code.Newline {
		i++
	}
	for i < len(p.f.Tokens) && (p.f.Tokens[i].Kind == code.Newline || p.f.Tokens[i].Kind == code.Comment) {
		i++
	}
	return i+1 < len(p.f.Tokens) && p.f.Tokens[i].Kind == code.Indent && p.f.Of(p.f.Tokens[i+1]) == "case"
}

// anyCase reports whether the case that begins here takes whatever there is.
func (p *pyFile) anyCase() bool { return p.ahead(1) == code.Name && p.is(2, ":") }
