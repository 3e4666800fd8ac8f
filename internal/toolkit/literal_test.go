package toolkit

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// stated are the types of results whose numbers may be constants in the source: such
// numbers are limits, and not measures.
var stated = map[string]string{"thresholds": "the limits that a result was judged by"}

// fixed is the number of constants that each field may have.
var fixed = map[string]int{
	"GateFault.Line": 1, "GateFault.EndLine": 1, // the fault of a coverage that is too low has no line in the coverage file
	"Parts.Words": 1, "Parts.Runs": 1, "Parts.Letters": 1, // two equal names without letters have the similarity 1
}

// No number in a result is a constant of the source: each is measured.
func TestNoNumberOfAResultIsConstant(t *testing.T) {
	kinds := make(map[string]map[string]reflect.Type) // types by package and name
	for _, result := range allResults() {
		structsOf(reflect.TypeOf(result), kinds)
	}
	places, seen := 0, make(map[string]int)
	for pkg, named := range kinds {
		dir := "." + strings.TrimPrefix(pkg, reflect.TypeFor[ComplexityResult]().PkgPath())
		found, n := constants(t, dir, named)
		places += n
		for _, at := range found {
			place, member, _ := strings.Cut(at, " ")
			if seen[member]++; seen[member] > fixed[member] {
				t.Errorf("%s: %s is constant, and not measured", place, member)
			}
		}
	}
	if !maps.Equal(seen, fixed) {
		t.Errorf("got %v, want %v", seen, fixed)
	}
	if places < 50 {
		t.Errorf("%d places give a number of a result a value: there are more", places)
	}
}

// TestConstantsAreSeen checks that the check finds each way to write a constant.
func TestConstantsAreSeen(t *testing.T) {
	type planted struct{ A, B, C, D, E, F int }
	found, _ := constants(t, "testdata/constants", map[string]reflect.Type{"planted": reflect.TypeFor[planted]()})
	if len(found) != 6 {
		t.Errorf("6 constants are planted, %d are seen:\n%s", len(found), strings.Join(found, "\n"))
	}
}

// structsOf collects the structs of which a result consists.
func structsOf(t reflect.Type, all map[string]map[string]reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		structsOf(t.Elem(), all)
	case reflect.Struct:
		if all[t.PkgPath()][t.Name()] != nil || !strings.Contains(t.PkgPath(), "/toolkit") || stated[t.Name()] != "" {
			return
		}
		if all[t.PkgPath()] == nil {
			all[t.PkgPath()] = make(map[string]reflect.Type)
		}
		all[t.PkgPath()][t.Name()] = t
		for f := range t.Fields() {
			structsOf(f.Type, all)
		}
	}
}

// constants finds the places where a number in some structs of a package is set to a
// constant other than zero, and counts all places where a number is set.
func constants(t *testing.T, dir string, of map[string]reflect.Type) (found []string, places int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var trees []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		trees = append(trees, tree)
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = config.Check("p", fset, trees, info) // Check fails, because the other packages are missing
	value := func(kind reflect.Type, field reflect.StructField, e ast.Expr) {
		if !field.IsExported() || !isNumber(field.Type) {
			return
		}
		places++
		if v := info.Types[e].Value; v != nil && v.ExactString() != "0" {
			found = append(found, fset.Position(e.Pos()).String()+" "+kind.Name()+"."+field.Name)
		}
	}
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				kind := of[typeName(info.Types[n].Type)]
				if kind == nil {
					break
				}
				for i, e := range n.Elts {
					var field reflect.StructField
					if pair, keyed := e.(*ast.KeyValueExpr); keyed {
						field, _ = kind.FieldByName(types.ExprString(pair.Key))
						e = pair.Value
					} else {
						field = kind.Field(i)
					}
					value(kind, field, e)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					sel, ok := to.(*ast.SelectorExpr)
					if !ok || len(n.Rhs) != len(n.Lhs) || n.Tok != token.ASSIGN || info.Selections[sel] == nil {
						continue
					}
					if kind := of[typeName(info.Selections[sel].Recv())]; kind != nil {
						field, _ := kind.FieldByName(sel.Sel.Name)
						value(kind, field, n.Rhs[i])
					}
				}
			}
			return true
		})
	}
	return found, places
}

// typeName returns the name of a type, or of the type that a pointer points to.
func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

func isNumber(t reflect.Type) bool {
	if t == nil { // the type of a field that does not exist
		return false
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}

// noImports imports no packages: all the structs are of one package.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }
