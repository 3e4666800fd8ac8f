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
	"belljar.dev/policies"
)

// A policy knows the tools of this server only: it suggests one of their names for a
// misspelt name, its conditions know the arguments of each tool, and lint knows what a call
// can have for rules to look at. Package policies cannot import the tools, so this test
// generates its table of them.
func TestPoliciesKnowTheTools(t *testing.T) {
	var b strings.Builder
	b.WriteString("// Code generated from the tools by go test ./mcp/tools -run TestPoliciesKnowTheTools -update; DO NOT EDIT.\n\n" +
		"package policies\n\nimport \"belljar.dev/policies/cond\"\n\n" +
		"// toolTable is this server's tools by name. All that this package knows of tools\n// follows from it.\n" +
		"var toolTable = []tool{\n")
	server, session, gate := denying(t)
	of := toolkitTools(t)
	for _, info := range server.Tools() {
		all := parts(t, server, session, gate, info)
		// An analysis is a tool of the toolkit that has a path. The programs that it starts in
		// its box are judged as commands.
		if slices.Contains(of, info.Name) && slices.Equal(all, []string{"aPath"}) {
			all = []string{"aCommand", "aPath"}
		}
		kinds := "nil"
		if len(all) > 0 {
			kinds = "[]string{" + strings.Join(all, ", ") + "}"
		}
		fmt.Fprintf(&b, "{%q, %s, []argument{\n", info.Name, kinds)
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

// parts returns the constants of package policies for the kinds of parts that rules find in
// the facts of a tool's calls. The calls have each text argument in turn, once a path and once a
// URL. Acts of a browser are left out.
func parts(t *testing.T, server *mcp.Server, session *mcp.Session, gate *witness, info mcp.ToolInfo) []string {
	t.Helper()
	var schema inputSchema
	if err := json.Unmarshal(info.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	gate.facts = nil
	for _, place := range append(schema.texts(info.Name), "") {
		for _, canary := range canaries {
			args, err := json.Marshal(schema.with(info.Name, place, canary))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.Call(t.Context(), session, info.Name, args); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(gate.facts) == 0 && info.Name != policies.ActTool {
		t.Errorf("%s: no call came to the gate", info.Name)
	}
	found := make(map[string]bool)
	for _, f := range gate.facts {
		for kind, has := range map[string]bool{
			"aCommand": f.Command != "", "aPath": len(f.Paths) > 0, "aURL": len(f.URLs) > 0, "aHost": len(f.URLs)+len(f.Hosts) > 0,
		} {
			if has {
				found[kind] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
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
