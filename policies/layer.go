package policies

// A policy is a stack of files. The first is the system's: it alone has
// profiles and so grants, names the tenants, and says which further files are
// read. Those are layers. Each call gets the strictest verdict of all files, and
// each layer clips what the system's file granted.

// The layers of a policy, from the one that grants down. Each below the first
// can only narrow: a call gets the strictest verdict of them all.
const (
	LayerSystem  = "system"  // the policy file itself, the only one that grants
	LayerTenant  = "tenant"  // the rules of one tenant
	LayerProject = "project" // the rules of one workspace
	LayerSession = "session" // what holds for one session, for example while it plans
)

// Layer is one file of rules below the system's. It has no profiles, secrets,
// tenants or audit to give: all it can do is to be stricter. Where its rules
// say allow, or nothing, it does not object. It never changes; its methods are
// safe for concurrent use.
type Layer struct {
	kind  string
	rules ruleset
	clip  clip
}

// clip is what a layer takes away from grants. The zero value takes nothing.
type clip struct {
	readOnly bool   // nothing of the host can be written
	offline  bool   // nothing may leave the box, and none of its ports be published
	limits   Limits // the most of each; zero for as granted
}

// ReadOnly is a session's layer under which nothing of the host can be
// written and nothing leaves a box.
func ReadOnly(name string) *Layer {
	return &Layer{
		kind: LayerSession, clip: clip{readOnly: true, offline: true},
		rules: newRuleset(name, []byte(name), Allow, Allow, asking{}),
	}
}

// Kind is which of the layers it is: LayerTenant, LayerProject or LayerSession.
func (l *Layer) Kind() string { return l.kind }

// Name is the name that ParseLayer was given.
func (l *Layer) Name() string { return l.rules.name }

func (c clip) and(o clip) clip {
	return clip{readOnly: c.readOnly || o.readOnly, offline: c.offline || o.offline, limits: c.limits.least(o.limits)}
}
