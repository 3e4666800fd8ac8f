package tools

import (
	"encoding/json"
	"fmt"
	"go/format"
	"maps"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp"
)

// A policy knows the tools of this server only: it suggests one of their names for a
// misspelt name, and its conditions know the arguments of each tool. Package policies
// cannot import the tools, so this test generates its table of them.
func TestPoliciesKnowTheTools(t *testing.T) {
	var b strings.Builder
	b.WriteString("// Code generated from the tools by go test ./mcp/tools -run TestPoliciesKnowTheTools -update; DO NOT EDIT.\n\n" +
		"package policies\n\nimport \"belljar.dev/policies/cond\"\n\n" +
		"// toolTable is this server's tools by name, with their arguments for\n// conditions. All that this package knows of tools follows from it.\n" +
		"var toolTable = []tool{\n")
	for _, info := range allTools(t).Tools() {
		fmt.Fprintf(&b, "{%q, []argument{\n", info.Name)
		for _, a := range arguments(t, info) {
			fmt.Fprintf(&b, "{%q, cond.%s},\n", a[0], a[1])
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	code, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "../../policies/args_tools.go", string(code))
}

// arguments returns the arguments of a tool in the order of their names, each with the
// constant of package cond for its type.
func arguments(t *testing.T, info mcp.ToolInfo) (all [][2]string) {
	t.Helper()
	var schema struct {
		Properties map[string]struct {
			Type  string
			Items struct{ Type string }
		}
	}
	if err := json.Unmarshal(info.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	types := map[string]string{"string": "Text", "integer": "Int", "boolean": "Bool", "array": "Texts", "number": "Any", "object": "Any"}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		kind, ok := types[p.Type]
		if p.Items.Type == "object" {
			kind = "Named" // names and values, which are a map in conditions
		}
		if !ok {
			t.Errorf("%s: conditions know no type for the argument %s, which is %q", info.Name, name, p.Type)
		}
		all = append(all, [2]string{name, kind})
	}
	return all
}
