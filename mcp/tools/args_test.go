package tools

import (
	"encoding/json"
	"slices"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/cond"
)

// A policy knows the tools of this server, and no others: of their names it offers
// one for a name that is misspelt.
//
// Its conditions know the arguments that the tools take: an argument
// that is missing there cannot be spoken about, and one too many never comes.
func TestConditionsKnowArguments(t *testing.T) {
	s, err := mcp.New(mcp.Config{Gate: policies.Default()})
	if err != nil {
		t.Fatal(err)
	}
	Add(s, Backends{})
	var names []string
	for _, info := range s.Tools() {
		names = append(names, info.Name)
	}
	known := policies.KnownTools()
	slices.Sort(known)
	slices.Sort(names)
	if !slices.Equal(names, known) {
		t.Errorf("toolTable of policies/args.go has the tools %q, and the server %q", known, names)
	}
	for _, info := range s.Tools() {
		var schema struct {
			Properties map[string]struct {
				Type  string
				Items struct{ Type string }
			}
		}
		if err := json.Unmarshal(info.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		known, ok := policies.ToolArgs(info.Name)
		if !ok {
			t.Errorf("%s: its arguments do not stand in toolTable of policies/args.go", info.Name)
			continue
		}
		types := map[string]cond.Type{"string": cond.Text, "integer": cond.Int, "boolean": cond.Bool, "array": cond.Texts}
		for name, p := range schema.Properties {
			want := types[p.Type]
			if p.Items.Type == "object" {
				want = cond.Named // names and values, which conditions see as a map
			}
			if got, ok := known[name]; !ok || got != want {
				t.Errorf("%s: argument %s, of type %q, does not stand in toolTable of policies/args.go or has another type there", info.Name, name, p.Type)
			}
		}
		for name := range known {
			if _, ok := schema.Properties[name]; !ok {
				t.Errorf("%s: toolTable of policies/args.go has %s, which the tool does not take", info.Name, name)
			}
		}
	}
}
