package house

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// compiled returns the package variables of a file whose patterns are compiled before main
// begins.
func compiled(t *testing.T, file string, text any) []string {
	t.Helper()
	tree := parsed(t, token.NewFileSet(), file, text)
	var found []string
	for _, decl := range tree.Decls {
		vars, ok := decl.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			variable, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			ast.Inspect(variable, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit: // runs only when it is called; a literal that is called at once is too rare to handle
					return false
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && (of.Name == "regexp" || of.Name == "cascadia") && strings.HasPrefix(n.Sel.Name, "MustCompile") {
						found = append(found, variable.Names[0].Name)
					}
				}
				return true
			})
		}
	}
	return found
}

// A pattern in a package variable is compiled at every start of the program: 40 of them
// took a tenth of the time until main, and half of the memory.
func TestNoPatternIsCompiledBeforeItIsUsed(t *testing.T) {
	for _, name := range sources(t) {
		if strings.HasPrefix(name, "internal/testenv/") {
			continue
		}
		for _, variable := range compiled(t, filepath.Join(root, name), nil) {
			t.Errorf("%s: %s: a pattern is compiled whenever the program starts; use sync.OnceValue", name, variable)
		}
	}
}

func TestCompiledPatternsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"var x = regexp.MustCompile(`a`)":                                                  true,
		"var x, y = 1, regexp.MustCompile(`a`)":                                            true,
		"var (\n\tx = []*regexp.Regexp{regexp.MustCompile(`a`)}\n)":                        true,
		"var x = cascadia.MustCompile(`a`)":                                                true,
		"var x = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`a`) })": false,
		"func f() { var x = regexp.MustCompile(`a`); _ = x }":                              false,
	} {
		if got := len(compiled(t, "x.go", "package x\n"+text+"\n")) > 0; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
