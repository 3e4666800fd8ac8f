package tools

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

var _ = addCase("toolkit", toolCase{
	hints: "ReadOnly Idempotent",
	unseen: reasons{
		fewWords:     {"cache_strategy", "category", "dag_type", "detection_type", "exclude_analyses[]", "format", "include_analyses[]", "metrics[]", "scope", "toolchain"},
		choosesShown: {"pagerank_seeds[]", "query", "snippet"},
		"each file that it chooses is judged before it is read":                                               {"include_patterns[]", "exclude_patterns[]"},
		"a revision of the project's own repository, and nothing that git could take for a path or an option": {"base"},
		"templates are part of the program, and no file is written":                                           {"parameters", "resource_uri", "templates[]"},
	},
})

// toolkitTools returns the names of the tools that a server has only if the toolkit is on.
func toolkitTools(t testing.TB) []string {
	t.Helper()
	names := func(b Backends) (all []string) {
		s, err := mcp.New(mcp.Config{Gate: allowAll{}})
		if err != nil {
			t.Fatal(err)
		}
		Add(s, b)
		for _, tool := range s.Tools() {
			all = append(all, tool.Name)
		}
		return all
	}
	without := names(Backends{})
	return slices.DeleteFunc(names(Backends{Toolkit: true}), func(name string) bool { return slices.Contains(without, name) })
}

// docs/results.md explains each member of each analysis, from the tag jsonschema of the
// member's field.
func TestEachMemberOfAnAnalysisIsExplained(t *testing.T) {
	s, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(s, Backends{Toolkit: true})
	seen := 0
	for _, tool := range s.Tools() {
		if !strings.HasPrefix(tool.Name, "analyze_") && tool.Name != qualityGate {
			continue
		}
		seen++
		var schema resultSchema
		if err := json.Unmarshal(tool.ResultSchema, &schema); err != nil {
			t.Fatal(err)
		}
		for _, member := range schema.unexplained("") {
			t.Errorf("%s: the member %s has no description", tool.Name, member)
		}
	}
	if seen != 9 {
		t.Errorf("got %d analyses, want 9", seen)
	}
}

// unexplained returns the members without a description, including nested members.
func (s resultSchema) unexplained(below string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Description == "" {
			all = append(all, below+name)
		}
		all = append(all, p.unexplained(below+name+".")...)
		if p.Items != nil {
			all = append(all, p.Items.unexplained(below+name+"[].")...)
		}
	}
	return all
}
