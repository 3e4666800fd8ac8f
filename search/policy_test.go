package search

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
	"belljar.dev/search/engine"
)

// unlisted are hosts of engines that no bundled policy allows: Bing redirects clients in
// China to this host, and an operator there can add it.
var unlisted = []string{"cn.bing.com"}

// TestBundledPoliciesKnowTheEngines checks that the bundled policies that allow WebSearch
// allow all default and reserve engines, and no other hosts. Each policy lists the hosts in
// the order of the engines, so that a reader of the policy sees what it allows; -update
// writes the lists from the engines.
func TestBundledPoliciesKnowTheEngines(t *testing.T) {
	engines, err := engine.Load("")
	if err != nil {
		t.Fatal(err)
	}
	var asked []*engine.Engine
	var hosts []string
	for _, e := range engines.All() {
		if e.Use != engine.UseDefault && e.Use != engine.UseReserve {
			continue
		}
		asked = append(asked, e)
		for _, h := range e.Hosts {
			if !slices.Contains(hosts, h) && !slices.Contains(unlisted, h) {
				hosts = append(hosts, h)
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
		file := filepath.Join("..", "policies", name+".yaml")
		golden.File(t, file, withHosts(t, file, d.Grant.Profile(), hosts))
		if golden.Update() {
			continue // the binary still contains the policy from before the update
		}
		for _, e := range asked {
			if !lets(d.Grant, e, nil) {
				t.Errorf("%s lets %s not be asked", name, e.Name)
			}
		}
		for _, r := range d.Grant.Egress().Allow {
			if !slices.Contains(hosts, r.Host) {
				t.Errorf("%s allows %s, which is no engine's", name, r.Host)
			}
		}
	}
}

// withHosts returns the text of a policy with these hosts in the list of one of its profiles.
func withHosts(t *testing.T, file, profile string, hosts []string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), "\n  "+profile+":\n")
	before, rest, listed := strings.Cut(rest, "\n      allow:\n")
	for strings.HasPrefix(rest, "        - ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	if !found || !listed || strings.Contains(before, "\n\n") {
		t.Fatalf("%s has no list of hosts in the profile %s", file, profile)
	}
	var list strings.Builder
	for _, h := range hosts {
		if strings.HasPrefix(h, "*") { // a star at the beginning would be an alias in YAML
			h = `"` + h + `"`
		}
		list.WriteString("        - " + h + "\n")
	}
	return head + "\n  " + profile + ":\n" + before + "\n      allow:\n" + list.String() + rest
}
