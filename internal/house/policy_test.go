package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// valuesOf adds the exported fields of the structs of package policies that are reachable
// from a type to all. The keys have the form TYPE.FIELD.
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

// fieldsRead calls read for each selector of a file that is not assigned to.
func fieldsRead(tree *ast.File, read func(*ast.Ident)) {
	written := make(map[ast.Expr]bool)
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				written[to] = true
			}
		case *ast.SelectorExpr:
			if !written[n] {
				read(n.Sel)
			}
		}
		return true
	})
}

// decodes reports whether a file belongs to the decoder or the schema of policies.
func decodes(name string) bool {
	base := filepath.Base(name)
	return filepath.Dir(name) == "policies" && (strings.HasPrefix(base, "parse") || strings.HasPrefix(base, "schema_"))
}

// effective returns a file of package policies without the methods of grants whose reads
// have no effect: those that only compare two grants, and exported ones that no other package
// calls. It also leaves out Policy.Profile, which only describes a profile to people. rooms
// contains the names that other packages use.
func effective(tree *ast.File, rooms map[string]bool) *ast.File {
	only := *tree
	only.Decls = slices.DeleteFunc(slices.Clone(tree.Decls), func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			return false
		}
		of, params := types.ExprString(f.Recv.List[0].Type), f.Type.Params.List
		if of != "Grant" && of != "profileGrant" {
			return of == "*Policy" && f.Name.Name == "Profile"
		}
		compares := len(params) > 0 && types.ExprString(params[0].Type) == of && f.Name.Name != "MayUse"
		return compares || f.Name.IsExported() && !rooms[f.Name.Name]
	})
	return &only
}

// A value of the policy that no code reads is a rule without effect. The decoder and the
// schema do not count. The test compares only names of fields, so it misses a value if
// another struct has a field of the same name.
func TestEveryValueOfThePolicyIsLookedAt(t *testing.T) {
	read := make(map[string]bool)
	for _, name := range sources(t) {
		if !decodes(name) {
			fieldsRead(parsed(t, token.NewFileSet(), filepath.Join(root, name), nil), func(f *ast.Ident) { read[f.Name] = true })
		}
	}
	all := make(map[string]string)
	seen := make(map[reflect.Type]bool)
	valuesOf(reflect.TypeFor[policies.Policy](), all, seen)
	if len(all) < 100 {
		t.Fatalf("got %d values, want all of them", len(all))
	}
	for value, name := range all {
		if !read[name] {
			t.Errorf("policies.%s has no effect: only the decoder reads it; write the code that obeys it", value)
		}
	}
}

// decoded contains the fields that only the decoder reads, each with the reason.
var decoded = map[string]string{
	"Policy.people": "People returns it, which is beside the decoder",
	"asking.most":   "the decoder compares the durations of rules with it",
	"named.node":    "where a name stands that is checked once all are read",
	"rule.node":     "where a name stands that is checked once all are read",
	"tenant.files":  "the decoder makes the layers from them",
}

// A key has no effect if only the decoder and the schema read its field. For a field of a grant,
// reads by Covers do not count, nor do those by an exported method that no other package calls.
// The test knows the type of each field, so a field of the same name in another struct does
// not hide it; but a method counts as called if another package selects its name of any type.
func TestEveryFieldOfThePolicyIsLookedAt(t *testing.T) {
	fset := token.NewFileSet()
	var trees, readers []*ast.File
	rooms := make(map[string]bool)
	for _, name := range sources(t) {
		tree := parsed(t, fset, filepath.Join(root, name), nil)
		if filepath.Dir(name) != "policies" {
			if filepath.Dir(name) != "policies/policytest" {
				fieldsRead(tree, func(f *ast.Ident) { rooms[f.Name] = true })
			}
			continue
		}
		trees = append(trees, tree)
		if !decodes(name) {
			readers = append(readers, tree)
		}
	}
	all, objects := usesIn(fset, trees)
	read := make(map[types.Object]bool)
	for _, tree := range readers {
		fieldsRead(effective(tree, rooms), func(f *ast.Ident) {
			if field, ok := objects[f].(*types.Var); ok {
				read[field.Origin()] = true
			}
		})
	}
	seen := 0
	for _, name := range all.Scope().Names() {
		of, ok := all.Scope().Lookup(name).(*types.TypeName)
		if !ok || decodes("policies/"+filepath.Base(fset.Position(of.Pos()).Filename)) {
			continue
		}
		s, ok := of.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for f := range s.Fields() {
			if f.Exported() || f.Embedded() {
				continue
			}
			seen++
			switch _, alone := decoded[name+"."+f.Name()]; {
			case alone && read[f]:
				t.Errorf("%s.%s has an effect: remove it from decoded", name, f.Name())
			case !alone && !read[f]:
				t.Errorf("%s.%s has no effect: it is read only by the decoder, Covers, or a method that no other package calls; write the code that obeys it", name, f.Name())
			}
		}
	}
	if seen < 100 {
		t.Errorf("got %d fields, want all of them", seen)
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
		fieldsRead(parsed(t, token.NewFileSet(), "x.go", "package x\nfunc x() {\n"+text+"\n}\n"), func(f *ast.Ident) { got[f.Name] = true })
		if got["F"] != want {
			t.Errorf("%s: got %v, want %v", text, got["F"], want)
		}
	}
}
