package house

import (
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies/policytest"
)

// A limit that a policy can set and no room reads would have no effect.
func TestEveryLimitIsLookedAt(t *testing.T) {
	var rooms strings.Builder
	for _, name := range sources(t) {
		if strings.HasPrefix(name, "sandbox/") || strings.HasPrefix(name, "mcp/tools/") {
			rooms.WriteString(read(t, name))
		}
	}
	for _, limit := range policytest.LimitNames() {
		// a use of the limit after Limits(), or after a variable for the limits or the
		// bounds of the sandbox
		if !regexp.MustCompile(`\b(Limits\(\)|[lb]|limits)\.` + limit + `\b`).MatchString(rooms.String()) {
			t.Errorf("limit %s has no effect: write the code in sandbox or mcp/tools that enforces it, which reads it as l.%[1]s, b.%[1]s, limits.%[1]s or Limits().%[1]s", limit)
		}
	}
}
