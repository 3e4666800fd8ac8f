package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// pyBlock is the kind of statement that begins a block.
type pyBlock uint8

const (
	pyOther pyBlock = iota // try, with, and statements that are not understood
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
	level  int // indentation of its statements; -1 if they stand on the line of its header
	nests  int // levels that it adds to the nesting of Cognitive
	symbol int // index in File.Funcs or File.Types; -1 if it has none
	scope  int // number of scopes that were open before it
}

// pyFunc is a function that is open.
type pyFunc struct {
	index   int
	nesting int // nesting around its body, in the sense of Cognitive
	depth   int // number of open blocks, including its own
	self    bool
	finally int // number of finally blocks that are open within it

	// These counts find out whether it is a decorator: a function that contains only
	// another function and a return. The inner function then counts as not nested.
	statements, functions, returns int
	weight                         int // amount by which Cognitive is less for a decorator
}

// pyScope is a class or a function whose names are read.
type pyScope struct {
	owner string // names of the scopes up to this one, joined by dots
	class bool
	local bool // it is a function or lies within one
}

type pyVar struct{ owner, name string }

// pyFile reads the statements of a file.
type pyFile struct {
	pyCursor

	test    bool
	level   int // indentation of the present line
	blocks  []pyOpen
	funcs   []pyFunc
	pending *pyOpen // block whose statements are expected on the next lines
	scopes  []pyScope
	nesting int // nesting of all open blocks, in the sense of Cognitive
	vars    map[pyVar]bool
	docs    []int // tokens of strings with three quotes that are statements of their own
	expr    pyExpr
}

// pyCursor moves over the tokens of a file.
type pyCursor struct {
	f    *code.File
	at   int // index of the next token
	last int // index of the last token with code
}

func (p *pyCursor) kind() code.Kind { return p.f.Tokens[p.at].Kind }

// is reports whether the token that is ahead by n has a text.
func (p *pyCursor) is(n int, text string) bool {
	return p.at+n >= 0 && p.at+n < len(p.f.Tokens) && p.f.Of(p.f.Tokens[p.at+n]) == text
}

func (p *pyCursor) ahead(n int) code.Kind {
	if p.at+n < len(p.f.Tokens) {
		return p.f.Tokens[p.at+n].Kind
	}
	return code.Newline
}

// inline ends the blocks whose statements stand on the line of their header.
func (p *pyFile) inline() {
	for n := len(p.blocks); n > 0 && p.blocks[n-1].level < 0; n-- {
		p.close()
	}
}

// leave ends the blocks whose statements have at least this indentation.
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

// finally records for each open function that a finally block begins (n is 1) or ends (n is
// -1).
func (p *pyFile) finally(n int) {
	for i := range p.funcs {
		p.funcs[i].finally += n
	}
}

// branch adds to the counts of each open function: paths to Cyclomatic, and, if cognitive
// is true, one to Cognitive. If nested is true, it also adds the nesting to Cognitive.
// Cyclomatic is the number of mccabe, which does not count branches in finally blocks,
// operators, and conditional expressions.
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

// statement records that the innermost function contains a statement that is neither a
// function nor a return.
func (p *pyFile) statement() {
	if n := len(p.funcs); n > 0 && len(p.blocks) == p.funcs[n-1].depth {
		p.funcs[n-1].statements++
	}
}

// colon moves past the colon of a header; it returns false if the colon is missing.
func (p *pyCursor) colon() bool {
	if p.at < len(p.f.Tokens) && p.is(0, ":") {
		p.last = p.at
		p.at++
		return true
	}
	return false
}

// pyExpr is the state of the expression that is being read.
type pyExpr struct {
	nesting int // nesting of conditional expressions and lambdas
	levels  []pyLevel
	deeper  int // number of levels beyond maxLevels; they share the last level
}

// maxLevels is the number of nested brackets that are kept apart. Python itself reads 200.
const maxLevels = 1000

// pyLevel is the state of the text between two brackets.
type pyLevel struct {
	last    byte // operator of the present sequence of "and" or of "or", by its first letter
	nested  int32
	lambdas int32 // number of lambdas whose colon has not been read
}

// down enters a bracket.
func (e *pyExpr) down() {
	if len(e.levels) == maxLevels {
		e.deeper++
		return
	}
	e.levels = append(e.levels, pyLevel{})
}

// up leaves a bracket.
func (e *pyExpr) up() {
	e.reset()
	switch {
	case e.deeper > 0:
		e.deeper--
	case len(e.levels) > 1:
		e.levels = e.levels[:len(e.levels)-1]
	}
}

// reset starts another expression at the same level.
func (e *pyExpr) reset() {
	l := &e.levels[len(e.levels)-1]
	e.nesting -= int(l.nested)
	*l = pyLevel{}
}

// most is the longest path of scopes, in bytes; a longer one loses its beginning.
const most = 256

// scope returns the scope of a class or a function that begins.
func (p *pyFile) scope(name string, class bool) pyScope {
	s := pyScope{owner: name, class: class, local: !class}
	if n := len(p.scopes); n > 0 {
		s.local = s.local || p.scopes[n-1].local
		s.owner = p.scopes[n-1].owner + "." + name
	}
	s.owner = s.owner[max(0, len(s.owner)-most):]
	return s
}

// symbol returns a symbol in the innermost scope.
func (p *pyFile) symbol(name code.Token, kind string, first int) code.Symbol {
	s := code.Symbol{Name: p.f.Of(name), Kind: kind, Line: int(name.Line), First: int(p.f.Tokens[first].Line)}
	s.Exported = !strings.HasPrefix(s.Name, "_") || strings.HasPrefix(s.Name, "__") && strings.HasSuffix(s.Name, "__")
	s.Last = s.Line
	if n := len(p.scopes); n > 0 {
		s.Owner = p.scopes[n-1].owner
		s.Exported = s.Exported && !p.scopes[n-1].local
	}
	return s
}

// outside reports whether no function is open.
func (p *pyFile) outside() bool {
	return len(p.scopes) == 0 || !p.scopes[len(p.scopes)-1].local
}
