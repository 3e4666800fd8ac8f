package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"testing"
)

// A type with more fields or methods than these has several jobs.
const (
	maxFields  = 20
	maxMethods = 30
)

// size is the number of a type's own fields and methods. Only a struct has fields.
type size struct{ fields, methods int }

func TestTypesAreSmall(t *testing.T) {
	sizes := map[string]size{}
	for _, name := range sources(t) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		count(file, path.Dir(filepath.ToSlash(name)), sizes)
	}
	for name, is := range sizes {
		if is.fields > maxFields {
			t.Errorf("%s has %d fields, want at most %d: it has several jobs", name, is.fields, maxFields)
		}
		if is.methods > maxMethods {
			t.Errorf("%s has %d methods, want at most %d: it has several jobs", name, is.methods, maxMethods)
		}
	}
}

// count adds the fields and methods of the types in one file to sizes. The keys of sizes
// are the directory and the name of the type.
func count(file *ast.File, dir string, sizes map[string]size) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if s, ok := named.Type.(*ast.StructType); ok {
					is := sizes[dir+"."+named.Name.Name]
					is.fields = s.Fields.NumFields()
					sizes[dir+"."+named.Name.Name] = is
				}
			}
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			if name := receiver(d.Recv.List[0].Type); name != "" {
				is := sizes[dir+"."+name]
				is.methods++
				sizes[dir+"."+name] = is
			}
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr: // receiver of a generic type
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestCountsFieldsAndMethods(t *testing.T) {
	const text = `package p
type s struct { a, b int; *c; d struct{ x, y int } }
func (s) one() {}
func (x *s) two() {}
type g[T any] struct{ v T }
func (g[T]) three() {}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]size{}
	count(file, "p", got)
	for name, want := range map[string]size{"p.s": {4, 2}, "p.g": {1, 1}} {
		if got[name] != want {
			t.Errorf("%s: got %+v, want %+v", name, got[name], want)
		}
	}
}
