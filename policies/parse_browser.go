package policies

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFieldSecrets bounds the secrets that may be typed for one profile.
const maxFieldSecrets = 64

// browserWords are the values of walls, in the order of Browser.
var browserWords = []string{BrowserOff.String(), BrowserSandboxed.String(), BrowserDegraded.String()}

// browser reads what a profile says about browsers: one word, or a mapping.
func (d *profileDecoder) browser(n *yaml.Node) browsing {
	var b browsing
	if n.Kind == yaml.ScalarNode {
		b.walls = d.walls(n, "browser")
		return b
	}
	o, ok := d.mapping(n, "browser", browserShape)
	if !ok {
		return b
	}
	if v := o.get("walls"); v != nil {
		b.walls = d.walls(v, "walls")
	} else {
		d.Fault(n, "write walls: sandboxed", "browser has no walls")
	}
	if v := o.get("act"); v != nil {
		b.acting.Act = d.truth(v, "act")
	}
	if !b.acting.Act {
		for _, k := range o.keys {
			if k.Value != "walls" && k.Value != "act" {
				d.Fault(k, "write act: true, or remove the key", "browser does not act, so %s has no meaning", k.Value)
			}
		}
		return b
	}
	if b.walls == BrowserOff && o.get("walls") != nil {
		d.Fault(o.get("act"), "write walls: sandboxed", "walls is off, so no browser can act")
	}
	b.acting.Eval = EvalRead
	// An unknown word leaves a fault and counts as the strictest one.
	if v := o.get("eval"); v != nil {
		b.acting.Eval = Eval(max(d.word(v, "eval", evals...), 0))
	}
	if v := o.get("open"); v != nil {
		b.acting.Open = Open(max(d.word(v, "open", opens...), 0))
	}
	if v := o.get("sites"); v != nil {
		b.acting.Sites = Sites(max(d.word(v, "sites", sites...), 0))
	}
	actLimits.usual(&b.acting.Limits)
	actLimits.read(d.decoder, o, &b.acting.Limits)
	if v := o.get("secrets"); v != nil {
		b.acting.Secrets = d.fieldSecrets(v)
	}
	return b
}

// walls reads one word. An unknown word leaves a fault and counts as off.
func (d *profileDecoder) walls(n *yaml.Node, what string) Browser {
	return Browser(max(d.word(n, what, browserWords...), 0))
}

// fieldSecrets reads the secrets that may be typed into fields.
func (d *profileDecoder) fieldSecrets(n *yaml.Node) []FieldSecret {
	entries := d.items(n, "secrets of browser", maxFieldSecrets)
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.Fault(n, "name at least one, or remove the key", "secrets of browser must not be empty")
	}
	var all []FieldSecret
	for _, entry := range entries {
		before := len(d.Faults)
		s := d.fieldSecret(entry)
		switch {
		case len(d.Faults) > before:
		case slices.ContainsFunc(all, func(o FieldSecret) bool { return o.Secret == s.Secret && o.Origin == s.Origin && o.Field == s.Field }):
			d.Fault(entry, "remove one", "another entry has the same secret for the same fields")
		default:
			all = append(all, s)
		}
	}
	return all
}

// fieldSecret reads one secret that may be typed into fields.
func (d *profileDecoder) fieldSecret(n *yaml.Node) FieldSecret {
	var s FieldSecret
	o, ok := d.mapping(n, "a secret of browser", fieldSecretShape)
	if !ok {
		return s
	}
	for _, key := range []string{"secret", "origin", "field"} {
		if o.get(key) == nil {
			d.Fault(n, `write {secret: shop, origin: "https://shop.example", field: password}`, "the secret of browser has no %s", key)
		}
	}
	if v := o.get("secret"); v != nil {
		s.Secret, _ = d.text(v, "secret")
		d.definedSecret(v, d.secrets, s.Secret)
	}
	if v := o.get("origin"); v != nil {
		if text, ok := d.text(v, "origin"); ok {
			s.Origin = d.origin(v, text)
		}
	}
	if v := o.get("field"); v != nil {
		if i := d.word(v, "field", secretFields...); i >= 0 {
			s.Field = secretFields[i]
		}
	}
	if v := o.get("embedded"); v != nil {
		s.Embedded = d.truth(v, "embedded")
	}
	return s
}

// origin reads a scheme, a host and a port. Without TLS the host must be one for which
// onThisMachine is true: a value that is typed into another host's page could be read on
// its way.
func (d *profileDecoder) origin(n *yaml.Node, s string) string {
	u, err := ParseURL(s)
	const hint = `write the scheme and the host, and a port if it is not the scheme's own: "https://shop.example"`
	switch {
	case err != nil:
		d.Fault(n, hint, "origin %s: %v", shown(s), err)
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(s, "?#"):
		d.Fault(n, hint, "origin %s has more than a scheme, a host and a port", shown(s))
	case u.Scheme != "https" && (u.Scheme != "http" || !onThisMachine(u.Hostname())):
		d.Fault(n, "write https; http may only be that of localhost or a name below .localhost or .internal", "origin %s has no TLS", shown(s))
	case u.Port() != "" && u.Port() == ownPort(u.Scheme):
		d.Fault(n, fmt.Sprintf("write %q", u.Scheme+"://"+strings.TrimSuffix(u.Host, ":"+u.Port())), "origin %s has the port that its scheme has without it", shown(s))
	default:
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// onThisMachine reports whether a host is never one of the public network, so that its
// operator is responsible for the path to it.
func onThisMachine(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal")
}
