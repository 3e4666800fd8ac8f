package policies

import (
	"slices"
	"testing"

	"belljar.dev/policies/shell"
)

// A variable that lint warns about also has an effect on a call, unless it only says where
// data goes.
func TestRiskyVariablesAreKnown(t *testing.T) {
	data := []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSH_AUTH_SOCK"}
	for _, name := range riskyEnv {
		known := shell.EffectOf(name, shell.Word{Text: "/workspace/x"}) != shell.NoEffect
		if known == slices.Contains(data, name) {
			t.Errorf("%s: shell.EffectOf knows it: %v", name, known)
		}
	}
}

// Lint knows the tools. The test does not compare the kinds of parts with the Facts of a tool.
func TestLintKnowsThePartsOfEachTool(t *testing.T) {
	for _, name := range KnownTools() {
		if _, known := toolParts(name); !known && name != ActTool {
			t.Errorf("toolParts in lint_dead.go lacks %s: add the kinds of parts that its Facts name, or none if they name none", name)
		}
	}
}
