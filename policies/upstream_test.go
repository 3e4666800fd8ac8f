package policies_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

const upstreamPolicy = `version: 1
defaults: {decision: allow, profile: work}
secrets: {github: {env: GITHUB_TOKEN}, sentry: {env: SENTRY_TOKEN}}
profiles:
  work: {fs: {system: true, workspace: rw}, publish: 3000, exec: enforce, browser: sandboxed}
  online: {extends: work, net: {mode: proxy, allow: [a.example]}}
tenants: {t: {}, u: {}}
upstreams:
  from: [mcp.json, /etc/mcp.json]
  wait: 5s
  defaults: {share: session, timeout: {idle: 1m}, limit: {calls: 9/s}}
  servers:
    github:
      profile:
        fs: {workspace: ro, read: [/srv/models]}
        net: {mode: proxy, tls: intercept, allow: [api.github.com], secrets: [{secret: github, host: api.github.com, header: Authorization, value: "Bearer ${secret:github}"}]}
        limits: {memory: 1GiB}
      secrets: {github: door, sentry: env}
      pin: off
      safety: off
      sampling: true
      roots: true
      start: eager
      keep: true
      timeout: {call: 10s}
      tools: {allow: ["get_*", "list_*"], deny: ["*_all"]}
      limit: {calls: 2/min, concurrent: 1}
      facts:
        "*": {/url: url, /nested: command}
        get_file: {/path: path, /host: host, /nested/name: path, /text: none}
    same: {profile: online}
    wide: {profile: {extends: online, fs: {workspace: none}}, install: {mode: proxy, allow: [registry.example]}}
    never: {install: {mode: none}}
`

// upstreamGrant returns the grant of the box of a server.
func upstreamGrant(t *testing.T, p *policies.Policy, tenant string, b policies.UpstreamBox) policies.Grant {
	t.Helper()
	g, err := p.Upstreams().Grant(tenant, b)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// If the policy says nothing about a server, the server has nothing: no workspace, no
// network, and nothing that commands of agents have.
func TestUpstreamGrantIsClosed(t *testing.T) {
	for _, text := range []string{head, upstreamPolicy} {
		p := parse(t, text)
		g := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "nobody named it", Trusted: true})
		if g.Workspace() != policies.AccessNone || g.Network() != policies.NetworkNone || len(g.Egress().Allow) > 0 || len(g.Mounts()) > 0 || len(g.Env()) > 0 || len(g.Publish()) > 0 || g.Image() != "" {
			t.Errorf("a server has more than its own box: %+v", g)
		}
		l := g.Limits()
		if !g.System() || l.Memory != 512<<20 || l.CPU != 1 || l.Pids != 128 || l.Unset() != "" || l.Background != 30*24*time.Hour {
			t.Errorf("got the limits %+v", l)
		}
		call := p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Command: "ls"}).Grant
		if call.Covers(g) || g.Covers(call) || g.NestsNamespaces() || g.OfBrowser() || call.OfUpstream() != (policies.UpstreamBox{}) {
			t.Error("a command can run in the box of a server, or the other way round")
		}
	}
}

func TestUpstreamGrant(t *testing.T) {
	p := parse(t, upstreamPolicy)
	g := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "github", Trusted: true, Cache: "/var/lib/cache"})
	want := []policies.Mount{{Source: "/srv/models", Target: "/srv/models"}, {Source: "/var/lib/cache", Target: policies.UpstreamCache}}
	if g.Workspace() != policies.AccessRead || g.Network() != policies.NetworkDoor || len(g.Egress().Secrets) != 1 || g.Limits().Memory != 1<<30 || g.Limits().Pids != 128 || !slices.Equal(g.Mounts(), want) {
		t.Errorf("the box of a server lacks what the policy gives it: %+v", g)
	}
	in := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "github", Trusted: true, Cache: "/var/lib/cache", Install: true})
	if in.Workspace() != policies.AccessNone || len(in.Egress().Secrets) > 0 || !slices.Equal(in.Mounts(), []policies.Mount{{Source: "/var/lib/cache", Target: policies.UpstreamCache, Writable: true}}) {
		t.Errorf("the box in which a server is installed: %+v", in)
	}
	for name, hosts := range map[string][]string{"github": {"registry.npmjs.org", "pypi.org", "files.pythonhosted.org"}, "wide": {"registry.example"}} {
		in := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: name, Trusted: true, Install: true})
		var got []string
		for _, r := range in.Egress().Allow {
			got = append(got, r.Host)
		}
		if !slices.Equal(got, hosts) {
			t.Errorf("%s is installed from %q, want %q", name, got, hosts)
		}
		if v := in.Egress().Connect(host(t, hosts[0]), 443); !v.Allowed {
			t.Errorf("%s: %+v", hosts[0], v)
		}
		if v := in.Egress().Connect(host(t, "evil.example"), 443); v.Allowed {
			t.Errorf("evil.example: %+v", v)
		}
	}
	for _, name := range []string{"same", "wide"} {
		g := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: name, Trusted: true})
		if g.Limits().Memory != policies.DefaultMemory || g.Network() != policies.NetworkDoor || (g.Workspace() == policies.AccessWrite) != (name == "same") {
			t.Errorf("%s does not have what its profile has: %+v", name, g)
		}
		if len(g.Publish()) > 0 || g.Exec() != policies.ExecOff || g.Browser() != policies.BrowserOff {
			t.Errorf("%s has what only agents have: %+v", name, g)
		}
	}
}

// Two boxes are always different if they are of two servers, two tenants or two phases, or
// if the entry of only one of them is trusted.
func TestBoxesOfUpstreamsDiffer(t *testing.T) {
	p := parse(t, upstreamPolicy)
	var all []policies.Grant
	for _, tenant := range []string{"t", "u"} {
		for _, b := range []policies.UpstreamBox{
			{Server: "a"},
			{Server: "b"},
			{Server: "a", Trusted: true},
			{Server: "a", Cache: "/c"},
			{Server: "a", Cache: "/d"},
			{Server: "a", Install: true},
			{Server: "a", Install: true, Cache: "/c"},
			{Server: "a", Cache: "/c", Scratch: true},
			{Server: "a", Cache: "/c", Layer: true},
		} {
			all = append(all, upstreamGrant(t, p, tenant, b))
		}
	}
	for i := range all {
		for k := range all {
			if got := all[i].Covers(all[k]); got != (i == k) {
				t.Errorf("%+v of %s covers %+v of %s: got %v", all[i].OfUpstream(), all[i].Tenant(), all[k].OfUpstream(), all[k].Tenant(), got)
			}
		}
	}
}

// A person or an agent who writes an entry in a workspace can give it any name. The entry
// gets nothing because of its name.
func TestUntrustedEntriesGetLess(t *testing.T) {
	p := parse(t, upstreamPolicy)
	for _, name := range []string{"github", "same", "wide"} {
		g := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: name})
		if g.Workspace() != policies.AccessNone || g.Network() != policies.NetworkNone || len(g.Mounts()) > 0 || g.Limits().Memory != 512<<20 {
			t.Errorf("%s: got %+v", name, g)
		}
		in := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: name, Install: true}).Egress()
		if len(in.Secrets) > 0 || len(in.Allow) != 3 || in.Allow[0].Host != "registry.npmjs.org" {
			t.Errorf("%s: is installed from %+v", name, in)
		}
		u := p.Upstreams().Of(name, false)
		if len(u.Secrets) > 0 || u.Unguarded || u.Eager || u.Keep || u.Sampling || u.Roots || u.Pin != policies.PinAsk {
			t.Errorf("%s: got %+v", name, u)
		}
	}
	if g, err := p.Upstreams().Grant("t", policies.UpstreamBox{Server: "never", Install: true}); err == nil {
		t.Errorf("what cannot be installed by the operator's entry is installed from %+v", g.Egress())
	}
	secret := parse(t, strings.ReplaceAll(upstreamPolicy, "defaults: {share", "defaults: {install: {mode: proxy, tls: intercept, allow: [r.example], secrets: [{secret: github, host: r.example, header: Authorization, value: \"Bearer ${secret:github}\"}]}, share"))
	for trusted, want := range map[bool]int{false: 0, true: 1} {
		g := upstreamGrant(t, secret, "t", policies.UpstreamBox{Server: "same", Trusted: trusted, Install: true})
		if got := len(g.Egress().Secrets); got != want {
			t.Errorf("trusted %v: the box of its launcher has %d secrets, want %d", trusted, got, want)
		}
	}
	u := p.Upstreams().Of("github", false)
	if !slices.Equal(u.DenyTools, []string{"*_all"}) || len(u.AllowTools) != 2 || u.Limit.Concurrent != 1 {
		t.Errorf("what narrows a server does not hold for an entry that is not trusted: %+v", u)
	}
	strict := parse(t, strings.ReplaceAll(upstreamPolicy, "pin: off", "pin: strict"))
	if got := strict.Upstreams().Of("github", false).Pin; got != policies.PinStrict {
		t.Errorf("got %v", got)
	}
}

// layer returns a layer of a session that narrows.
func layer(t *testing.T, p *policies.Policy, narrow string) *policies.Layer {
	t.Helper()
	l, err := policies.ParseLayer(policies.LayerSession, "layer.yaml", []byte("version: 1\nnarrow: {"+narrow+"}\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestUpstreamGrantRefused(t *testing.T) {
	p := parse(t, upstreamPolicy)
	var out []string
	for _, tt := range []struct {
		tenant string
		box    policies.UpstreamBox
	}{{"t", policies.UpstreamBox{}}, {"nobody", policies.UpstreamBox{Server: "github", Trusted: true}}, {"t", policies.UpstreamBox{Server: "never", Trusted: true, Install: true}}} {
		g, err := p.Upstreams().Grant(tt.tenant, tt.box)
		if err == nil || !g.IsZero() {
			t.Errorf("%+v: got %+v", tt, g)
			continue
		}
		out = append(out, err.Error())
	}
	box := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "same", Trusted: true})
	call := policies.Facts{Tenant: "t", Tool: "mcp_x", Upstream: "same"}
	for _, err := range []error{
		policies.Grant{}.MayUse(box), p.Decide(call).Grant.MayUse(p.Decide(call).Grant),
		p.With(policies.ReadOnly("plan")).Decide(call).Grant.MayUse(box),
		p.With(layer(t, p, "offline: true")).Decide(call).Grant.MayUse(box),
	} {
		out = append(out, fmt.Sprint(err))
	}
	golden.Equal(t, "upstream.golden", strings.Join(out, "\n")+"\n")
}

// A layer takes the same from the boxes of servers as from a tenant's boxes. A box that may
// do more does not serve a session that may do less.
func TestLayersNarrowUpstreams(t *testing.T) {
	p := parse(t, upstreamPolicy)
	box := policies.UpstreamBox{Server: "same", Trusted: true, Cache: "/c"}
	whole := upstreamGrant(t, p, "t", box)
	for text, check := range map[string]func(g policies.Grant) bool{
		"read_only: true":            func(g policies.Grant) bool { return g.Workspace() == policies.AccessRead && !g.Mounts()[0].Writable },
		"offline: true":              func(g policies.Grant) bool { return g.Network() == policies.NetworkNone && len(g.Egress().Allow) == 0 },
		"limits: {memory: 1MiB}":     func(g policies.Grant) bool { return g.Limits().Memory == 1<<20 },
		"limits: {background: 1m}":   func(g policies.Grant) bool { return g.Limits().Background == 30*24*time.Hour },
		"limits: {pids: 9, cpu: .5}": func(g policies.Grant) bool { return g.Limits().Pids == 9 && g.Limits().CPU == 0.5 },
	} {
		less := p.With(layer(t, p, text))
		g := upstreamGrant(t, less, "t", box)
		if !check(g) {
			t.Errorf("%s: got %+v", text, g)
		}
		call := less.Decide(policies.Facts{Tenant: "t", Tool: "mcp_x", Upstream: "same"}).Grant
		if err := call.MayUse(whole); (err != nil) != !strings.Contains(text, "limits") {
			t.Errorf("%s: a box with all that the server has: %v", text, err)
		}
		if err := call.MayUse(g); err != nil {
			t.Errorf("%s: a box that has no more: %v", text, err)
		}
	}
}

func TestMayUse(t *testing.T) {
	p := parse(t, upstreamPolicy)
	box := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "github", Trusted: true})
	call := func(tenant string) policies.Grant {
		return p.Decide(policies.Facts{Tenant: tenant, Tool: "mcp_x", Upstream: "github"}).Grant
	}
	if err := call("t").MayUse(box); err != nil {
		t.Error(err)
	}
	// The files in Cache belong to belljar, so a box that writes there does not write
	// anything of the host.
	plan := p.With(policies.ReadOnly("plan")).Decide(policies.Facts{Tenant: "t", Tool: "mcp_x", Upstream: "x"}).Grant
	if err := plan.MayUse(upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "x", Cache: "/c", Scratch: true})); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another tenant": call("u").MayUse(box), "no grant": policies.Grant{}.MayUse(box),
		"no box": call("t").MayUse(policies.Grant{}), "a box of commands": call("t").MayUse(call("t")),
	} {
		if err == nil {
			t.Errorf("%s: it is served", what)
		}
	}
}

// The box of a server keeps its walls under a policy that is read later.
func TestRegrantUpstream(t *testing.T) {
	p := parse(t, upstreamPolicy)
	box := upstreamGrant(t, p, "t", policies.UpstreamBox{Server: "same", Trusted: true})
	later := parse(t, strings.ReplaceAll(upstreamPolicy, "a.example", "b.example"))
	if got, ok := later.Regrant(box); !ok || !box.Covers(got) || got.Egress().Allow[0].Host != "b.example" {
		t.Errorf("got %+v, %v", got, ok)
	}
	if got, ok := parse(t, strings.ReplaceAll(upstreamPolicy, "    same: {profile: online}\n", "")).Regrant(box); !ok || got.Network() != policies.NetworkNone {
		t.Errorf("without the server: got %+v, %v", got, ok)
	}
	if got, ok := parse(t, strings.ReplaceAll(upstreamPolicy, "tenants: {t: {}", "tenants: {s: {}")).Regrant(box); ok {
		t.Errorf("without the tenant: got %+v", got)
	}
}

func TestUpstreamsOf(t *testing.T) {
	up := parse(t, upstreamPolicy).Upstreams()
	if got, want := up.From(), []string{"mcp.json", "/etc/mcp.json"}; !slices.Equal(got, want) || up.Wait() != 5*time.Second {
		t.Errorf("from %q, wait %v", got, up.Wait())
	}
	p, err := policies.Parse("/etc/belljar/policy.yaml", []byte(upstreamPolicy))
	if err != nil || p.Upstreams().From()[0] != "/etc/belljar/mcp.json" {
		t.Errorf("from %q, %v", p.Upstreams().From(), err)
	}
	if got, want := up.Names(), []string{"github", "never", "same", "wide"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	base := policies.UpstreamTimeouts{Handshake: 30 * time.Second, Install: 2 * time.Minute, Call: 2 * time.Minute, Idle: time.Minute}
	u := up.Of("github", true)
	if !u.Eager || !u.Keep || !u.Unguarded || !u.Sampling || !u.Roots || u.Pin != policies.PinOff || u.Share != policies.ShareSession || u.Search {
		t.Errorf("got %+v", u)
	}
	if want := (policies.UpstreamTimeouts{Handshake: base.Handshake, Install: base.Install, Call: 10 * time.Second, Idle: base.Idle}); u.Timeouts != want {
		t.Errorf("times %+v, want %+v", u.Timeouts, want)
	}
	if want := map[string]policies.SecretPlace{"github": policies.SecretAtDoor, "sentry": policies.SecretInEnv}; !maps.Equal(u.Secrets, want) {
		t.Errorf("secrets %v, want %v", u.Secrets, want)
	}
	u.Secrets["other"] = policies.SecretInEnv
	if len(up.Of("github", true).Secrets) != 2 {
		t.Error("a caller has changed the policy")
	}
	other := up.Of("nobody named it", true)
	if other.Timeouts != base || other.Pin != policies.PinTofu || other.Limit.Calls != 9 || len(other.AllowTools)+len(other.DenyTools) > 0 || other.Name != "nobody named it" {
		t.Errorf("got %+v", other)
	}
	// A policy that says nothing about servers applies to the servers that the command line
	// names.
	if got := parse(t, head).Upstreams(); got.Wait() != 2*time.Second || got.Of("x", true).Share != policies.SharePrincipal || len(got.From()) > 0 {
		t.Errorf("got %+v", got.Of("x", true))
	}
}

func TestUpstreamFacts(t *testing.T) {
	p := parse(t, upstreamPolicy)
	args := map[string]any{
		"url": "a.example", "path": "/etc/passwd", "host": "h.example", "text": "https://text.example/",
		"nested": map[string]any{"name": "/n", "list": []any{"ls", "https://c.example", map[string]any{"x": "rm -rf /"}}, "n": 3.0, "t": true, "nil": nil},
		"free":   []any{"HTTPS://b.example/x is nice", "\thttp:/c.example", "see https://d.example", "httpsx://e", "https:", ""},
	}
	for tool, want := range map[string]policies.Facts{
		"get_file": {
			URLs: []string{"https://b.example/x%20is%20nice", "http://c.example", "a.example"}, Hosts: []string{"h.example"},
			Paths: []string{"/n", "/etc/passwd"}, Command: "ls\nhttps://c.example\nrm -rf /",
		},
		"other": {
			URLs: []string{"https://b.example/x%20is%20nice", "http://c.example", "https://text.example/", "a.example"}, Command: "ls\nhttps://c.example\nrm -rf /\n/n",
		},
	} {
		got := p.Upstreams().Of("github", true).Facts(tool, args)
		if got.Upstream != "github" || !slices.Equal(got.URLs, want.URLs) || !slices.Equal(got.Hosts, want.Hosts) || !slices.Equal(got.Paths, want.Paths) || got.Command != want.Command || len(got.Args) != len(args) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tool, got, want)
		}
	}
	if got := p.Upstreams().Of("plain", true).Facts("x", args); len(got.URLs) != 4 || got.Command != "" {
		t.Errorf("without pointers: got %+v", got)
	}
}

// A server in Go reads a member in any case of letters, also if there are several such
// members, so a pointer names all of them. A pointer with the member's exact spelling comes
// first.
func TestPointersHaveNoCase(t *testing.T) {
	p := parse(t, "version: 1\nprofiles: {a: {}}\nupstreams: {servers: {s: {facts: {x: {/url: url, /Raw: none, /raw: path, /list/0/Dir: path, /to: none, /to/ask: host}}}}}\n")
	got := p.Upstreams().Of("s", true).Facts("x", map[string]any{
		"url": "u1", "URL": "u2", "Url": []any{"u3"}, "ur\u017f": "no", "u\u0072L": "u4",
		"Raw": "raw", "raw": "/r1", "rAW": "http://r2.example", "LIST": []any{map[string]any{"dir": "/d1", "DIR": "/d2", "di\u0280": "no"}},
		"TO": map[string]any{"A\u017f\u212a": "h.example", "b": "https://b.example"},
	})
	slices.Sort(got.URLs)
	if want := []string{"u1", "u2", "u3", "u4"}; !slices.Equal(got.URLs, want) {
		t.Errorf("URLs: got %q, want %q", got.URLs, want)
	}
	slices.Sort(got.Paths)
	if want := []string{"/d1", "/d2", "/r1"}; !slices.Equal(got.Paths, want) || !slices.Equal(got.Hosts, []string{"h.example"}) {
		t.Errorf("paths: got %q, want %q; hosts: %q", got.Paths, want, got.Hosts)
	}
}

// A rule about URLs applies to the arguments of other people's tools.
func TestRulesSeeUpstreamFacts(t *testing.T) {
	p := parse(t, strings.ReplaceAll(upstreamPolicy, "tenants: {t: {}, u: {}}", "rules: [{id: no, match: {host: \"*.evil.example\"}, decision: deny}]"))
	for address, want := range map[string]policies.Verdict{"https://www.evil.example/x": policies.Deny, "https://good.example/x": policies.Allow, "https://www.evil.example/x and more": policies.Deny} {
		for _, key := range []string{"address", "url"} {
			f := p.Upstreams().Of("plain", true).Facts("navigate", map[string]any{key: address})
			f.Tenant, f.Tool = "local", "mcp_plain_navigate"
			if got := p.Decide(f).Verdict; got != want {
				t.Errorf("%s as %s: got %v, want %v", address, key, got, want)
			}
		}
	}
}

// A server runs each of its commands by itself, so no command makes the next one a part of
// its own words.
func TestUpstreamCommandsAreApart(t *testing.T) {
	p := parse(t, `version: 1
profiles: {a: {}}
upstreams: {servers: {s: {facts: {x: {/run: command}}}}}
rules:
  - {id: harmless, match: {upstream: s, command: ["ls **", "echo **"]}, decision: allow}
  - {id: no-rm, match: {upstream: s, command: "rm **"}, decision: deny}
`)
	for _, tt := range []struct {
		run  []any
		want policies.Verdict
		rule string
	}{
		{[]any{"ls", "echo x"}, policies.Allow, "harmless"},
		{[]any{"ls # x", "echo 'a\nb'", ""}, policies.Allow, "harmless"},
		{[]any{`ls \`, "rm -rf /"}, policies.Deny, "no-rm"},
		{[]any{"echo 'a", "rm -rf / #'"}, policies.Deny, "no-rm"},
		{[]any{"ls <<X", "rm -rf /", "X"}, policies.Deny, "no-rm"},
		{[]any{`echo \`, `rm \`, "ls"}, policies.Deny, "no-rm"},
		{[]any{"echo 'a", "rm b'"}, policies.Deny, "default"},
		{[]any{"ls \x00", "ls"}, policies.Deny, "default"},
	} {
		f := p.Upstreams().Of("s", true).Facts("x", map[string]any{"run": tt.run})
		f.Tool = "mcp_s_x"
		if d := p.Decide(f); d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%q: got %v by %s, want %v by %s; the script is %q", tt.run, d.Verdict, d.Rule, tt.want, tt.rule, f.Command)
		}
	}
}

func TestUpstreamFaults(t *testing.T) {
	up := func(text string) string {
		return "version: 1\nsecrets: {github: {env: A}}\nprofiles: {offline: {}}\nupstreams: {" + text + "}\n"
	}
	one := func(text string) string { return up("servers: {s: {" + text + "}}") }
	var all []string
	for _, tt := range []struct{ name, text, want string }{
		{"its kind", "version: 1\nprofiles: {a: {}}\nupstreams: [./mcp.json]\n", "upstreams must be a mapping"},
		{"without profiles", "version: 1\nupstreams: {servers: {s: {profile: {limits: {pids: 3}}, install: {mode: none}}, t: {profile: {extends: a}}}}\n", "the policy has no profiles"},
		{"a file's name", up(`from: "a\x01.json"`), "control character"},
		{"a file twice", up("from: [a, a]"), "names \"a\" twice"},
		{"files", up("from: [" + many(17, "f%d") + "]"), "more than 16 files"},
		{"no files", up("from: []"), "from must not be empty"},
		{"wait", up("wait: 3"), "wait cannot be"},
		{"no servers", up("servers: {}"), "servers must not be empty"},
		{"servers", up("servers: {" + many(257, "s%d: {}") + "}"), "more than the 256"},
		{"a server's name", up("servers: {\"a\\nb\": {}, \" \": {}, " + strings.Repeat("x", 65) + ": {}}"), "cannot be the name of a server"},
		{"an unknown key", one("workspace: read"), "server s has no key"},
		{"of the defaults", up("defaults: {pinn: ask}"), "defaults of upstreams has no key"},
		{"a profile", one("profile: ofline"), "does not exist"},
		{"a profile's key", one("profile: {exec: off}"), "has no key \"exec\""},
		{"a profile to extend", one("profile: {extends: nothing}"), "does not exist"},
		{"an image", one("profile: {fs: {image: debian, system: true}}"), "fs has an image"},
		{"install", one("install: {allow: [a.example]}"), "net has no mode"},
		{"pin", one("pin: never"), "pin cannot be"},
		{"share", one("share: all"), "share cannot be"},
		{"start", one("start: now"), "start cannot be"},
		{"keep", one("keep: 1"), "keep must be true or false"},
		{"timeout", one("timeout: {call: 0s, idle: never}"), "call must be above zero"},
		{"secrets", one("secrets: {}"), "secrets of a server must not be empty"},
		{"a secret", one("secrets: {gitub: door}"), "secret \"gitub\" does not exist"},
		{"a secret's place", one("secrets: {github: argv}"), "the place of a secret cannot be"},
		{"tools", one("tools: {allow: []}"), "allow of tools must not be empty"},
		{"tools that are not there", one("tools: {deny: []}"), "deny of tools must not be empty"},
		{"no facts", one("facts: {}"), "facts must not be empty"},
		{"facts of no tool", one("facts: {\" \": {/a: url}}"), "the name of a tool must not be empty"},
		{"a pointer", one("facts: {x: {url: url, /a~2: url}}"), "is not a JSON pointer"},
		{"a fact", one("facts: {x: {/url: uri}}"), "a fact cannot be"},
		{"pointers", one("facts: {x: {" + many(17, "/a%d: url") + "}}"), "more than 16 pointers"},
		{"safety", one("safety: none"), "safety cannot be"},
		{"limit", one("limit: {}"), "limit must not be empty"},
		{"expose", one("expose: nothing"), "expose cannot be"},
		{"sampling", one("sampling: 4096"), "sampling must be true or false"},
		{"roots", one("roots: [/srv]"), "roots must be true or false"},
	} {
		e := faults(t, tt.text)
		if !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: got\n%.2000v\nwant %q", tt.name, e, tt.want)
		}
		e.Faults = e.Faults[:min(len(e.Faults), 3)]
		all = append(all, e.Error())
	}
	golden.Equal(t, "faults/upstream.golden", strings.Join(all, "\n\n")+"\n")
	image := upstreamGrant(t, parse(t, one("profile: {fs: {image: debian}}")), "t", policies.UpstreamBox{Server: "s", Trusted: true})
	if image.Image() != "debian" || image.System() {
		t.Errorf("a server of an image: %+v", image)
	}
}
