package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreign contains the directories whose code reads definitions of other people's servers.
var foreign = []string{"mcp/", "internal/gateway/"}

// ownPatterns contains the files of these directories that compile a pattern which is not a
// constant, each with the origin of the pattern.
var ownPatterns = map[string]string{
	"mcp/upstream/pin/phrases.go": "the phrases of the scan, which the package contains",
	"mcp/tools/read.go":           "the argument filter of a client's call, which Go's package matches in linear time",
}

// ownSchemas contains the files that may import a validator of schemas, which they use for
// belljar's own tools.
var ownSchemas = map[string]bool{"mcp/tool.go": true, "mcp/listed.go": true}

// foreignMatchers returns the places where a file compiles a pattern that is not a constant
// in it, and the places where it imports a validator of schemas.
func foreignMatchers(t *testing.T, file string, text any) (patterns, schemas []string) {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range tree.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(path, "jsonschema") {
			schemas = append(schemas, files.Position(i.Pos()).String()+": "+path)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := f.X.(*ast.Ident); !ok || of.Name != "regexp" || !strings.Contains(f.Sel.Name, "Compile") && !strings.HasPrefix(f.Sel.Name, "Match") {
			return true
		}
		if !constant(call.Args[0]) {
			patterns = append(patterns, files.Position(call.Pos()).String()+": regexp."+f.Sel.Name)
		}
		return true
	})
	return patterns, schemas
}

// constant reports whether an expression is a constant text of the file.
func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return constant(e.X) && constant(e.Y)
	case *ast.Ident:
		return e.Obj != nil && e.Obj.Kind == ast.Con
	}
	return false
}

// GW-A11: a schema of another person's server can have a pattern that takes exponential
// time, or that Go's package regexp cannot compile. No code that reads such a schema
// compiles a pattern from it or checks arguments against it, and go.mod has no backtracking
// engine.
func TestNoPatternOfAServerIsCompiled(t *testing.T) {
	seen := 0
	for _, name := range sources(t) {
		if !slices.ContainsFunc(foreign, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		patterns, schemas := foreignMatchers(t, filepath.Join(root, name), nil)
		if ownPatterns[name] != "" && len(patterns) > 0 || ownSchemas[name] && len(schemas) > 0 {
			seen++
		}
		if ownPatterns[name] == "" {
			for _, at := range patterns {
				t.Errorf("%s compiles a pattern that is not a constant: if a server can write it, a call can last for ever or be refused", at)
			}
		}
		if !ownSchemas[name] {
			for _, at := range schemas {
				t.Errorf("%s is for the schemas of belljar's own tools: a schema of a server is never resolved", at)
			}
		}
	}
	if want := len(ownPatterns) + len(ownSchemas); seen != want {
		t.Errorf("%d of the %d files that the lists name have what they are listed for", seen, want)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"regexp2", "pcre", "oniguruma", "goja"} {
		if strings.Contains(string(mod), engine) {
			t.Errorf("go.mod has %s, whose patterns can take exponential time", engine)
		}
	}
	for _, validator := range []string{"gojsonschema", "santhosh-tekuri/jsonschema"} {
		if strings.Contains(string(mod), validator) {
			t.Errorf("go.mod has %s, which would check arguments against a server's schema", validator)
		}
	}
}

func TestForeignMatchersAreFound(t *testing.T) {
	for text, want := range map[string][2]int{
		"import \"regexp\"\nvar x = regexp.MustCompile(`a`)":                              {0, 0},
		"import \"regexp\"\nconst p = `a`\nvar x = regexp.MustCompile(`^` + p)":           {0, 0},
		"import \"regexp\"\nfunc f(p string) { _, _ = regexp.Compile(p) }":                {1, 0},
		"import \"regexp\"\nfunc f(p string) { _, _ = regexp.CompilePOSIX(`^` + p) }":     {1, 0},
		"import \"regexp\"\nfunc f(p string) { _, _ = regexp.MatchString(p, `a`) }":       {1, 0},
		"import \"regexp\"\nfunc f(s string) { _, _ = regexp.MatchString(`a`, s) }":       {0, 0},
		"import \"regexp\"\nvar p = `a`\nvar x = regexp.MustCompile(p)":                   {1, 0},
		"import _ \"github.com/google/jsonschema-go/jsonschema\"":                         {0, 1},
		"import v \"example.com/jsonschema/v6\"\nfunc f(s string) { v.MustCompile(s) }":   {0, 1},
		"func f(s interface{ MustCompile(string) }, text string) { s.MustCompile(text) }": {0, 0},
	} {
		patterns, schemas := foreignMatchers(t, "x.go", "package x\n"+text+"\n")
		if got := [2]int{len(patterns), len(schemas)}; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
