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
	ruleset // rules of the system's file; the hash is that of all files

	questions questions
	profile   string // profile of a call that asks for none
	profiles  map[string]profileGrant
	secrets   map[string]Secret
	totals    Totals
	audit     Audit
	audited   bool // the policy has an audit block
	tenants   map[string]*tenant
	names     []string     // names of the tenants, in order
	layers    []*Layer     // layers that apply to every tenant, the upper ones first
	dirs      []string     // workspaces of projects
	people    []Person     // people of the console, in order
	provider  *Provider    // provider at which further people log in to the console; may be nil
	auth      auth         // login of clients over HTTP, in addition to the tenants' own tokens
	upstreams upstreams    // upstream servers
	tests     []TestResult // results of the policy's tests; empty for a bundled policy
	bundled   string       // name of the bundled policy; empty for other policies
}

// TestResult is one test in a policy, and its result. Parse refuses a policy with a failed
// test, so all tests of a Policy have passed.
type TestResult struct {
	Source  Source
	Call    string  // the call in short, for example "Bash git push"
	Want    Verdict // verdict that the test expects
	Got     Verdict // verdict of the policy
	Rule    string  // the rule that decided
	Profile string  // profile that was granted; empty if no profile was granted
}

// File is one file of a stack.
type File struct{ Layer, Name string }

// Name returns the name that Parse got.
func (p *Policy) Name() string { return p.name }

// Hash returns the SHA-256 of the policy's text in hexadecimal digits, or of the hashes of
// its files if it has several. It is for logs, and for everything that must not outlive a
// change of the policy.
func (p *Policy) Hash() string { return p.hash }

// Profiles returns the names of the policy's profiles, in order.
func (p *Policy) Profiles() []string { return names(p.profiles) }

// Projects returns the workspaces that the policy has files for, in the order of the
// policy.
func (p *Policy) Projects() []string { return slices.Clone(p.dirs) }

// Asking returns how a person is asked, for questions that no decision has caused.
func (p *Policy) Asking() Asking { return p.asking.Asking }

// Names reports whether one of the policy's own rules contains the full name of one of the
// tools. A pattern, for example "{list,search}_templates", does not count.
func Names(p *Policy, tools ...string) bool { return p.namesTool(tools) }

// Files returns the files of the stack: the system's first, and then those of tenants and
// projects.
func (p *Policy) Files() []File {
	all := []File{{LayerSystem, p.name}}
	for _, l := range p.allLayers() {
		if f := (File{l.kind, l.Name()}); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// allLayers returns the layers of all tenants, and then those that apply to every tenant.
func (p *Policy) allLayers() []*Layer {
	var all []*Layer
	for _, name := range p.Tenants() {
		all = append(all, p.tenants[name].below...)
	}
	return append(all, p.layers...)
}

// With returns the policy with further layers below it, as a session has them. p stays as
// it is.
func (p *Policy) With(layers ...*Layer) *Policy {
	q := *p
	q.layers = slices.Concat(p.layers, layers)
	for _, l := range layers {
		q.hash = stackHash(q.hash, l)
	}
	return &q
}

// below does the same as With, but adds a layer of one tenant. If no tenant has the name,
// the layer applies to all tenants.
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

// layersOf returns the layers that apply to a tenant, the upper ones first.
func (p *Policy) layersOf(tenantName string) []*Layer {
	own := p.tenants[tenantName]
	if own == nil {
		return p.layers
	}
	return slices.Concat(own.below, p.layers)
}

// stackHash returns the hash of a stack with one more layer.
func stackHash(upper string, l *Layer) string {
	h := sha256.New()
	for _, s := range []string{upper, l.kind, l.Name(), l.rules.hash} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Profile describes a profile of the policy. It returns false if the policy has no profile
// of that name.
func (p *Policy) Profile(name string) (Profile, bool) {
	g, ok := p.profiles[name]
	return Profile{
		Name: g.profile, Workspace: g.access, System: g.system, Mounts: g.Mounts(), Network: g.network, Egress: g.Egress(), Publish: g.Publish(), Image: g.image,
		Storage: g.storage, Protect: g.Protect(), Limits: g.limits, Totals: p.totals,
		Env: names(g.env), Require: slices.Clone(g.require), Exec: g.exec, Reading: g.Reading(), Browser: g.browser.walls, Acting: g.Acting(),
	}, ok
}
