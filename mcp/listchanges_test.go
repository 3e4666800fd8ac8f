package mcp_test

import (
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// A change of the tools of one tenant is announced only to the clients of this tenant, in
// sessions and in subscriptions.
func TestListChangesOfTenants(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	s := newSite(t, with)
	streams := make(map[string][]*openStream)
	for _, tenant := range []string{"a", "b"} {
		auth := []string{"Authorization", "Bearer token-" + tenant}
		for range 2 {
			l := s.stream("POST", strings.NewReader(modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`)), append(modernHeaders("subscriptions/listen", ""), auth...)...)
			t.Cleanup(l.close)
			l.has("notifications/subscriptions/acknowledged")
			streams[tenant] = append(streams[tenant], l)
		}
	}
	const changed = "notifications/tools/list_changed"
	for i, of := range []string{"a", "b", "a"} {
		note := strings.Repeat("changed ", i+1)
		s.set(t, "far", mcp.Remotes{Tenant: of, Note: note})
		for _, l := range streams[of] {
			if want := 1 + i/2; !testenv.Until(20*time.Second, func() bool { return strings.Count(l.text(), changed) == want }) {
				t.Fatalf("change %d is of %s, and its client got %q", i, of, l.text())
			}
		}
	}
	for tenant, want := range map[string]int{"a": 2, "b": 1} {
		for _, l := range streams[tenant] {
			if n := strings.Count(l.text(), changed); n != want {
				t.Errorf("a client of %s got %d notifications for %d changes", tenant, n, want)
			}
		}
	}
	// A change for all tenants is announced to all clients.
	s.Describe("echo", "Another description.")
	for tenant, want := range map[string]int{"a": 3, "b": 2} {
		for _, l := range streams[tenant] {
			if !testenv.Until(20*time.Second, func() bool { return strings.Count(l.text(), changed) == want }) {
				t.Errorf("after a change for all, a client of %s got %q", tenant, l.text())
			}
		}
	}
}
