package policies

// A policy is a stack of files. The first one is the system's: it alone has profiles and so
// grants, names the tenants, and says which further files are read. The further files are
// layers. Each call gets the strictest verdict of all files, and each layer clips the grant
// of the system's file.

// The layers of a policy, beginning with the one that grants. Each layer below the first
// can only narrow: a call gets the strictest verdict of all layers.
const (
	LayerSystem  = "system"  // the policy file itself, the only one that grants
	LayerTenant  = "tenant"  // the rules of one tenant
	LayerProject = "project" // the rules of one workspace
	LayerSession = "session" // the rules of one session, for example while it plans
)

// Layer is one file of rules below the system's. It has no profiles, secrets, tenants or
// audit: it can only be stricter. If its rules allow a call, or say nothing about it, the
// layer does not object. A Layer never changes; its methods are safe for concurrent use.
type Layer struct {
	kind  string
	rules ruleset
	clip  clip
}

// clip is what a layer takes away from grants. The zero value takes nothing.
type clip struct {
	readOnly bool   // nothing of the host can be written
	offline  bool   // nothing may leave the box, and none of its ports may be published
	limits   Limits // upper bounds of the limits; zero leaves a limit as granted
}

// ReadOnly returns a session's layer under which nothing of the host can be written and
// nothing leaves a box.
func ReadOnly(name string) *Layer {
	return &Layer{
		kind: LayerSession, clip: clip{readOnly: true, offline: true},
		rules: newRuleset(name, []byte(name), Allow, Allow, asking{}),
	}
}

// Kind returns the kind of the layer: LayerTenant, LayerProject or LayerSession.
func (l *Layer) Kind() string { return l.kind }

// Name returns the name that ParseLayer got.
func (l *Layer) Name() string { return l.rules.name }

func (c clip) and(o clip) clip {
	return clip{readOnly: c.readOnly || o.readOnly, offline: c.offline || o.offline, limits: c.limits.least(o.limits)}
}
