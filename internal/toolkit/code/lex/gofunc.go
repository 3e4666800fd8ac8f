package lex

import (
	"go/ast"
	"go/token"
	"sort"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// goFunc measures one function. Cyclomatic is what gocyclo 0.6.0 counts and Cognitive what
// gocognit 1.2.1 counts, with their peculiarities: a function literal belongs to the
// function around it, and the block of an else is nested no deeper than its if.
// internal/toolkit/quality compares the numbers over the standard library.
type goFunc struct {
	goPlaces

	fn      *code.Func
	name    string
	self    int // number of calls of something with the function's name
	named   int // number of names equal to the function's, without names after a dot
	nesting int // nesting level as Cognitive counts it
	depth   int // number of blocks around the present node
}

// measure fills the metrics and the calls of the function.
func (m *goFunc) measure(typ *ast.FuncType, body *ast.BlockStmt) {
	m.fn.Cyclomatic = 1
	ast.Walk(m, typ)
	ast.Walk(m, body)
}

// Visit counts a node, and walks over the children whose order or depth matters.
func (m *goFunc) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.IfStmt:
		m.ifStatement(n, false)
		return nil
	case *ast.ForStmt:
		m.branch(true)
		if n.Init != nil {
			ast.Walk(m, n.Init)
		}
		if n.Cond != nil {
			ast.Walk(m, n.Cond)
		}
		if n.Post != nil {
			ast.Walk(m, n.Post)
		}
		m.body(n.Body)
		return nil
	case *ast.RangeStmt:
		m.branch(true)
		if n.Key != nil {
			ast.Walk(m, n.Key)
		}
		if n.Value != nil {
			ast.Walk(m, n.Value)
		}
		if n.X != nil {
			ast.Walk(m, n.X)
		}
		m.body(n.Body)
		return nil
	case *ast.SwitchStmt:
		m.branch(false)
		if n.Init != nil {
			ast.Walk(m, n.Init)
		}
		if n.Tag != nil {
			ast.Walk(m, n.Tag)
		}
		m.body(n.Body)
		return nil
	case *ast.TypeSwitchStmt:
		m.branch(false)
		if n.Init != nil {
			ast.Walk(m, n.Init)
		}
		if n.Assign != nil {
			ast.Walk(m, n.Assign)
		}
		m.body(n.Body)
		return nil
	case *ast.SelectStmt:
		m.branch(false)
		m.body(n.Body)
		return nil
	case *ast.FuncLit:
		ast.Walk(m, n.Type)
		m.body(n.Body)
		return nil
	case *ast.CaseClause:
		if n.List != nil {
			m.fn.Cyclomatic++
		}
	case *ast.CommClause:
		if n.Comm != nil {
			m.fn.Cyclomatic++
		}
	case *ast.BranchStmt:
		if n.Label != nil {
			m.fn.Cognitive++
		}
	case *ast.BinaryExpr:
		if logical(n.Op) {
			last := token.ILLEGAL
			m.chain(n, &last)
			return nil
		}
	case *ast.CallExpr:
		m.call(n)
	case *ast.SelectorExpr:
		ast.Walk(m, n.X)
		return nil
	case *ast.Ident:
		if n.Name == m.name {
			m.named++
		}
	}
	return m
}

// branch counts a statement that branches. itself is false if its cases are counted as
// branches instead.
func (m *goFunc) branch(itself bool) {
	m.fn.Cognitive += m.nesting + 1
	if itself {
		m.fn.Cyclomatic++
	}
}

// body walks over a block that is nested deeper.
func (m *goFunc) body(b *ast.BlockStmt) {
	m.nesting++
	m.block(b)
	m.nesting--
}

// block walks over a block. Nesting is the largest depth of a block.
func (m *goFunc) block(b *ast.BlockStmt) {
	m.depth++
	m.fn.Nesting = max(m.fn.Nesting, m.depth)
	ast.Walk(m, b)
	m.depth--
}

// ifStatement walks over an if; chained is true if it stands after an else.
func (m *goFunc) ifStatement(n *ast.IfStmt, chained bool) {
	for {
		m.fn.Cyclomatic++
		m.fn.Cognitive++
		if !chained {
			m.fn.Cognitive += m.nesting
		}
		if n.Init != nil {
			ast.Walk(m, n.Init)
		}
		ast.Walk(m, n.Cond)
		m.body(n.Body)
		switch other := n.Else.(type) {
		case *ast.IfStmt:
			n, chained = other, true
			continue
		case *ast.BlockStmt:
			m.fn.Cognitive++
			m.block(other)
		}
		return
	}
}

// chain walks over operators without brackets between them. Cognitive grows by one for each
// change from && to || or back.
func (m *goFunc) chain(n *ast.BinaryExpr, last *token.Token) {
	m.link(n.X, last)
	if logical(n.Op) {
		m.fn.Cyclomatic++
		if n.Op != *last {
			m.fn.Cognitive++
			*last = n.Op
		}
	}
	m.link(n.Y, last)
}

func (m *goFunc) link(e ast.Expr, last *token.Token) {
	if b, ok := e.(*ast.BinaryExpr); ok {
		m.chain(b, last)
		return
	}
	ast.Walk(m, e)
}

func logical(op token.Token) bool { return op == token.LAND || op == token.LOR }

// call adds a call if the function that it calls has a name.
func (m *goFunc) call(n *ast.CallExpr) {
	if id, ok := n.Fun.(*ast.Ident); ok && id.Name == m.name {
		m.self++
	}
	called := n.Fun
	for {
		switch e := called.(type) {
		case *ast.ParenExpr:
			called = e.X
		case *ast.IndexExpr:
			called = e.X
		case *ast.IndexListExpr:
			called = e.X
		case *ast.Ident:
			m.add(e, "")
			return
		case *ast.SelectorExpr:
			m.add(e.Sel, m.text(e.X))
			return
		default:
			return
		}
	}
}

func (m *goFunc) add(name *ast.Ident, of string) {
	at := m.token(name.Pos())
	m.fn.Calls = append(m.fn.Calls, code.Call{Name: name.Name, Of: of, Line: int(m.f.Tokens[at].Line), Token: at})
}

// goPlaces converts the parser's positions into lines and tokens.
type goPlaces struct {
	f    *code.File
	file *token.File
	last *goLine
}

// goLine is the position of the last lookup and its line. The next lookup is mostly for a
// later position.
type goLine struct{ at, line int }

func newGoPlaces(f *code.File, file *token.File) goPlaces {
	return goPlaces{f, file, &goLine{0, 1}}
}

// line returns the line of a position.
func (g goPlaces) line(p token.Pos) int {
	at := g.file.Offset(p)
	if at < g.last.at {
		return g.file.PositionFor(p, false).Line
	}
	*g.last = goLine{at, g.last.line + strings.Count(g.f.Text[g.last.at:at], "\n")}
	return g.last.line
}

// lines returns the number of lines that end between two positions. This is faster than a
// lookup of both lines.
func (g goPlaces) lines(from, to token.Pos) int {
	return strings.Count(g.f.Text[g.file.Offset(from):g.file.Offset(to)], "\n")
}

// token returns the index of the first token at or after a position.
func (g goPlaces) token(p token.Pos) int {
	at := int32(g.file.Offset(p))
	return sort.Search(len(g.f.Tokens), func(i int) bool { return g.f.Tokens[i].Start >= at })
}

// text returns the source text of an expression; only its end if the expression is long.
func (g goPlaces) text(e ast.Expr) string {
	return tail(g.f.Text[g.file.Offset(e.Pos()):g.file.Offset(e.End())])
}
