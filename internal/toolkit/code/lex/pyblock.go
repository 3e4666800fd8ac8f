package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

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
	pyCursor

	test    bool
	level   int // of the indentation
	blocks  []pyOpen
	funcs   []pyFunc
	pending *pyOpen // a block whose statements are expected on the next lines
	scopes  []pyScope
	nesting int // of all blocks that are open, for Cognitive
	vars    map[pyVar]bool
	docs    []int // the tokens of strings with three quotes that are statements of their own
	expr    pyExpr
}

// pyCursor goes over the tokens of a file.
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

// statement notes that a function has another statement than a function or a return.
func (p *pyFile) statement() {
	if n := len(p.funcs); n > 0 && len(p.blocks) == p.funcs[n-1].depth {
		p.funcs[n-1].statements++
	}
}

// colon goes over the colon of a header; false where it is missing.
func (p *pyCursor) colon() bool {
	if p.at < len(p.f.Tokens) && p.is(0, ":") {
		p.last = p.at
		p.at++
		return true
	}
	return false
}

// pyExpr is what is known of the expression that is read.
type pyExpr struct {
	nesting int // of conditional expressions and lambdas
	levels  []pyLevel
	deeper  int // levels beyond maxLevels, which share the last one
}

// maxLevels is how many brackets in each other are kept apart. Python itself reads 200.
const maxLevels = 1000

// pyLevel is what stands between two brackets.
type pyLevel struct {
	last    byte // the operator of the sequence of and or or, by its first letter
	nested  int32
	lambdas int32 // whose colons are yet to come
}

// down goes into a bracket.
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

// reset begins another expression at the same level.
func (e *pyExpr) reset() {
	l := &e.levels[len(e.levels)-1]
	e.nesting -= int(l.nested)
	*l = pyLevel{}
}

// most is how long a path of scopes may be.
const most = 256

// scope returns that of a class or a function that begins.
func (p *pyFile) scope(name string, class bool) pyScope {
	s := pyScope{owner: name, class: class, local: !class}
	if n := len(p.scopes); n > 0 {
		s.local = s.local || p.scopes[n-1].local
		s.owner = p.scopes[n-1].owner + "." + name
	}
	s.owner = s.owner[max(0, len(s.owner)-most):]
	return s
}

// symbol returns a symbol of the scope that is open.
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
