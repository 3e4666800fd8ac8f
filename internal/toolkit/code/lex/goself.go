package lex

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// goNames are the names that a file declares outside of functions.
type goNames struct {
	top    map[string]bool       // names except those of imports, methods and init
	bodies map[token.Pos]*goBody // functions, by the position of their name; nil until a name may mean several things
}

// goBody is a function whose names the parser has resolved.
type goBody struct {
	name *ast.Ident
	body *ast.BlockStmt
}

// recursion returns how many of the calls of the function's own name gocognit counts as
// recursion: the calls for which the parser finds the same declaration in this file as for
// the function. The parser finds no declaration for a method, and none for a name that
// another file or the language declares. So such a call of a method's name counts, too.
func (g *goFile) recursion(m *goFunc, name *ast.Ident, recv *ast.FieldList) int {
	if g.known == nil {
		g.known = &goNames{top: topNames(g.tree)}
	}
	named := m.named
	if recv != nil {
		ast.Inspect(recv, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == m.name {
				named++
			}
			return true
		})
	}
	switch {
	case named > m.self:
		return g.resolved(m, name) // the name may be declared within the function
	case recv == nil && m.name != "init":
		return m.self
	case g.known.top[m.name]:
		return 0
	}
	return m.self
}

// topNames returns the names that a file declares outside of functions, except those of
// imports, methods and init.
func topNames(tree *ast.File) map[string]bool {
	top := make(map[string]bool)
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name != "init" {
				top[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					top[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						top[n.Name] = true
					}
				}
			}
		}
	}
	return top
}

// resolved returns what recursion returns, by the declarations that the parser finds. This
// takes a second parse of the file.
func (g *goFile) resolved(m *goFunc, name *ast.Ident) (calls int) {
	if g.known.bodies == nil {
		g.known.bodies = bodies(g.f.Path, g.f.Text)
	}
	b := g.known.bodies[name.Pos()]
	if b == nil {
		return 0
	}
	ast.Inspect(b.body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == m.name && id.Obj == b.name.Obj {
				calls++
			}
		}
		return true
	})
	return calls
}

// bodies parses a file once more, and returns its functions.
func bodies(path, text string) map[token.Pos]*goBody {
	all := make(map[token.Pos]*goBody)
	tree, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		return all // does not happen: the text was valid before
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all[d.Name.Pos()] = &goBody{d.Name, d.Body}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.ValueSpec); ok {
					for i, v := range s.Values {
						if lit, ok := v.(*ast.FuncLit); ok && i < len(s.Names) {
							all[s.Names[i].Pos()] = &goBody{s.Names[i], lit.Body}
						}
					}
				}
			}
		}
	}
	return all
}
