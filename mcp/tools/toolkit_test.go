package tools

import (
	"slices"
	"testing"

	"belljar.dev/mcp"
)

// toolkitTools returns the names of the tools that a server has with the toolkit only.
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
