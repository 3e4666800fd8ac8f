package lex

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// parseGo reads Go with the standard library's parser. A text that the
// parser refuses has tokens and lines, but no functions.
func parseGo(f *code.File) {
	var deep int
	if f.Tokens, deep = goTokens(f.Text); deep > 0 {
		gap(f, "functions", "more than "+strconv.Itoa(maxGoBrackets)+" brackets are nested at line "+strconv.Itoa(deep))
		return
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, f.Path, f.Text, parser.SkipObjectResolution)
	if err != nil {
		gap(f, "functions", "not valid Go: "+firstFault(err))
		return
	}
	g := &goFile{goPlaces: newGoPlaces(f, files.File(tree.Package)), tree: tree}
	g.imports()
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			g.declared(d)
		case *ast.FuncDecl:
			if d.Body != nil {
				g.function(d.Name, d.Type.Func, d.Type, d.Body, d.Recv)
			}
		}
	}
}

// maxGoBrackets is the deepest nesting of brackets in Go that is parsed. The standard
// library's parser accepts 100,000 levels. Each level takes stack, and time until the
// parser reports that the text is wrong.
const maxGoBrackets = 1000

// firstFault returns the first fault of a text, with its line.
func firstFault(err error) string {
	if all, ok := err.(scanner.ErrorList); ok && len(all) > 0 { //nolint:errorlint // parser.ParseFile documents that it returns an ErrorList
		return "line " + strconv.Itoa(all[0].Pos.Line) + ": " + all[0].Msg
	}
	return err.Error()
}

// goFile reads the declarations of a file.
type goFile struct {
	goPlaces

	tree  *ast.File
	known *goNames // names of the file; nil until they are needed
}

func (g *goFile) imports() {
	for _, d := range g.tree.Imports {
		path, err := strconv.Unquote(d.Path.Value)
		if err != nil {
			continue // the parser has already refused such a path
		}
		i := code.Import{Path: path, Line: g.line(d.Path.Pos())}
		if d.Name != nil {
			i.Name = d.Name.Name
		}
		g.f.Imports = append(g.f.Imports, i)
	}
}

// declared adds the types, the constants and the variables of a declaration.
func (g *goFile) declared(d *ast.GenDecl) {
	if d.Tok == token.CONST || d.Tok == token.VAR {
		g.f.Vars = slices.Grow(g.f.Vars, len(d.Specs))
	}
	for _, s := range d.Specs {
		first := s.Pos()
		if !d.Lparen.IsValid() {
			first = d.Pos()
		}
		switch s := s.(type) {
		case *ast.TypeSpec:
			kind, bases := g.typeKind(s)
			g.f.Types = append(g.f.Types, g.symbol(s.Name, kind, first, s.End(), bases))
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.Name != "_" {
					g.f.Vars = append(g.f.Vars, g.symbol(name, d.Tok.String(), first, s.End(), nil))
				}
			}
			for i, value := range s.Values {
				if lit, ok := value.(*ast.FuncLit); ok && i < len(s.Names) {
					g.function(s.Names[i], s.Names[i].Pos(), lit.Type, lit.Body, nil)
				}
			}
		}
	}
}

func (g *goFile) symbol(name *ast.Ident, kind string, first, end token.Pos, bases []string) code.Symbol {
	line := g.line(name.Pos())
	return code.Symbol{
		Name:     name.Name,
		Kind:     kind,
		Line:     line,
		First:    line - g.lines(first, name.Pos()),
		Last:     line + g.lines(name.Pos(), end-1),
		Exported: name.IsExported(),
		Bases:    bases,
	}
}

// typeKind returns what a type is, and which types it embeds.
func (g *goFile) typeKind(s *ast.TypeSpec) (kind string, bases []string) {
	switch t := s.Type.(type) {
	case *ast.StructType:
		return "struct", g.embedded(t.Fields)
	case *ast.InterfaceType:
		return "interface", g.embedded(t.Methods)
	}
	if s.Assign.IsValid() {
		return "alias", nil
	}
	return "type", nil
}

// embedded returns the types of fields without a name. A union, or a constraint such as
// ~int, is not an embedded type.
func (g *goFile) embedded(fields *ast.FieldList) (all []string) {
	for _, field := range fields.List {
		if len(field.Names) == 0 {
			if name := typeName(field.Type); name != "" {
				all = append(all, name)
			}
		}
	}
	return all
}

// typeName returns the name of a type with its package, without a star and without type
// arguments; empty if the type has no name.
func typeName(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		case *ast.SelectorExpr:
			if x, ok := t.X.(*ast.Ident); ok {
				return x.Name + "." + t.Sel.Name
			}
			return ""
		default:
			return ""
		}
	}
}

// function adds a function, or a variable that is declared with a function. gocyclo also
// counts such variables.
func (g *goFile) function(name *ast.Ident, first token.Pos, typ *ast.FuncType, body *ast.BlockStmt, recv *ast.FieldList) {
	fn := code.Func{
		Symbol: g.symbol(name, "func", first, body.End(), nil),
		Label:  name.Name,
		Start:  g.token(typ.Pos()),
		End:    g.token(body.End()),
		Params: typ.Params.NumFields(),
		Test:   strings.HasSuffix(g.f.Path, "_test.go"),
	}
	if recv != nil && recv.NumFields() > 0 {
		fn.Kind = "method"
		fn.Owner = typeName(recv.List[0].Type)
		fn.Label = "(" + receiver(recv.List[0].Type) + ")." + name.Name
	}
	m := &goFunc{goPlaces: g.goPlaces, fn: &fn, name: name.Name}
	m.measure(typ, body)
	if m.self > 0 {
		fn.Cognitive += g.recursion(m, name, recv)
	}
	g.f.Funcs = append(g.f.Funcs, fn)
}

// receiver returns a receiver's type as gocyclo and gocognit print it.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return "*" + receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	}
	return "BADRECV"
}
