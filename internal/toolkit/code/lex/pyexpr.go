package lex

import (
	"belljar.dev/internal/toolkit/code"
)

// expression reads the tokens of a statement up to the end of the statement, a semicolon,
// or the colon of a header.
func (p *pyFile) expression(header bool) {
	e := &p.expr
	e.nesting, e.levels, e.deeper = 0, append(e.levels[:0], pyLevel{}), 0
	defer func() { e.nesting = 0 }()
	for ; p.at < len(p.f.Tokens); p.at++ {
		t := p.f.Tokens[p.at]
		top := &e.levels[len(e.levels)-1]
		switch t.Kind {
		case code.Newline, code.Indent, code.Dedent:
			return
		case code.Comment:
			continue
		case code.Operator:
			switch p.f.Text[t.Start] {
			case '(', '[', '{':
				e.down()
			case ')', ']', '}':
				e.up()
			case ',':
				e.reset()
			case ';':
				if len(e.levels) == 1 {
					return
				}
			case ':':
				switch {
				case t.End-t.Start > 1:
				case top.lambdas > 0:
					top.lambdas--
				case header && len(e.levels) == 1:
					return
				default:
					e.reset()
				}
			}
		case code.Keyword:
			p.operatorWord(p.f.Of(t), top)
		case code.Name:
			if p.is(1, "(") && !p.is(-1, "def") && !p.is(-1, "class") {
				p.call()
			}
		case code.Number, code.String:
		}
		p.last = p.at
	}
}

// operatorWord counts a keyword within an expression.
func (p *pyFile) operatorWord(word string, top *pyLevel) {
	switch word {
	case "and", "or":
		if top.last != word[0] {
			top.last = word[0]
			p.branch(0, true, false)
		}
	case "if", "for":
		top.last = 0
	case "else": // the else of a conditional expression; no other expression has one
		p.branch(0, true, true)
		top.last = 0
		top.nested++
		p.expr.nesting++
	case "lambda":
		top.last = 0
		top.lambdas++
		top.nested++
		p.expr.nesting++
	}
}

// call adds a call of the name at the current token to the innermost function.
func (p *pyFile) call() {
	if len(p.funcs) == 0 {
		return
	}
	t := p.f.Tokens[p.at]
	call := code.Call{Name: p.f.Of(t), Of: p.before(), Line: int(t.Line), Token: p.at}
	for i := range p.funcs {
		open := &p.funcs[i]
		fn := &p.f.Funcs[open.index]
		if fn.Name == call.Name && !open.self && (call.Of == "" && fn.Kind == "function" || fn.Kind == "method" && (call.Of == "self" || call.Of == "cls")) {
			open.self = true // a function that calls itself counts once
			fn.Cognitive++
		}
	}
	fn := &p.f.Funcs[p.funcs[len(p.funcs)-1].index]
	fn.Calls = append(fn.Calls, call)
}

// before returns the names before the dot in front of the current token. If another
// expression is before the dot, it returns the last token of the expression.
func (p *pyCursor) before() string {
	i := p.at - 1
	if i < 0 || p.f.Of(p.f.Tokens[i]) != "." {
		return ""
	}
	end := i - 1
	if end < 0 {
		return ""
	}
	first := end
	for range 8 {
		if p.f.Tokens[first].Kind != code.Name || first < 2 || p.f.Of(p.f.Tokens[first-1]) != "." {
			break
		}
		first -= 2
	}
	if end > 1 && first == end && p.f.Of(p.f.Tokens[end]) == ")" && p.f.Of(p.f.Tokens[end-1]) == "(" && p.f.Tokens[end-2].Kind == code.Name {
		first = end - 2 // such as super()
	}
	return tail(p.f.Text[p.f.Tokens[first].Start:p.f.Tokens[end].End])
}
