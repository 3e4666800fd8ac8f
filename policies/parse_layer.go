package policies

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParseLayer reads a layer that is in force below a policy; its rules may name the profiles
// of the policy. It is for a layer that a program makes by itself, for example for a
// session. It returns a *ParseError with all faults, or the Layer.
func ParseLayer(kind, name string, text []byte, upper *Policy) (*Layer, error) {
	d := &layerDecoder{decoder: newDecoder(name, text), upper: upper}
	l := d.layer(kind, text)
	if len(d.Faults) > 0 {
		return nil, newParseError(d.Faults)
	}
	return l, nil
}

// layerDecoder reads a layer.
type layerDecoder struct {
	*decoder

	upper  *Policy // policy above the layer
	tenant string  // tenant to which the layer applies; empty for all tenants
}

// layer reads the text of a layer. Its tests are run on upper with the layer
// below it, with calls that the tenant makes.
func (d *layerDecoder) layer(kind string, text []byte) *Layer {
	// A layer that says nothing does not object.
	l := &Layer{kind: kind, rules: newRuleset(d.File, text, Allow, Allow, d.upper.asking)}
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
		(&ruleDecoder{decoder: d.decoder, to: &l.rules, profiles: d.upper.profiles}).rules(v)
	}
	for _, r := range l.rules.rules {
		if r.node != nil {
			d.Fault(r.node, "remove it, or write it into the system's policy", "a layer grants no profile: it can only narrow")
		}
	}
	if v := o.get("tests"); v != nil {
		(&testDecoder{decoder: d.decoder, p: d.upper.below(d.tenant, l), tenant: d.tenant}).tests(v)
	}
	return l
}

// powerless refuses the keys of a policy that a layer cannot have.
func (d *layerDecoder) powerless(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; key.Value {
		case "profiles", "secrets", "totals", "audit", "tenants", "projects", "upstreams", "console":
			d.Fault(key, "remove it, or write it into the system's policy; a layer has the keys "+strings.Join(layerShape.names(), ", "),
				"a layer cannot have %s: it can only narrow", key.Value)
		}
	}
}

// clip reads what a layer takes away from grants.
func (d *layerDecoder) clip(n *yaml.Node) clip {
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
