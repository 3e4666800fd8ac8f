package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// function reads the header of a function.
func (p *pyFile) function(first int, block pyOpen) (pyOpen, bool) {
	p.at++
	if p.ahead(0) != code.Name {
		return block, false
	}
	name := p.f.Tokens[p.at]
	outer := len(p.funcs)
	if outer > 0 && len(p.blocks) == p.funcs[outer-1].depth {
		p.funcs[outer-1].functions++
	}
	p.at++
	params := p.params()
	p.expression(true)
	if !p.colon() {
		return block, false
	}
	scope := p.scope(p.f.Of(name), false)
	block.kind = pyFunction
	p.branch(1, false, false)
	if outer > 0 {
		block.nests = 1
	}
	if outer < MaxFuncDepth {
		fn := code.Func{Symbol: p.symbol(name, "function", first), Start: first, Params: params, Cyclomatic: 1, Test: p.test}
		if n := len(p.scopes); n > 0 && p.scopes[n-1].class {
			fn.Kind = "method"
		}
		fn.Label = fn.Name
		if fn.Owner != "" {
			fn.Label = fn.Owner + "." + fn.Name
		}
		block.symbol = len(p.f.Funcs)
		p.f.Funcs = append(p.f.Funcs, fn)
	}
	p.scopes = append(p.scopes, scope)
	return block, true
}

// params counts the parameters in the brackets that begin here, or after the brackets of
// type parameters.
func (p *pyCursor) params() int {
	depth, count, named := 0, 0, false
	lambdas := 0 // number of lambdas whose parameters are being read
	types := p.is(0, "[")
	for _, t := range p.f.Tokens[p.at:] {
		if t.Kind == code.Newline {
			break
		}
		if t.Kind == code.Name && depth == 1 && !types {
			if !named {
				count++
			}
			named = true
		}
		if t.Kind == code.Keyword && depth == 1 && p.f.Of(t) == "lambda" {
			lambdas++
		}
		if t.Kind != code.Operator {
			continue
		}
		switch p.f.Text[t.Start] {
		case ':':
			if depth == 1 && lambdas > 0 {
				lambdas--
			}
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				if !types {
					return count
				}
				types = false
			}
		case ',':
			named = named && (depth > 1 || lambdas > 0)
		}
	}
	return count
}

// class reads the header of a class.
func (p *pyFile) class(first int, block pyOpen) (pyOpen, bool) {
	p.statement()
	p.at++
	if p.ahead(0) != code.Name {
		return block, false
	}
	name := p.f.Tokens[p.at]
	p.at++
	bases := p.bases()
	p.expression(true)
	if !p.colon() {
		return block, false
	}
	s := p.symbol(name, "class", first)
	s.Bases = bases
	block.kind = pyClass
	block.symbol = len(p.f.Types)
	p.f.Types = append(p.f.Types, s)
	p.scopes = append(p.scopes, p.scope(s.Name, true))
	return block, true
}

// bases returns the names of the classes in the brackets that begin here, or after the
// brackets of type parameters.
func (p *pyCursor) bases() (all []string) {
	depth, from := 0, -1 // from is the first token of a base
	types := p.is(0, "[")
	for i := p.at; i < len(p.f.Tokens) && p.f.Tokens[i].Kind != code.Newline; i++ {
		t := p.f.Tokens[i]
		if t.Kind == code.Operator {
			switch c := p.f.Text[t.Start]; c {
			case '(', '[', '{', ')', ']', '}', ',', '=':
				if depth == 1 && from >= 0 && !types && (c == ')' || c == ',' || c == '[') {
					all = append(all, p.f.Text[p.f.Tokens[from].Start:p.f.Tokens[i-1].End])
				}
				if depth == 1 {
					from = -1
				}
				switch c {
				case '(', '[', '{':
					depth++
				case ')', ']', '}':
					if depth--; depth <= 0 {
						if !types {
							return all
						}
						types = false
					}
				}
				continue
			case '.':
				continue
			case ':':
				if depth == 0 {
					return all
				}
			}
			from = -1
			continue
		}
		if t.Kind == code.Name && depth == 1 && from < 0 && i > 0 && p.f.Tokens[i-1].Kind == code.Operator && (p.is(i-1-p.at, "(") || p.is(i-1-p.at, ",")) {
			from = i
		}
	}
	return all
}

// simple reads a statement without a block.
func (p *pyFile) simple() {
	word := p.f.Of(p.f.Tokens[p.at])
	direct := len(p.funcs) > 0 && len(p.blocks) == p.funcs[len(p.funcs)-1].depth
	switch {
	case p.kind() == code.Keyword && word == "import":
		p.importNames()
	case p.kind() == code.Keyword && word == "from":
		p.importFrom()
	case p.kind() == code.Keyword && word == "return":
		if direct {
			p.funcs[len(p.funcs)-1].returns++
		}
		p.last = p.at
		p.at++
		p.expression(false)
		return
	case p.kind() == code.String && p.ahead(1) == code.Newline:
		if strings.HasSuffix(word, `"""`) || strings.HasSuffix(word, "'''") {
			p.docs = append(p.docs, p.at)
		}
		p.expression(false)
		return
	case p.kind() == code.Name && word == "type" && p.ahead(1) == code.Name && (p.is(2, "=") || p.is(2, "[")):
		p.f.Tokens[p.at].Kind = code.Keyword
		if p.outside() {
			p.f.Types = append(p.f.Types, p.symbol(p.f.Tokens[p.at+1], "type", p.at))
		}
	case p.kind() == code.Name && p.outside():
		from := len(p.f.Vars)
		p.variables()
		p.expression(false)
		for i := range p.f.Vars[from:] {
			last := p.f.Tokens[p.last]
			p.f.Vars[from+i].Last = int(last.Line) + strings.Count(p.f.Of(last), "\n")
		}
		return
	}
	p.statement()
	p.expression(false)
}

// variables adds the variables to which the statement that begins here assigns, each once.
func (p *pyFile) variables() {
	var names []int
	for i := p.at; i+1 < len(p.f.Tokens) && p.f.Tokens[i].Kind == code.Name; i += 2 {
		names = append(names, i)
		switch p.f.Of(p.f.Tokens[i+1]) {
		case ",":
			continue
		case "=", ":":
			for _, n := range names {
				s := p.symbol(p.f.Tokens[n], "variable", n)
				if s.Name == strings.ToUpper(s.Name) {
					s.Kind = "constant"
				}
				if key := (pyVar{s.Owner, s.Name}); !p.vars[key] {
					if p.vars == nil {
						p.vars = make(map[pyVar]bool)
					}
					p.vars[key] = true
					p.f.Vars = append(p.f.Vars, s)
				}
			}
			names = names[:0]
			if p.f.Of(p.f.Tokens[i+1]) == "=" {
				continue
			}
		}
		return
	}
}

// importNames adds import a.b as c, d.
func (p *pyCursor) importNames() {
	for i := p.at + 1; i < len(p.f.Tokens); i++ {
		path, next := p.dotted(i)
		if path == "" {
			return
		}
		im := code.Import{Path: path, Line: int(p.f.Tokens[i].Line)}
		i = next
		if i+1 < len(p.f.Tokens) && p.f.Of(p.f.Tokens[i]) == "as" {
			im.Name = p.f.Of(p.f.Tokens[i+1])
			i += 2
		}
		p.f.Imports = append(p.f.Imports, im)
		if i >= len(p.f.Tokens) || p.f.Of(p.f.Tokens[i]) != "," {
			return
		}
	}
}

// importFrom adds from a.b import c as d, (e, *).
func (p *pyCursor) importFrom() {
	path, i := p.dotted(p.at + 1)
	if path == "" || i >= len(p.f.Tokens) || p.f.Of(p.f.Tokens[i]) != "import" {
		return
	}
	im := code.Import{Path: path, Line: int(p.f.Tokens[p.at].Line)}
	for i++; i < len(p.f.Tokens) && p.f.Tokens[i].Kind != code.Newline && p.f.Of(p.f.Tokens[i]) != ";"; i++ {
		t := p.f.Tokens[i]
		switch word := p.f.Of(t); {
		case t.Kind == code.Keyword && word == "as":
			i++ // skips the new name of the name before
		case t.Kind == code.Name || word == "*":
			im.Used = append(im.Used, word)
		}
	}
	p.f.Imports = append(p.f.Imports, im)
}

// dotted returns the path of names and dots that begins at a token, and the index of the
// token after it.
func (p *pyCursor) dotted(from int) (string, int) {
	i := from
	for ; i < len(p.f.Tokens); i++ {
		t := p.f.Tokens[i]
		word := p.f.Of(t)
		if t.Kind == code.Name && (i == from || p.f.Of(p.f.Tokens[i-1]) != "." && p.f.Of(p.f.Tokens[i-1]) != "...") && i > from {
			break
		}
		if t.Kind != code.Name && word != "." && word != "..." {
			break
		}
	}
	if i == from {
		return "", i
	}
	return p.f.Text[p.f.Tokens[from].Start:p.f.Tokens[i-1].End], i
}
