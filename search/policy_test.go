package search

import (
	"testing"

	"belljar.dev/policies"
	"belljar.dev/search/engine"
)

// The policies that come with belljar and let WebSearch through let all engines
// be asked that need no key, and no host besides.
func TestBundledPoliciesKnowTheEngines(t *testing.T) {
	engines, err := engine.Load("")
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(map[string]bool)
	for _, e := range engines.All() {
		if e.Use == engine.UseDefault || e.Use == engine.UseReserve {
			for _, h := range e.Hosts {
				hosts[h] = true
			}
		}
	}
	for _, name := range []string{"default", "research", "workstation"} {
		p, err := policies.OpenBundled(name)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Decide(policies.Facts{Tenant: "local", Tool: "WebSearch"})
		if d.Verdict != policies.Allow || d.Grant.Network() != policies.NetworkDoor {
			t.Errorf("%s: got %v with the profile %q", name, d.Verdict, d.Grant.Profile())
			continue
		}
		for _, e := range engines.All() {
			if (e.Use == engine.UseDefault || e.Use == engine.UseReserve) && !lets(d.Grant, e, nil) {
				t.Errorf("%s lets %s not be asked", name, e.Name)
			}
		}
		for _, r := range d.Grant.Egress().Allow {
			if !hosts[r.Host] {
				t.Errorf("%s allows %s, which is no engine's", name, r.Host)
			}
		}
	}
}
