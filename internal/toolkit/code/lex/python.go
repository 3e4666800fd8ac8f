package lex

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// parsePython reads Python by its tokens: statements by their first word, blocks by their
// indentation. If the text contains a fault, the functions that do not end before the fault
// are left out.
func parsePython(f *code.File) {
	lexed := newPyLexer(f.Text)
	f.Tokens = lexed.done()
	p := &pyFile{pyCursor: pyCursor{f: f}, test: isPyTest(f.Path)}
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

// isPyTest reports whether a file contains only tests, by the rules with which pytest and
// unittest find such files.
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

// drop ends a block whose statements are missing.
func (p *pyFile) drop() {
	if p.pending != nil {
		block := *p.pending
		p.pending = nil
		block.level = -1
		p.enter(block)
		p.inline()
	}
}

// line reads the statements of a line: the header of a block with the simple statements
// after it on the same line, or only simple statements.
func (p *pyFile) line() {
	if block, ok := p.header(); ok {
		for p.at < len(p.f.Tokens) && p.kind() == code.Comment {
			p.at++
		}
		if p.at >= len(p.f.Tokens) || p.kind() == code.Newline {
			p.pending = &block
			p.at++
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

// header reads the header of a block up to its colon; ok is false if the line has no
// header.
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
		p.branch(1, false, false) // mccabe counts one more path, because the body can stop early
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

// isMatch reports whether a match statement begins here, and not a statement with a
// variable of this name: the first word of its block must be case.
func (p *pyCursor) isMatch() bool {
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

// anyCase reports whether the case that begins here matches every value.
func (p *pyCursor) anyCase() bool { return p.ahead(1) == code.Name && p.is(2, ":") }
