package house

import (
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies/policytest"
)

// A limit that a policy can set and no room looks at would be a promise that
// nobody keeps.
func TestEveryLimitIsLookedAt(t *testing.T) {
	var rooms strings.Builder
	for _, name := range sources(t) {
		if strings.HasPrefix(name, "sandbox/") || strings.HasPrefix(name, "mcp/tools/") {
			rooms.WriteString(read(t, name))
		}
	}
	for _, limit := range policytest.LimitNames() {
		// Limits() of a grant, or a copy in a variable or in the sandbox's bounds.
		if !regexp.MustCompile(`\b(Limits\(\)|[lb]|limits)\.` + limit + `\b`).MatchString(rooms.String()) {
			t.Errorf("limit %s: neither sandbox nor mcp/tools looks at it", limit)
		}
	}
}
