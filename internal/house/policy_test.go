package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// valuesOf are the exported fields of the structs of package policies that a type leads to, each as
// TYPE.FIELD.
func valuesOf(of reflect.Type, all map[string]string, seen map[reflect.Type]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if seen[of] || of.PkgPath() != "belljar.dev/policies" {
		return
	}
	seen[of] = true
	for m := range of.Methods() {
		for out := range m.Type.Outs() {
			valuesOf(out, all, seen)
		}
	}
	for m := range reflect.PointerTo(of).Methods() {
		for out := range m.Type.Outs() {
			valuesOf(out, all, seen)
		}
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for f := range of.Fields() {
		if f.IsExported() && !f.Anonymous && f.Tag.Get("json") == "" { // structs with json tags are encoded whole
			all[of.Name()+"."+f.Name] = f.Name
		}
		valuesOf(f.Type, all, seen)
	}
}

// fieldsRead are the names of fields that a file reads: selectors to which nothing is assigned.
func fieldsRead(t *testing.T, file string, text any, into map[string]bool) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[ast.Expr]bool)
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				written[to] = true
			}
		case *ast.SelectorExpr:
			if !written[n] {
				into[n.Sel.Name] = true
			}
		}
		return true
	})
}

// A value that a policy gives and nobody looks at is a rule that does not hold. What the decoder and
// the schema do with it does not count. The test goes by names of fields, so it does not see a value
// whose name another struct has too: that a decision differs by a key is for a test of its own.
func TestEveryValueOfThePolicyIsLookedAt(t *testing.T) {
	read := make(map[string]bool)
	for _, name := range sources(t) {
		if base := filepath.Base(name); filepath.Dir(name) == "policies" && (strings.HasPrefix(base, "parse_") || strings.HasPrefix(base, "schema_")) {
			continue
		}
		fieldsRead(t, filepath.Join(root, name), nil, read)
	}
	all := make(map[string]string)
	seen := make(map[reflect.Type]bool)
	valuesOf(reflect.TypeFor[policies.Policy](), all, seen)
	if len(all) < 100 {
		t.Fatalf("got %d values, want all of them", len(all))
	}
	for value, name := range all {
		if !read[name] {
			t.Errorf("policies.%s: nothing reads it but what decodes it", value)
		}
	}
}

func TestFieldsReadAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"a.F = 1":           false,
		"a.F, b = 1, 2":     false,
		"b = a.F":           true,
		"a.F.G = 1":         true,
		"a.F[0] = 1":        true,
		"f(a.F)":            true,
		"a.F = g(a.F)":      true,
		"b = T{F: 1}":       false,
		"if a.F { return }": true,
	} {
		got := make(map[string]bool)
		fieldsRead(t, "x.go", "package x\nfunc x() {\n"+text+"\n}\n", got)
		if got["F"] != want {
			t.Errorf("%s: got %v, want %v", text, got["F"], want)
		}
	}
}
