package policies

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
	rules Policy // only its rules and its default are used
	clip  clip
}

// clip is what a layer takes away from grants. The zero value takes nothing.
type clip struct {
	readOnly bool   // nothing of the host can be written
	offline  bool   // nothing may leave the box, and none of its ports be published
	limits   Limits // the most of each; zero for as granted
}

// ParseLayer reads a layer that holds below a policy; its rules may name the
// profiles of the policy. It is for a layer that a program makes by itself, for
// example for a session. It returns a *ParseError with all faults, or the Layer.
func ParseLayer(kind, name string, text []byte, upper *Policy) (*Layer, error) {
	d := newDecoder(name, text)
	l := d.layer(kind, text, upper, "")
	if len(d.Faults) > 0 {
		return nil, newParseError(d.Faults)
	}
	return l, nil
}

// ReadOnly is a session's layer under which nothing of the host can be
// written and nothing leaves a box.
func ReadOnly(name string) *Layer {
	return &Layer{
		kind: LayerSession, clip: clip{readOnly: true, offline: true},
		rules: Policy{name: name, hash: textHash([]byte(name)), source: Source{File: name}, fallback: Allow, unparsable: Allow},
	}
}

// Kind is which of the layers it is: LayerTenant, LayerProject or LayerSession.
func (l *Layer) Kind() string { return l.kind }

// Name is the name that ParseLayer was given.
func (l *Layer) Name() string { return l.rules.name }

// Hidden reports whether the layer lets no call of a tool be allowed or asked
// about. A nil layer hides none.
func (l *Layer) Hidden(tool string) bool { return l != nil && l.rules.Hidden(tool) }

// Narrow returns the decision about a call under the layer: the same decision or
// a stricter one. Its grant never allows more than before.
func (l *Layer) Narrow(d Decision, f Facts) Decision {
	d = l.narrow(d, f, pieces(f))
	d.offer(d.offered().judgedUnder(l))
	return d
}

// narrow is Narrow for a call that has been taken apart.
//
// The code shows that narrow only narrows. It returns the decision of the layers
// above, in which only the grant may be clipped, or a stricter decision of this
// layer, which grants nothing: if it asks, a yes gives no more than the layers
// above would have given.
func (l *Layer) narrow(d Decision, f Facts, pieces []piece) Decision {
	profiles := []string{d.Profile}
	if granted := d.offered().profile; granted != "" && granted != d.Profile {
		profiles = append(profiles, granted) // what holds in either holds for the call
	}
	kept := d.Audit
	for _, profile := range profiles {
		own, _ := l.rules.judge(f, profile, pieces)
		kept = kept.below(own.Audit)
		if own.Verdict < d.Verdict {
			own.Layer, own.Profile, own.Policy, own.Grant, own.pending = l.kind, d.Profile, d.Policy, Grant{}, Grant{}
			own.offer(d.offered())
			d, own = own, d
		}
		d.bindAll(own)
	}
	d.Audit = kept
	d.offer(d.offered().clipped(l.clip))
	return d
}

// bindAll adds what binds the call by another layer: every limit holds, all is
// taken out that one of them names, and an approval lasts no longer than each
// that asks lets it.
func (d *Decision) bindAll(other Decision) {
	if d.Verdict == Ask && other.Verdict == Ask {
		d.Remember = d.Remember.narrow(other.Remember)
	}
	for _, s := range other.Shadow {
		if len(d.Shadow) < maxShadows && !slices.Contains(d.Shadow, s) {
			d.Shadow = append(slices.Clip(d.Shadow), s)
		}
	}
	if d.Verdict == Deny {
		return
	}
	for _, l := range other.Limits {
		if !slices.Contains(d.Limits, l) {
			d.Limits = append(slices.Clip(d.Limits), l)
		}
	}
	for _, s := range other.Redact {
		if !slices.Contains(d.Redact, s) {
			d.Redact = append(slices.Clip(d.Redact), s)
		}
	}
	for _, s := range other.Warnings {
		if len(d.Warnings) < maxWarnings && !slices.Contains(d.Warnings, s) {
			d.Warnings = append(slices.Clip(d.Warnings), s)
		}
	}
}

// clipped returns the grant without what a layer takes away. The grant remembers
// the clip, so that a policy that is read later cannot give it back to a box that
// is open (Policy.Regrant).
func (g Grant) clipped(c clip) Grant {
	if g.IsZero() {
		return g
	}
	g.clip = g.clip.and(c)
	if c.readOnly {
		g.access = min(g.access, AccessRead)
		g.mounts = slices.Clone(g.mounts)
		for i := range g.mounts {
			g.mounts[i].Writable = false
		}
	}
	if c.offline {
		g.network, g.egress, g.publish = NetworkNone, nil, nil
	}
	g.limits = g.limits.least(c.limits)
	return g
}

// ReadOnly reports whether a layer has taken from the grant that anything of the
// host can be written.
func (g Grant) ReadOnly() bool { return g.clip.readOnly }

func (c clip) and(o clip) clip {
	return clip{readOnly: c.readOnly || o.readOnly, offline: c.offline || o.offline, limits: c.limits.least(o.limits)}
}

// layer reads the text of a layer. Its tests are run on upper with the layer
// below it, with calls that a tenant makes.
func (d *decoder) layer(kind string, text []byte, upper *Policy, tenantName string) *Layer {
	l := &Layer{kind: kind, rules: Policy{
		name: d.File, hash: textHash(text), source: Source{File: d.File},
		fallback: Allow, unparsable: Allow, // a layer that says nothing does not object
		profile: upper.profile, profiles: upper.profiles, asking: upper.asking,
	}}
	root := d.root(text)
	if root == nil {
		return l
	}
	d.powerless(root)
	if len(d.Faults) > 0 {
		return l
	}
	o, ok := d.mapping(root, "a layer", layerShape)
	if !ok {
		return l
	}
	d.version(root, o)
	if v := o.get("defaults"); v != nil {
		if defaults, ok := d.mapping(v, "defaults of a layer", layerDefaultsShape); ok {
			if v := defaults.get("decision"); v != nil {
				l.rules.fallback, l.rules.source = d.verdict(v, "decision"), d.source(v)
				l.rules.unparsable = l.rules.fallback
			}
		}
	}
	if v := o.get("narrow"); v != nil {
		l.clip = d.clip(v)
	}
	if v := o.get("rules"); v != nil {
		d.rules(v, &l.rules)
	}
	for _, r := range l.rules.rules {
		if r.node != nil {
			d.Fault(r.node, "remove it, or write it into the system's policy", "a layer grants no profile: it can only narrow")
		}
	}
	if v := o.get("tests"); v != nil {
		d.tests(v, upper.below(tenantName, l), tenantName)
	}
	return l
}

// powerless refuses the keys of a policy that a layer cannot have.
func (d *decoder) powerless(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; key.Value {
		case "profiles", "secrets", "totals", "audit", "tenants", "projects":
			d.Fault(key, "remove it, or write it into the system's policy; a layer has the keys "+strings.Join(layerShape.names(), ", "),
				"a layer cannot have %s: it can only narrow", key.Value)
		}
	}
}

// clip reads what a layer takes away from grants.
func (d *decoder) clip(n *yaml.Node) clip {
	var c clip
	o, ok := d.mapping(n, "narrow", narrowShape)
	if !ok {
		return c
	}
	if v := o.get("read_only"); v != nil {
		c.readOnly = d.truth(v, "read_only")
	}
	if v := o.get("offline"); v != nil {
		c.offline = d.truth(v, "offline")
	}
	if v := o.get("limits"); v != nil {
		d.limits(v, &c.limits)
	}
	return c
}
