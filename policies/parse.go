package policies

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Policy is a parsed policy. It never changes; all its methods are safe for
// concurrent use.
type Policy struct {
	name     string
	hash     string
	fallback Verdict // where no rule matches a part
	// unparsable is the most for a script that cannot be read, where no rule matches it.
	unparsable Verdict
	source     Source // of fallback
	asking     asking
	channel    Channel
	asksAt     Source // of channel
	profile    string // granted where a call asks for none
	profiles   map[string]Grant
	secrets    map[string]Secret
	totals     Totals
	audit      Audit
	audited    bool // the policy has an audit block
	rules      []rule
	index      *index // of the rules; nil if they are few
	shadows    bool   // some of the rules are not enforced
	tenants    map[string]*tenant
	layers     []*Layer // that hold for every tenant, the upper ones first
	dirs       []string // workspaces of projects
	tests      []TestResult
}

// Parse reads a policy. Faults and decisions give the name as the file that it
// came from. Parse runs the tests that the policy carries: a failed test is a
// fault. It returns a *ParseError with all faults, or the Policy. A policy that
// names further files has to be read by Load.
func Parse(name string, text []byte) (*Policy, error) {
	return Load(name, text, Files{})
}

// policy reads the top mapping into p.
func (d *decoder) policy(root *yaml.Node, p *Policy) {
	o, ok := d.mapping(root, "a policy", policyShape)
	if !ok {
		return
	}
	d.version(root, o)
	if v := o.get("secrets"); v != nil {
		p.secrets = d.secrets(v) // before the profiles, which name them
	}
	if v := o.get("profiles"); v == nil {
		d.Fault(root, "an allowed call needs one: profiles: {offline: {fs: {system: true, workspace: rw}}}", "the policy has no profiles")
	} else {
		d.profiles(v, p)
	}
	d.defaults(o.get("defaults"), o, p)
	if v := o.get("ask"); v != nil {
		p.channel, p.asksAt = d.channelOf(v), d.source(v)
	}
	p.totals = d.totals(o.get("totals"), p.profiles)
	if v := o.get("audit"); v != nil {
		p.audit, p.audited = d.audit(v), true
	}
	if v := o.get("rules"); v != nil {
		d.rules(v, p)
	}
	if v := o.get("tenants"); v != nil {
		d.tenants(v, p)
	}
	var projects []project
	if v := o.get("projects"); v != nil {
		projects = d.projects(v)
		for _, one := range projects {
			p.dirs = append(p.dirs, one.dir)
		}
	}
	if v := o.get("tests"); d.tenantFiles(p) && v != nil {
		p.tests = d.tests(v, p, "") // before the projects' files, which may be other people's
	}
	if len(d.Faults) == 0 {
		d.projectFiles(projects, p)
	}
}

// version checks the version of a policy or a layer.
func (d *decoder) version(root *yaml.Node, o object) {
	switch v := o.get("version"); {
	case v == nil:
		d.Fault(root, "begin the file with version: 1", "the policy has no version")
	case v.Kind != yaml.ScalarNode || v.Value != "1" || v.ShortTag() != "!!int":
		d.Fault(v, "write version: 1", "version must be 1, not %s", quoted(v))
	}
}

var profileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (d *decoder) profiles(n *yaml.Node, p *Policy) {
	o, ok := d.mapping(n, "profiles", nil)
	switch {
	case !ok:
		return
	case len(n.Content) == 0:
		d.Fault(n, "name at least one", "profiles must not be empty")
	case len(o.keys) > maxProfiles:
		d.Fault(n, "", "there are %d profiles, more than the %d that are read", len(o.keys), maxProfiles)
		return
	}
	h := heir{d: d, o: o, whole: make(map[string]*yaml.Node), depth: make(map[string]int)}
	for _, key := range o.keys {
		if !profileName.MatchString(key.Value) {
			d.Fault(key, "use small letters, digits, dots, hyphens and underscores, 64 at most", "%q cannot be the name of a profile", key.Value)
			continue
		}
		p.profiles[key.Value] = h.profile(key.Value, p.secrets)
	}
}

func (d *decoder) defaults(n *yaml.Node, top object, p *Policy) {
	var o object
	if n != nil {
		var ok bool
		if o, ok = d.mapping(n, "defaults", defaultsShape); !ok {
			return
		}
	}
	if v := o.get("decision"); v != nil {
		p.fallback, p.source = d.verdict(v, "decision"), d.source(v)
	}
	if v := o.get("unparsable"); v != nil {
		p.unparsable = max(Verdict(d.word(v, "unparsable", Deny.String(), Ask.String())), Deny)
	}
	if v := o.get("no_approver"); v != nil {
		d.word(v, "no_approver", Deny.String())
	}
	if v := o.get("ask"); v != nil {
		p.asking = d.ask(v)
	}
	switch v := o.get("profile"); {
	case v != nil:
		if s, ok := d.text(v, "profile"); ok {
			d.known(p, v, s)
			p.profile = s
		}
	case len(p.profiles) == 1:
		p.profile = names(p.profiles)[0]
	case len(p.profiles) > 1:
		at := n
		if at == nil {
			at = top.node
		}
		d.Fault(at, "write defaults: {profile: NAME}", "there are %d profiles and defaults names none of them", len(p.profiles))
	}
}

// known notes a fault where no profile has the name.
func (d *decoder) known(p *Policy, n *yaml.Node, name string) {
	if _, ok := p.profiles[name]; !ok {
		d.Fault(n, suggest(name, names(p.profiles)), "profile %q does not exist", name)
	}
}

func (d *decoder) rules(n *yaml.Node, p *Policy) {
	first := make(map[string]Source)
	for _, entry := range d.items(n, "rules", maxRules) {
		r, ok := d.rule(entry, p)
		if !ok {
			continue
		}
		if before, twice := first[r.id]; twice && r.id != "" {
			d.Fault(entry, "give each rule its own", "the id %s is taken by the rule on line %d", r.id, before.Line)
		} else {
			first[r.id] = r.source
		}
		for _, name := range slices.Concat(r.match.profiles, r.unless.profiles) {
			d.known(p, name.node, name.name)
		}
		if r.node != nil {
			d.known(p, r.node, r.profile)
		}
		p.rules = append(p.rules, r)
		p.shadows = p.shadows || r.mode != ModeEnforce
	}
	p.index = newIndex(p.rules)
}

// Profiles are the names of the policy's profiles, in order.
func (p *Policy) Profiles() []string { return names(p.profiles) }

// Name is the name that Parse was given.
func (p *Policy) Name() string { return p.name }

// Hash is the SHA-256 of the policy's text in hexadecimal digits, or of the
// hashes of its files where it has several, for logs and for whatever must not
// outlive a change of the policy.
func (p *Policy) Hash() string { return p.hash }

// Hidden reports whether no call of a tool can be allowed or asked about,
// whatever its arguments: a list of tools leaves it out. It looks at the tool's
// name only, so a tool that is denied under every profile may still be listed.
func (p *Policy) Hidden(tool string) bool {
	open := p.fallback != Deny
	for _, r := range p.rules {
		if r.mode != ModeEnforce || !r.match.onTool(tool) {
			continue
		}
		if r.verdict == Deny && !r.match.narrow() && r.when == nil && r.unless.isZero() {
			return true
		}
		open = open || r.verdict != Deny
	}
	return !open
}

// onTool reports whether the match speaks about the tool.
func (m *match) onTool(tool string) bool {
	return len(m.tools) == 0 || slices.ContainsFunc(m.tools, func(e element) bool { return e.match(tool) })
}

// list joins names for a message.
func list(names []string) string { return strings.Join(names, ", ") }
