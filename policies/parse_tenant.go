package policies

import (
	"path"
	"regexp"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Bounds of tenants.
const (
	maxTenants     = 1000
	maxTenantRules = 16 // files of one tenant
	maxApprovers   = 64
	maxPlaces      = 64 // places of one tenant
)

// tenants reads the tenants whose calls are served.
func (d *policyDecoder) tenants(n *yaml.Node) {
	o, ok := d.mapping(n, "tenants", nil)
	switch {
	case !ok:
		return
	case len(n.Content) == 0:
		d.Fault(n, `name one, for example ci: {token: "${env:TOKEN_CI_SHA256}"}, or remove the key`, "tenants must not be empty")
	case len(o.keys) > maxTenants:
		d.Fault(n, "", "there are %d tenants, more than the %d that are read", len(o.keys), maxTenants)
		return
	}
	d.p.tenants = make(map[string]*tenant)
	for _, key := range o.keys {
		if !IsName(key.Value) {
			d.Fault(key, NameShape, "%q cannot be the name of a tenant", key.Value)
			continue
		}
		d.p.tenants[key.Value] = d.tenant(key, o.get(key.Value))
	}
	d.p.names = slices.Clip(names(d.p.tenants))
}

// tenant reads one entry of tenants.
func (d *policyDecoder) tenant(key, n *yaml.Node) *tenant {
	p := d.p
	t := &tenant{node: key, Tenant: Tenant{Name: key.Value, Profile: p.profile}}
	tenantLimits.usual(&t.Tenant)
	t.Totals = p.totals
	if !d.boxes {
		t.Totals.Boxes = min(t.Totals.Boxes, DefaultTenantBoxes)
	}
	o, ok := d.mapping(n, "tenant "+key.Value, tenantShape)
	if !ok {
		return t
	}
	if v := o.get("token"); v != nil {
		t.Token = d.token(v)
	}
	if v := o.get("profile"); v != nil {
		if s, ok := d.text(v, "profile"); ok {
			d.known(p.profiles, v, s)
			t.Profile = s
		}
	}
	t.MayRequest = d.list(o.get("may_request"), "may_request", maxProfiles, func(n *yaml.Node, s string) { d.known(p.profiles, n, s) })
	slices.Sort(t.MayRequest)
	t.MayRequest = slices.Compact(t.MayRequest)
	t.Approvers = d.list(o.get("approvers"), "approvers", maxApprovers, nil)
	d.list(o.get("rules"), "rules of a tenant", maxTenantRules, func(n *yaml.Node, _ string) { t.files = append(t.files, n) })
	if v := o.get("workspace"); v != nil {
		t.Workspace = d.directory(v, "workspace")
	}
	if v := o.get("places"); v != nil {
		t.Places = d.places(v)
	}
	if v := o.get("limit"); v != nil {
		if limits, ok := d.mapping(v, "limit of a tenant", tenantLimitShape); ok {
			tenantLimits.read(d.decoder, limits, &t.Tenant)
			d.keepPromises(limits, t.Totals, d.promises(append(slices.Clone(t.MayRequest), t.Profile)))
		}
	}
	return t
}

// places reads the further places of a tenant: their directories by name, or a list of names.
func (d *policyDecoder) places(n *yaml.Node) map[string]string {
	if n.Kind == yaml.SequenceNode {
		all := make(map[string]string, len(n.Content))
		d.list(n, "places", maxPlaces, func(n *yaml.Node, name string) {
			if !IsName(name) {
				d.Fault(n, NameShape, "%s cannot be the name of a place", shown(name))
				return
			}
			all[name] = ""
		})
		if len(n.Content) == 0 {
			d.Fault(n, "write places: [site], or remove the key", "places must name 1 to %d places", maxPlaces)
		}
		return all
	}
	o, ok := d.mapping(n, "places of a tenant", nil)
	if !ok {
		return nil
	}
	if len(o.keys) == 0 || len(o.keys) > maxPlaces {
		d.Fault(n, "write places: {site: /srv/site}, or remove the key", "places must name 1 to %d directories", maxPlaces)
		return nil
	}
	all := make(map[string]string, len(o.keys))
	for _, key := range o.keys {
		if !IsName(key.Value) {
			d.Fault(key, NameShape, "%s cannot be the name of a place", shown(key.Value))
			continue
		}
		all[key.Value] = d.directory(o.get(key.Value), "place "+key.Value)
	}
	return all
}

// directory reads the absolute path of a directory of the host.
func (d *policyDecoder) directory(n *yaml.Node, what string) string {
	s, ok := d.text(n, what)
	if !ok {
		return ""
	}
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || control(s) {
		d.Fault(n, "write the absolute path of a directory in its shortest form", "%s cannot be a workspace", shown(s))
		return ""
	}
	return s
}

const tokenPattern = `^\$\{(env|file):([^${}]+)\}$`

var tokenReference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(tokenPattern) })

// token reads where the digest of a bearer token is kept.
func (d *policyDecoder) token(n *yaml.Node) Secret {
	return d.reference(n, "token", `write "${env:TOKEN_SHA256}" or "${file:/etc/belljar/token}": a policy says where the SHA-256 of the token is kept, never what it is`)
}

// reference reads where a token or a secret is kept.
func (d *policyDecoder) reference(n *yaml.Node, what, hint string) Secret {
	s, ok := d.text(n, what)
	if !ok {
		return Secret{}
	}
	m := tokenReference().FindStringSubmatch(s)
	switch {
	case m == nil:
		d.Fault(n, hint, "the %s is not a reference", what) // the text of n may be a token, and is not repeated
	case m[1] == "env" && !variable().MatchString(m[2]):
		d.Fault(n, "name a variable of belljar's own environment, for example TOKEN_CI_SHA256", "%s is not a valid name of a variable", shown(m[2]))
	case m[1] == "env":
		return Secret{Env: m[2]}
	case !path.IsAbs(m[2]) || path.Clean(m[2]) != m[2] || m[2] == "/" || control(m[2]):
		d.Fault(n, "write an absolute path of the host in its shortest form", "file %s cannot hold a %s", shown(m[2]), what)
	default:
		return Secret{File: m[2]}
	}
	return Secret{}
}
