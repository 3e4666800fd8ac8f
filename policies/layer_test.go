package policies_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

// system is a policy that names layers.
const system = `version: 1
defaults: {decision: ask, profile: offline}
profiles:
  offline: {fs: {system: true, workspace: rw, write: ["/srv/cache:/cache"]}}
  readonly: {fs: {system: true, workspace: ro}}
  dev:
    fs: {system: true, workspace: overlay}
    net: {mode: proxy, allow: [registry.example]}
    publish: [3000]
    limits: {memory: 1GiB}
tenants:
  ci: {token: "${env:TOKEN_CI_SHA256}", may_request: [readonly], approvers: []}
  team-a:
    token: "${file:/etc/belljar/team-a}"
    profile: readonly
    may_request: [dev, offline]
    rules: [./team-a.yaml, /etc/belljar/shared.yaml]
    approvers: ["oidc:group:leads"]
    limit: {calls: 30/min, burst: 5, in_flight: 2}
projects:
  /srv/app: [./app.yaml]
  /srv/other: [./other.yaml]
rules:
  - {id: shell, match: {tool: Bash, command: ["git **", "make **"]}, decision: allow}
  - {id: no-force, match: {tool: Bash, command: "git push **", any_flag: [-f]}, decision: deny, reason: It rewrites history.}
  - {id: to-dev, match: {tool: Bash, command: "npm **"}, decision: allow, profile: dev}
tests:
  - {bash: "git push", want: allow}
  - {bash: "git push", as: team-a, want: deny, rule: no-push}
  - {bash: "make", as: team-a, want: ask, rule: default}
`

// below contains the files that system names.
var below = map[string]string{
	"etc/team-a.yaml": `version: 1
rules:
  - {id: no-push, match: {tool: Bash, command: "git push **"}, decision: deny, reason: Team A sends patches., instead: git format-patch}
  - {id: free, match: {tool: "*"}, decision: allow}
tests:
  - {bash: "git push", want: deny, rule: no-push}
  - {bash: "git push -f", want: deny, rule: no-force}
`,
	"/etc/belljar/shared.yaml": `version: 1
defaults: {decision: ask}
narrow: {limits: {memory: 512MiB, wall: 1m}}
rules:
  - {id: reads, match: {tool: Bash, command: "git {log,status,push} **"}, decision: allow}
`,
	"etc/app.yaml": `version: 1
rules:
  - {id: quiet, match: {tool: ReadDocs}, decision: deny}
tests:
  - {call: {tool: ReadDocs, url: "https://go.dev/"}, want: deny, rule: quiet}
`,
}

func load(t testing.TB, workspace, text string, files map[string]string) (*policies.Policy, error) {
	t.Helper()
	return policies.Load("etc/policy.yaml", []byte(text), policies.Files{Workspace: workspace, Read: func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}})
}

func loaded(t testing.TB, workspace string) *policies.Policy {
	t.Helper()
	p, err := load(t, workspace, system, below)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLayers(t *testing.T) {
	p := loaded(t, "/srv/app")
	docs := policies.Facts{Tool: "ReadDocs", URLs: []string{"https://go.dev/"}}
	tests := []struct {
		tenant, profile string
		facts           policies.Facts
		want            policies.Verdict
		rule, layer     string
		at              string // the decision's file and line
		grant           string // profile of the grant
	}{
		{"", "", bash("git push"), allow, "shell", "system", "etc/policy.yaml:24", "offline"},
		{"local", "", bash("git push"), allow, "shell", "system", "etc/policy.yaml:24", "offline"},
		{"ci", "", bash("git push"), allow, "shell", "system", "etc/policy.yaml:24", "offline"},
		{"team-a", "", bash("git push"), deny, "no-push", "tenant", "etc/team-a.yaml:3", ""},
		{"team-a", "", bash("git push -f"), deny, "no-force", "system", "etc/policy.yaml:25", ""},
		{"team-a", "", bash("git log"), allow, "shell", "system", "etc/policy.yaml:24", "readonly"},
		{"team-a", "", bash("git log && make"), ask, "default", "tenant", "/etc/belljar/shared.yaml:2", ""},
		{"team-a", "", bash("rm x"), ask, "default", "system", "etc/policy.yaml:2", ""},
		{"", "", docs, deny, "quiet", "project", "etc/app.yaml:3", ""},
		{"ci", "", docs, deny, "quiet", "project", "etc/app.yaml:3", ""},
		// Tenants have profiles of their own.
		{"ci", "readonly", bash("git log"), allow, "shell", "system", "etc/policy.yaml:24", "readonly"},
		{"ci", "dev", bash("git log"), deny, "may-request", "system", "etc/policy.yaml:12", ""},
		{"ci", "nosuch", bash("git log"), deny, "may-request", "system", "etc/policy.yaml:12", ""},
		{"ci", "", bash("npm ci"), deny, "may-request", "system", "etc/policy.yaml:12", ""},
		{"", "", bash("npm ci"), allow, "to-dev", "system", "etc/policy.yaml:26", "dev"},
		{"", "nosuch", bash("git log"), deny, "unknown-profile", "system", "etc/policy.yaml:0", ""},
		{"gone", "", bash("git log"), deny, "unknown-tenant", "system", "etc/policy.yaml:0", ""},
	}
	for _, tt := range tests {
		f := tt.facts
		f.Tenant, f.Profile = tt.tenant, tt.profile
		d := p.Decide(f)
		at := fmt.Sprintf("%s:%d", d.Source.File, d.Source.Line)
		if d.Verdict != tt.want || d.Rule != tt.rule || d.Layer != tt.layer || at != tt.at || d.Grant.Profile() != tt.grant || d.Policy != p.Hash() {
			t.Errorf("%s asks for %q %s%s:\n got %v by %s of %s at %s with profile %q\nwant %v by %s of %s at %s with profile %q", tt.tenant, tt.profile, f.Command, f.Tool,
				d.Verdict, d.Rule, d.Layer, at, d.Grant.Profile(), tt.want, tt.rule, tt.layer, tt.at, tt.grant)
		}
	}
	// For another workspace the project's file is not even read.
	if d := loaded(t, "/srv/elsewhere").Decide(docs); d.Verdict != ask {
		t.Errorf("a project's rules hold in another workspace: %v by %s", d.Verdict, d.Rule)
	}
	for _, workspace := range []string{"/srv/app/sub", "/srv/app"} {
		if d := loaded(t, workspace).Decide(docs); d.Verdict != deny {
			t.Errorf("a project's rules do not hold in %s", workspace)
		}
	}
	want := []policies.File{{Layer: "system", Name: "etc/policy.yaml"}, {Layer: "tenant", Name: "etc/team-a.yaml"}, {Layer: "tenant", Name: "/etc/belljar/shared.yaml"}, {Layer: "project", Name: "etc/app.yaml"}}
	if got := p.Files(); !slices.Equal(got, want) {
		t.Errorf("Files: got %v, want %v", got, want)
	}
	if p.Hash() == loaded(t, "").Hash() {
		t.Error("a stack with one file more has the same hash")
	}
}

func TestTenants(t *testing.T) {
	p := loaded(t, "")
	a, _ := p.Tenant("team-a")
	if a.Rate != 0.5 || a.Burst != 5 || a.InFlight != 2 || a.Token.File != "/etc/belljar/team-a" || a.Profile != "readonly" || !slices.Equal(a.Approvers, []string{"oidc:group:leads"}) {
		t.Errorf("team-a: %+v", a)
	}
	ci, ok := p.Tenant("ci")
	if !ok || ci.Rate != 100 || ci.Burst != 1000 || ci.InFlight != 128 || ci.Token.Env != "TOKEN_CI_SHA256" || ci.Profile != "offline" || ci.Approvers == nil || len(ci.Approvers) > 0 {
		t.Errorf("ci: %+v", ci)
	}
	if _, ok := p.Tenant("gone"); ok || !slices.Equal(p.Tenants(), []string{"ci", "team-a"}) {
		t.Errorf("tenants: %v", p.Tenants())
	}
	d := p.Decide(policies.Facts{Tenant: "team-a", Tool: "Bash", Command: "git log"})
	if l := d.Grant.Limits(); l.Memory != 512<<20 || l.Wall.String() != "1m0s" || l.Pids != 512 {
		t.Errorf("the layer's limits do not hold: %+v", l)
	}
}

// A clipped grant stays clipped under a policy that is read later, and a tenant that the
// later policy does not have gets no grant.
func TestRegrantOfLayers(t *testing.T) {
	p := loaded(t, "")
	f := policies.Facts{Tenant: "team-a", Profile: "dev", Tool: "Bash", Command: "git log"}
	d := policies.ReadOnly("plan").Narrow(p.Decide(f), f)
	if d.Verdict != allow || d.Grant.Workspace() != policies.AccessRead || d.Grant.Network() != policies.NetworkNone || len(d.Grant.Publish()) != 0 {
		t.Fatalf("got %v with %v, network %v, ports %v", d.Verdict, d.Grant.Workspace(), d.Grant.Network(), d.Grant.Publish())
	}
	g, ok := p.Regrant(d.Grant)
	if !ok || g.Workspace() != policies.AccessRead || len(g.Publish()) != 0 || len(g.Egress().Allow) != 0 || g.Limits().Memory != 512<<20 {
		t.Errorf("regranted: %t %v %v %+v", ok, g.Workspace(), g.Publish(), g.Limits())
	}
	for _, text := range []string{
		strings.Replace(system, "  team-a:", "  team-b:", 1),
		strings.Replace(system, "may_request: [dev, offline]", "may_request: [offline]", 1),
	} {
		text, _, _ = strings.Cut(text, "tests:")
		later, err := load(t, "", text, below)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := later.Regrant(d.Grant); ok {
			t.Errorf("a box of a tenant that may not have its profile keeps it")
		}
	}
}

func TestLayerFaults(t *testing.T) {
	_, err := policies.Parse("policy.yaml", []byte(system))
	var e *policies.ParseError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), `the file "team-a.yaml" cannot be read here`) {
		t.Errorf("Parse read a stack: %v", err)
	}
	files := map[string]string{
		"etc/team-a.yaml": `version: 1
defaults: {decision: ask, profile: dev}
profiles: {mine: {}}
secrets: {}
audit: {}
tenants: {}
projects: {}
totals: {}
`,
		"/etc/belljar/shared.yaml": `version: 1
narrow: {read_only: yes, offline: 1, network: none}
rules:
  - {id: mine, match: {tool: Bash, profile: nosuch}, decision: allow, profile: dev}
  - {id: mine, match: {tool: Bash}, decision: deny}
`,
		"etc/app.yaml": "rules: []\n",
	}
	_, err = load(t, "/srv/app", system, files)
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	golden.Equal(t, "layers.golden", err.Error()+"\n")
	without, _, _ := strings.Cut(system, "tests:")
	_, err = load(t, "/srv", without, map[string]string{"etc/team-a.yaml": "version: 1\n", "/etc/belljar/shared.yaml": "version: 1\n"})
	if err == nil || !strings.Contains(err.Error(), "the file cannot be read: open etc/app.yaml: file does not exist") {
		t.Errorf("files that are not there: %v", err)
	}
	// A test in a layer that fails is a fault of the whole policy.
	broken := map[string]string{
		"etc/team-a.yaml": below["etc/team-a.yaml"], "/etc/belljar/shared.yaml": below["/etc/belljar/shared.yaml"],
		"etc/app.yaml": "version: 1\ntests:\n  - {bash: git push, want: deny}\n",
	}
	_, err = load(t, "/srv/app", system, broken)
	if err == nil || !strings.Contains(err.Error(), "etc/app.yaml:3:5: test failed: want deny, got allow by rule shell (etc/policy.yaml:24)") {
		t.Errorf("a test of a layer: %v", err)
	}
}

func TestTenantFaults(t *testing.T) {
	golden.Equal(t, "tenants.golden", faults(t, head+`tenants:
  Bad Name: {}
  ci: {token: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, profile: nosuch, may_request: [offlin]}
  x: {token: "${env:A B}", limit: {calls: 100, burst: 0, in_flight: 1000000, rate: 3}, approvers: leads}
  y: {token: "${file:relative}", rules: one.yaml, limit: {calls: 0/s}}
projects:
  app: [./a.yaml]
  /srv/../app: []
tests:
  - {bash: ls, as: cj, want: ask}
`).Error()+"\n")
}

// randomFacts returns a call of a random kind.
func randomFacts(r *rand.Rand) policies.Facts {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	f := policies.Facts{
		Tenant: pick("", "local", "ci", "team-a", "gone"), Tool: pick("Bash", "ReadDocs", "ext.x"),
		Profile: pick("", "", "offline", "readonly", "dev", "nosuch"),
	}
	switch f.Tool {
	case "Bash":
		var parts []string
		for range 1 + r.IntN(3) {
			parts = append(parts, pick("git log", "git push", "git push -f", "make x", "npm ci", "rm x", "$X", "timeout 5 git push", "echo hi > /workspace/f", "A=1 make", "python -c x"))
		}
		f.Command = strings.Join(parts, pick(" && ", "; ", " | "))
	case "ReadDocs":
		f.URLs = []string{pick("https://go.dev/", "https://evil.example/a", "file:///etc", "http://127.1/")}
	}
	if r.IntN(3) == 0 {
		f.Paths = []string{pick("/workspace/a", "/etc/passwd", "../x", "/workspace/.env")}
	}
	return f
}

// randomLayer returns the text of a layer with random rules.
func randomLayer(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	var b strings.Builder
	b.WriteString("version: 1\n")
	if r.IntN(2) == 0 {
		b.WriteString("defaults: {decision: " + pick("deny", "ask", "allow") + "}\n")
	}
	switch r.IntN(3) {
	case 0:
		b.WriteString("narrow: {read_only: " + pick("true", "false") + ", offline: " + pick("true", "false") + "}\n")
	case 1:
		b.WriteString("narrow: {limits: {memory: " + pick("1MiB", "8GiB", "100GiB") + ", wall: " + pick("1s", "5h") + "}}\n")
	}
	b.WriteString("rules:\n")
	for i := range 1 + r.IntN(5) {
		match := pick(`tool: "*"`, `tool: Bash, command: "git **"`, `tool: Bash, command: "**"`, `command: "git push **", any_flag: [-f]`, `tool: ReadDocs, url: "https://go.dev/**"`, `path: "/workspace/**"`, `profile: dev`, `tool: Bash, profile: [readonly, offline]`)
		unless := pick("", "", `, unless: {command: "git log"}`)
		fmt.Fprintf(&b, "  - {id: r%d, match: {%s}%s, decision: %s}\n", i, match, unless, pick("allow", "ask", "deny"))
	}
	return b.String()
}

// number returns a limit as a number.
func number(l policies.Limits, name string) float64 {
	f := reflect.ValueOf(l).FieldByName(name)
	if f.CanFloat() {
		return f.Float()
	}
	return float64(f.Int())
}

// wider says what a allows that b does not allow; empty if nothing.
func wider(a, b policies.Grant) string {
	x, y := a.Limits(), b.Limits()
	switch {
	case a.IsZero():
		return ""
	case b.IsZero():
		return "anything at all"
	case a.Tenant() != b.Tenant() || a.Profile() != b.Profile() || a.Totals() != b.Totals() || a.System() != b.System() || a.Image() != b.Image():
		return "another tenant, profile, total or root"
	case a.Workspace() > b.Workspace():
		return "the workspace"
	case a.Network() > b.Network() || len(a.Egress().Allow) > len(b.Egress().Allow) || len(a.Egress().Secrets) > len(b.Egress().Secrets):
		return "the network"
	case len(a.Publish()) > len(b.Publish()):
		return "ports"
	case x.Unset() != "":
		return "no limit of " + x.Unset()
	}
	for _, name := range policytest.LimitNames() {
		if number(x, name) > number(y, name) {
			return "the limit " + name
		}
	}
	for i, m := range a.Mounts() {
		if o := b.Mounts()[i]; m.Source != o.Source || m.Target != o.Target || m.Writable && !o.Writable {
			return "a mount"
		}
	}
	return ""
}

// One layer more never raises a verdict and never widens a grant, whatever the
// layer and the call.
func TestLayersOnlyNarrow(t *testing.T) {
	upper := loaded(t, "/srv/app")
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	changed := map[policies.Verdict]int{}
	for range 300 {
		text := randomLayer(r)
		layer, err := policies.ParseLayer(policies.LayerSession, "random.yaml", []byte(text), upper)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		lower := upper.With(layer)
		for range 40 {
			f := randomFacts(r)
			before, after := upper.Decide(f), lower.Decide(f)
			if after.Verdict > before.Verdict {
				t.Fatalf("seed %d: %v raises %v to %v\n%s", seed, f, before.Verdict, after.Verdict, text)
			}
			if what := wider(after.Grant, before.Grant); what != "" {
				t.Fatalf("seed %d: %v gives %s besides\n%s", seed, f, what, text)
			}
			if after.Verdict < before.Verdict {
				changed[after.Verdict]++
				if after.Layer != policies.LayerSession || after.Source.File != "random.yaml" || after.Reason == "" || after.Instead == "" {
					t.Fatalf("seed %d: the decision does not name the layer: %+v", seed, after)
				}
			}
			again := layer.Narrow(before, f)
			if again.Verdict != after.Verdict || again.Rule != after.Rule || wider(again.Grant, after.Grant)+wider(after.Grant, again.Grant) != "" {
				t.Fatalf("seed %d: %v: Narrow says %v by %s, and the stack %v by %s", seed, f, again.Verdict, again.Rule, after.Verdict, after.Rule)
			}
			for _, tool := range []string{"Bash", "ReadDocs", "ext.x"} {
				of := policies.Facts{Tenant: f.Tenant, Tool: tool}
				if upper.HiddenFrom(of) && !lower.HiddenFrom(of) {
					t.Fatalf("seed %d: %s is shown again\n%s", seed, tool, text)
				}
			}
			if lower.HiddenFrom(f) && after.Verdict != deny {
				t.Fatalf("seed %d: %v is hidden, and gets %v\n%s", seed, f, after.Verdict, text)
			}
		}
	}
	if changed[deny] == 0 || changed[ask] == 0 {
		t.Errorf("the random layers changed nothing: %v", changed)
	}
}
