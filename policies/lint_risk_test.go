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
