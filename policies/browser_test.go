package policies_test

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

const browserPolicy = `version: 1
defaults: {decision: allow, profile: sandboxed}
profiles:
  none: {fs: {system: true}}
  sandboxed:
    browser: sandboxed
    fs: {system: true, workspace: rw, read: [/opt]}
    net: {mode: proxy, allow: [a.example]}
    env: {A: b}
    publish: [3000]
  degraded: {browser: degraded, net: {mode: proxy, allow: [a.example]}}
`

func browserGrant(t *testing.T, profile string) policies.Grant {
	t.Helper()
	return policytest.GrantFor(t, browserPolicy, policies.Facts{Tenant: "t", Tool: "ReadDocs", Profile: profile})
}

func TestForBrowser(t *testing.T) {
	g := browserGrant(t, "sandboxed")
	b, err := g.ForBrowser(policies.BrowserBox{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	if b.Workspace() != policies.AccessNone || len(b.Mounts()) > 0 || len(b.Env()) > 0 || len(b.Publish()) > 0 || b.Exec() != policies.ExecOff {
		t.Errorf("the box of a browser has more than a browser needs: %+v", b)
	}
	if !b.System() || !b.NestsNamespaces() || b.Network() != policies.NetworkDoor || b.Tenant() != "t" || b.Limits() != g.Limits() {
		t.Errorf("the box of a browser lacks what it needs: %+v", b)
	}
	if g.NestsNamespaces() || g.Covers(b) || b.Covers(g) {
		t.Error("a command can run in the box of a browser, or the other way round")
	}
	files, err := g.ForBrowser(policies.BrowserBox{Nested: true, Downloads: 5})
	if err != nil || files.Downloads() != 5 || b.Downloads() != 0 || b.Covers(files) || files.Covers(b) {
		t.Errorf("downloads: %+v, %v", files, err)
	}
	off, err := g.ForBrowser(policies.BrowserBox{Nested: true, Offline: true})
	if err != nil || off.Network() != policies.NetworkNone || len(off.Egress().Allow) > 0 || b.Covers(off) || off.Covers(b) {
		t.Errorf("offline: %+v, %v", off, err)
	}
	if _, err := browserGrant(t, "degraded").ForBrowser(policies.BrowserBox{}); err != nil {
		t.Errorf("degraded: %v", err)
	}
}

func TestForBrowserRefuses(t *testing.T) {
	var out []string
	for _, tt := range []struct {
		profile string
		box     policies.BrowserBox
	}{{"", policies.BrowserBox{Nested: true}}, {"none", policies.BrowserBox{Nested: true}}, {"none", policies.BrowserBox{}}, {"sandboxed", policies.BrowserBox{}}} {
		g := policies.Grant{}
		if tt.profile != "" {
			g = browserGrant(t, tt.profile)
		}
		b, err := g.ForBrowser(tt.box)
		if err == nil || !b.IsZero() {
			t.Errorf("%+v: got %+v", tt, b)
			continue
		}
		out = append(out, err.Error())
	}
	golden.Equal(t, "browser.golden", strings.Join(slices.Compact(out), "\n")+"\n")
}

// Under a policy that is read later, the box of a browser keeps its walls. If that policy
// has no browser for it, Regrant fails.
func TestRegrantBrowser(t *testing.T) {
	parse := func(text string) *policies.Policy {
		p, err := policies.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	b, err := browserGrant(t, "sandboxed").ForBrowser(policies.BrowserBox{Nested: true, Downloads: 5})
	if err != nil {
		t.Fatal(err)
	}
	offline, err := browserGrant(t, "sandboxed").ForBrowser(policies.BrowserBox{Nested: true, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	wider := parse(strings.ReplaceAll(browserPolicy, "a.example", "b.example"))
	if got, ok := wider.Regrant(b); !ok || !b.Covers(got) || got.Egress().Allow[0].Host != "b.example" || len(got.Publish()) > 0 {
		t.Errorf("got %+v, %v", got, ok)
	}
	if got, ok := wider.Regrant(offline); !ok || got.Network() != policies.NetworkNone {
		t.Errorf("offline: got %+v, %v", got, ok)
	}
	if got, ok := parse(strings.ReplaceAll(browserPolicy, "browser: sandboxed", "browser: off")).Regrant(b); ok {
		t.Errorf("without a browser: got %+v", got)
	}
}
