package search

import (
	"net/http"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// TestPathsAreNotTold checks that records contain no paths: some engines take the query in
// the path.
func TestPathsAreNotTold(t *testing.T) {
	p, err := policies.Parse("p.yaml", []byte(`
version: 1
defaults: {profile: s}
profiles: {s: {net: {mode: proxy, allow: [engine.example]}}}
rules: [{id: all, match: {tool: "*"}, decision: allow}]
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []egress.Record
	open := egressDoor(&Config{Record: func(tenant string, r egress.Record) {
		if tenant != "me" {
			t.Errorf("told of %q", tenant)
		}
		got = append(got, r)
	}})
	door, err := open(p.Decide(policies.Facts{Tenant: "me", Tool: "WebSearch"}).Grant)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://other.example/the/query?q=query", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := door.Client().Do(req); err == nil {
		resp.Body.Close()
		t.Error("a host that is not allowed was reached")
	}
	if len(got) != 1 || got[0].Path != "" || got[0].Host.String() != "other.example" || got[0].Allowed {
		t.Errorf("got %+v", got)
	}
}
