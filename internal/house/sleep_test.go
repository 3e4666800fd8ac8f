package house

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayWait contains the functions that may only let time pass, each with the reason: nothing
// announces the event that they wait for. The linter forbids time.Sleep. A receive from
// time.After outside a select has the same effect.
var mayWait = map[string]string{
	"policies/audit/file.go lockFile":         "another process lets go of a lock, which has a deadline here and none in flock(2)",
	"sandbox/boxinit/keeper.go RemoveCgroups": "the kernel lets go of a cgroup whose processes have ended",
	"sandbox/cgroup/leaf.go Kill":             "a process that is being moved into the cgroup may miss a kill",
	"sandbox/entrance.go settle":              "the kernel has a connection in its queue that nobody has accepted",
	"sandbox/escape/kernel.go pause":          "an attack waits for what the kernel does",
	"sandbox/workspace/set.go quiet":          "another process holds a lock for a moment",
	"sandbox/workspace/set.go settle":         "the kernel's coarse clock ticks",
}

// sleeps returns the functions of a file with a statement that only lets time pass:
// time.Sleep, or a receive from time.After that is not a case of a select. In a bubble of
// testing/synctest time.Sleep takes no real time, so a file that imports this package may
// use it.
func sleeps(t *testing.T, file string, text any) []string {
	t.Helper()
	tree := parsed(t, token.NewFileSet(), file, text)
	bubble := slices.ContainsFunc(tree.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	calls := func(e ast.Expr, name string) bool {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != name {
			return false
		}
		of, ok := f.X.(*ast.Ident)
		return ok && of.Name == "time"
	}
	var found []string
	for _, decl := range tree.Decls {
		name := "a variable"
		if f, ok := decl.(*ast.FuncDecl); ok {
			name = f.Name.Name
		}
		inSelect := make(map[ast.Node]bool)
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectStmt:
				// A select with a second case can end the wait early; a select with one
				// case cannot.
				for _, c := range n.Body.List {
					clause, ok := c.(*ast.CommClause)
					if !ok || clause.Comm == nil { // the default case
						continue
					}
					ast.Inspect(clause.Comm, func(below ast.Node) bool {
						inSelect[below] = len(n.Body.List) > 1
						return below != nil
					})
				}
			case *ast.UnaryExpr:
				if n.Op == token.ARROW && calls(n.X, "After") && !inSelect[n] {
					found = append(found, name)
				}
			case *ast.CallExpr:
				if calls(n, "Sleep") && !bubble {
					found = append(found, name)
				}
			}
			return true
		})
	}
	return found
}

func TestNobodySleeps(t *testing.T) {
	unused := maps.Clone(mayWait)
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
			continue
		}
		for _, in := range sleeps(t, filepath.Join(root, name), nil) {
			place := name + " " + in
			if mayWait[place] == "" {
				t.Errorf("%s: sleeps; wait for an event, with testenv.Until where a test's event announces itself nowhere", place)
			}
			delete(unused, place)
		}
	}
	for place := range unused {
		t.Errorf("%s may sleep and does not; remove it from the list", place)
	}
}

func TestSleepsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"<-time.After(d)":                                true,
		"_ = <-time.After(d)":                            true,
		"<-(time.After(d))":                              true,
		"for ; ; <-time.After(d) {}":                     true,
		"select { case <-time.After(d): }":               true,
		"select { case <-c: <-time.After(d) }":           true,
		"func() { <-time.After(d) }()":                   true,
		"time.Sleep(d)":                                  true,
		"select { case <-c: case <-time.After(d): }":     false,
		"select { case <-time.After(d): default: }":      false,
		"late := time.After(d); select { case <-late: }": false,
	} {
		if got := len(sleeps(t, "x.go", "package x\nfunc f() { "+text+" }\n")) > 0; got != want {
			t.Errorf("%s: a sleep: got %v, want %v", text, got, want)
		}
	}
}
