package policies

import "go.yaml.in/yaml/v3"

// Parse reads a policy. Faults and decisions give name as the file that the policy came
// from. Parse runs the tests in the policy: a failed test is a fault. It returns a
// *ParseError with all faults, or the Policy. A policy that names further files must be
// read by Load.
func Parse(name string, text []byte) (*Policy, error) {
	return Load(name, text, Files{})
}

// Files says how Load reads the files that a policy names.
type Files struct {
	// Read returns the text of a file, at most MaxText+1 bytes of it. name is the
	// name in the policy: relative to the directory of the policy, or absolute.
	// If Read is nil, a policy that names files has a fault.
	Read func(name string) ([]byte, error)
	// Workspace is the directory whose projects are in force; it may be empty. It is
	// absolute and without symbolic links.
	Workspace string
	// Real returns a directory without symbolic links. If Real is nil, symbolic links stay.
	Real func(dir string) string
}

// Load reads a policy with all the files that it names. A fault in any of these files is a
// fault of the whole policy.
func Load(name string, text []byte, files Files) (*Policy, error) {
	return load(name, text, files, (*decoder).root)
}

// load does the work of Load; root returns the top node of the text.
func load(name string, text []byte, files Files, root func(d *decoder, text []byte) *yaml.Node) (*Policy, error) {
	p := &Policy{
		ruleset:   newRuleset(name, text, Deny, Ask, defaultAsking()),
		questions: questions{channel: ChannelElicit},
		profiles:  make(map[string]profileGrant),
		upstreams: usualUpstreams(),
	}
	d := &policyDecoder{decoder: newDecoder(name, text), p: p, files: files}
	if top := root(d.decoder, text); top != nil {
		d.policy(top)
	}
	if len(d.Faults) > 0 {
		e := newParseError(d.Faults)
		e.Files = d.read
		return nil, e
	}
	return p, nil
}

// policyDecoder reads a policy except its profiles, its rules and its tests.
type policyDecoder struct {
	*decoder

	p     *Policy  // the part of the policy that has been read
	files Files    // how further files are read
	read  []string // further files that were read, or could not be
	heir  heir     // reads profiles
	boxes bool     // the totals say how many boxes a tenant has
}

// policy reads the top mapping.
func (d *policyDecoder) policy(root *yaml.Node) {
	p := d.p
	o, ok := d.mapping(root, "a policy", policyShape)
	if !ok {
		return
	}
	d.version(root, o)
	if v := o.get("secrets"); v != nil {
		p.secrets = d.secrets(v) // before the profiles, which name them
	}
	d.heir = heir{d: &profileDecoder{decoder: d.decoder, secrets: p.secrets}, whole: make(map[string]*yaml.Node), depth: make(map[string]int)}
	if v := o.get("profiles"); v == nil {
		d.Fault(root, "an allowed call needs one: profiles: {offline: {fs: {system: true, workspace: rw}}}", "the policy has no profiles")
	} else {
		d.profiles(v)
	}
	d.defaults(o.get("defaults"), o)
	if v := o.get("ask"); v != nil {
		p.questions = questions{d.channelOf(v), d.source(v)}
	}
	p.totals = d.totals(o.get("totals"))
	if v := o.get("audit"); v != nil {
		p.audit, p.audited = d.audit(v), true
		p.logged = p.audit.Level
	}
	if v := o.get("rules"); v != nil {
		(&ruleDecoder{decoder: d.decoder, to: &p.ruleset, profiles: p.profiles}).rules(v)
	}
	if v := o.get("tenants"); v != nil {
		d.tenants(v)
	}
	if v := o.get("console"); v != nil {
		d.console(v)
	}
	if v := o.get("upstreams"); v != nil {
		(&upstreamDecoder{d.decoder, p, &d.heir}).upstreams(v)
	}
	if v := o.get("auth"); v != nil {
		(&authDecoder{d.decoder, p}).auth(v)
	}
	var projects []project
	if v := o.get("projects"); v != nil {
		projects = d.projects(v)
		for _, one := range projects {
			p.dirs = append(p.dirs, one.dir)
		}
	}
	if v := o.get("tests"); d.tenantFiles() && v != nil {
		// before the projects' files, which other people may have written
		p.tests = (&testDecoder{decoder: d.decoder, p: p}).tests(v)
	}
	if len(d.Faults) == 0 {
		d.projectFiles(projects)
	}
}

// defaults reads what applies if neither a call nor a rule says more.
func (d *policyDecoder) defaults(n *yaml.Node, top object) {
	p := d.p
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
			d.known(p.profiles, v, s)
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

// profiles reads the profiles of boxes.
func (d *policyDecoder) profiles(n *yaml.Node) {
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
	d.heir.o = o
	for _, key := range o.keys {
		if !IsName(key.Value) {
			d.Fault(key, NameShape, "%q cannot be the name of a profile", key.Value)
			continue
		}
		d.p.profiles[key.Value] = d.heir.profile(key.Value)
	}
}
