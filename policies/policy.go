package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Policy is a parsed policy. It never changes; all its methods are safe for
// concurrent use.
type Policy struct {
	ruleset // of the system's file; its hash is that of all files

	questions questions
	profile   string // granted where a call asks for none
	profiles  map[string]profileGrant
	secrets   map[string]Secret
	totals    Totals
	audit     Audit
	audited   bool // the policy has an audit block
	tenants   map[string]*tenant
	names     []string     // of the tenants, in order
	layers    []*Layer     // that hold for every tenant, the upper ones first
	dirs      []string     // workspaces of projects
	people    []Person     // of the console, in order
	provider  *Provider    // at which further people log in to it; nil for none
	auth      auth         // the login of clients over HTTP, beside the tenants' own tokens
	upstreams upstreams    // other people's MCP servers
	tests     []TestResult // without those of a bundled policy
	bundled   string       // the name of a bundled policy; empty for others
}

// TestResult is one test that a policy carries, and its result. Parse refuses a
// policy with a failed test, so all tests of a Policy have passed.
type TestResult struct {
	Source  Source
	Call    string  // the call in short, for example "Bash git push"
	Want    Verdict // what the test says
	Got     Verdict // what the policy says
	Rule    string  // the rule that decided
	Profile string  // profile granted; empty where none was
}

// File is one file of a stack.
type File struct{ Layer, Name string }

// Name is the name that Parse was given.
func (p *Policy) Name() string { return p.name }

// Hash is the SHA-256 of the policy's text in hexadecimal digits, or of the
// hashes of its files where it has several, for logs and for whatever must not
// outlive a change of the policy.
func (p *Policy) Hash() string { return p.hash }

// Profiles are the names of the policy's profiles, in order.
func (p *Policy) Profiles() []string { return names(p.profiles) }

// Projects are the workspaces that the policy has files for, in its order.
func (p *Policy) Projects() []string { return slices.Clone(p.dirs) }

// Asking says how a person is asked, for questions that no decision has caused.
func (p *Policy) Asking() Asking { return p.asking.Asking }

// Names reports whether one of the policy's own rules names one of the tools in full. A
// pattern, for example "{list,search}_templates", names none.
func Names(p *Policy, tools ...string) bool { return p.namesTool(tools) }

// Files are the files of the stack: the system's first, and then those of
// tenants and projects.
func (p *Policy) Files() []File {
	all := []File{{LayerSystem, p.name}}
	for _, l := range p.allLayers() {
		if f := (File{l.kind, l.Name()}); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// allLayers are the layers of all tenants, and then those that hold for every one.
func (p *Policy) allLayers() []*Layer {
	var all []*Layer
	for _, name := range p.Tenants() {
		all = append(all, p.tenants[name].below...)
	}
	return append(all, p.layers...)
}

// With is the policy with further layers below it, as a session has them. p
// stays as it is.
func (p *Policy) With(layers ...*Layer) *Policy {
	q := *p
	q.layers = slices.Concat(p.layers, layers)
	for _, l := range layers {
		q.hash = stackHash(q.hash, l)
	}
	return &q
}

// below is With for the layer of a tenant; of no tenant, it holds for all.
func (p *Policy) below(tenantName string, l *Layer) *Policy {
	own := p.tenants[tenantName]
	if own == nil {
		return p.With(l)
	}
	q, t := *p, *own
	t.below = append(slices.Clip(t.below), l)
	q.tenants = maps.Clone(p.tenants)
	q.tenants[tenantName] = &t
	q.hash = stackHash(q.hash, l)
	return &q
}

// layersOf are the layers that hold for a tenant, the upper ones first.
func (p *Policy) layersOf(tenantName string) []*Layer {
	own := p.tenants[tenantName]
	if own == nil {
		return p.layers
	}
	return slices.Concat(own.below, p.layers)
}

// stackHash is the hash of a stack with one more layer.
func stackHash(upper string, l *Layer) string {
	h := sha256.New()
	for _, s := range []string{upper, l.kind, l.Name(), l.rules.hash} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Profile describes a profile of the policy; false says that the policy has no
// profile of that name.
func (p *Policy) Profile(name string) (Profile, bool) {
	g, ok := p.profiles[name]
	return Profile{
		Name: g.profile, Workspace: g.access, System: g.system, Mounts: g.Mounts(), Network: g.network, Egress: g.Egress(), Publish: g.Publish(), Image: g.image,
		Storage: g.storage, Protect: g.Protect(), Limits: g.limits, Totals: p.totals,
		Env: names(g.env), Require: slices.Clone(g.require), Exec: g.exec, Reading: g.Reading(), Browser: g.browser.walls, Acting: g.Acting(),
	}, ok
}
