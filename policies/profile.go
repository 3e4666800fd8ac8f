package policies

import "slices"

// Profile describes a profile of a policy. Unlike a Grant, it allows nothing.
type Profile struct {
	Name      string
	Workspace Access
	System    bool
	Mounts    []Mount
	Network   Network
	Egress    *Egress // never nil; must not be changed
	Publish   []PortRange
	Image     string // empty for a root of its own
	Storage   Storage
	Protect   Protect
	Limits    Limits
	Totals    Totals
	Env       []string // names of the variables, in order
	Require   []Limit
	Exec      ExecMode
	Reading   Reading
	Browser   Browser
}

// Profile describes a profile of the policy; false says that the policy has no
// profile of that name.
func (p *Policy) Profile(name string) (Profile, bool) {
	g, ok := p.profiles[name]
	return Profile{
		Name: g.profile, Workspace: g.access, System: g.system, Mounts: g.Mounts(), Network: g.network, Egress: g.Egress(), Publish: g.Publish(), Image: g.image,
		Storage: g.storage, Protect: g.Protect(), Limits: g.limits, Totals: p.totals,
		Env: names(g.env), Require: slices.Clone(g.require), Exec: g.exec, Reading: g.Reading(), Browser: g.browser,
	}, ok
}
