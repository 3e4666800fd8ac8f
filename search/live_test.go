package search_test

import (
	"testing"

	"belljar.dev/policies"
	"belljar.dev/search"
	"belljar.dev/search/engine"
)

// The doctor may reach an engine of the operator at the port of its URL, and the hosts of other
// engines by HTTPS.
func TestDoctorEgress(t *testing.T) {
	engines := []*engine.Engine{{Name: "own", NeedsURL: "url"}, {Name: "public", Hosts: []string{"a.example"}}}
	for url, want := range map[string]uint16{"http://own.example:8888": 8888, "http://own.example": 80, "https://own.example/search": 443} {
		got := make(map[string]policies.EgressRule)
		for _, r := range search.DoctorEgress(engines, engine.Keys{"url": url}).Allow {
			got[r.Host] = r
		}
		for host, port := range map[string]uint16{"own.example": want, "a.example": 443} {
			if p := got[host].Ports; len(p) != 1 || p[0] != port {
				t.Errorf("with the engine at %s, the doctor may reach %s at the ports %d, want %d", url, host, p, port)
			}
		}
	}
}
