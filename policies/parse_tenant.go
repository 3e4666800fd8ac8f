package policies

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LocalTenant is the tenant of the calls of a person at this machine: the only
// tenant that a policy need not name.
const LocalTenant = "local"

// What a tenant may send where the policy does not say.
const (
	DefaultTenantRate     = 100.0 // calls in a second
	DefaultTenantBurst    = 1000  // calls at once before the rate counts
	DefaultTenantInFlight = 128   // calls that run at once
)

// Bounds of tenants.
const (
	maxTenants     = 1000
	maxTenantRules = 16 // files of one tenant
	maxApprovers   = 64
	maxBurst       = 1_000_000
	maxInFlight    = 100_000
)

// Tenant is what a policy says of one tenant.
type Tenant struct {
	Name string
	// Token says where the SHA-256 of the tenant's bearer token is kept, in
	// hexadecimal digits: a variable or a file. If it is zero, no token is
	// accepted.
	Token      Secret
	Profile    string   // for calls that ask for none
	MayRequest []string // further profiles that calls may ask for, in order
	// Approvers are the people who may answer the questions of the tenant's calls.
	// It is nil if the policy does not say who may, and empty if nobody may.
	Approvers []string
	Rate      float64 // calls in a second, after Burst
	Burst     int     // calls at once before the rate counts
	InFlight  int     // calls that run at once
}

// tenant is a Tenant with the layers that hold for it.
type tenant struct {
	Tenant

	node  *yaml.Node
	files []*yaml.Node // of its layers
	below []*Layer
}

// Tenants are the names of the policy's tenants, in order.
func (p *Policy) Tenants() []string { return names(p.tenants) }

// Tenant is what the policy says of a tenant; false says that it has none of
// that name.
func (p *Policy) Tenant(name string) (Tenant, bool) {
	t, ok := p.tenants[name]
	if !ok {
		return Tenant{}, false
	}
	own := t.Tenant
	own.MayRequest, own.Approvers = slices.Clone(t.MayRequest), slices.Clone(t.Approvers)
	return own, true
}

// serves reports whether calls may be made for a tenant. A policy that names
// tenants serves only these and the person at this machine.
func (p *Policy) serves(name string) bool {
	_, ok := p.tenants[name]
	return ok || len(p.tenants) == 0 || name == "" || name == LocalTenant
}

// asked returns the profile that a call is judged under, or the Decision that
// refuses the call.
func (p *Policy) asked(f Facts) (string, Decision) {
	no := Decision{Verdict: Deny, Source: Source{File: p.name}, Parts: 1, Layer: LayerSystem}
	if !p.serves(f.Tenant) {
		no.Rule = ruleTenant
		no.Reason = fmt.Sprintf("The policy has no tenant %s any more.", shown(f.Tenant))
		no.Instead = "Tell the person you work for that this client's tenant was removed from the policy."
		return "", no
	}
	own, standard := p.tenants[f.Tenant], p.profile
	if own != nil {
		standard = own.Profile
	}
	profile := f.Profile
	if profile == "" {
		profile = standard
	}
	switch {
	case own != nil && !own.may(profile):
		no.Rule, no.Source.Line, no.Source.Col = ruleRequest, own.node.Line, own.node.Column
		no.Reason = fmt.Sprintf("Calls of tenant %s may not ask for the profile \"%s\".", own.Name, Clip(profile, 64))
		no.Instead = own.offer()
	case p.profiles[profile].IsZero():
		no.Rule = ruleProfile
		no.Reason = fmt.Sprintf("Profile \"%s\" does not exist.", Clip(profile, 64))
		no.Instead = fmt.Sprintf("Repeat the call with one of the profiles %s, or without a profile for %s.", list(p.Profiles()), standard)
	default:
		return profile, Decision{}
	}
	return "", no
}

// may reports whether calls of the tenant may have a profile.
func (t *tenant) may(profile string) bool {
	return profile == t.Profile || slices.Contains(t.MayRequest, profile)
}

// offer says which profiles a tenant's calls may have.
func (t *tenant) offer() string {
	if len(t.MayRequest) == 0 {
		return fmt.Sprintf("Repeat the call without a profile; it then gets %s.", t.Profile)
	}
	return fmt.Sprintf("Repeat the call without a profile for %s, or with %s.", t.Profile, strings.Join(t.MayRequest, " or "))
}

// outside refuses a grant that the rules made from a profile the tenant may
// not have.
func (p *Policy) outside(d Decision, tenantName string) (Decision, bool) {
	own := p.tenants[tenantName]
	if own == nil || d.Verdict == Deny || own.may(d.offered().profile) {
		return d, false
	}
	return Decision{
		Verdict: Deny, Rule: ruleRequest, Source: Source{File: p.name, Line: own.node.Line, Col: own.node.Column},
		Parts: d.Parts, Layer: LayerSystem, Profile: d.Profile,
		Reason:  fmt.Sprintf("Rule %s allows this call in the profile \"%s\" only, which tenant %s may not have.", d.Rule, d.offered().profile, own.Name),
		Instead: own.offer(),
	}, true
}

// tenants reads whose calls are served.
func (d *decoder) tenants(n *yaml.Node, p *Policy) {
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
	p.tenants = make(map[string]*tenant)
	for _, key := range o.keys {
		if !profileName.MatchString(key.Value) {
			d.Fault(key, "use small letters, digits, dots, hyphens and underscores, 64 at most", "%q cannot be the name of a tenant", key.Value)
			continue
		}
		p.tenants[key.Value] = d.tenant(key, o.get(key.Value), p)
	}
}

func (d *decoder) tenant(key, n *yaml.Node, p *Policy) *tenant {
	t := &tenant{node: key, Tenant: Tenant{
		Name: key.Value, Profile: p.profile,
		Rate: DefaultTenantRate, Burst: DefaultTenantBurst, InFlight: DefaultTenantInFlight,
	}}
	o, ok := d.mapping(n, "tenant "+key.Value, tenantShape)
	if !ok {
		return t
	}
	if v := o.get("token"); v != nil {
		t.Token = d.token(v)
	}
	if v := o.get("profile"); v != nil {
		if s, ok := d.text(v, "profile"); ok {
			d.known(p, v, s)
			t.Profile = s
		}
	}
	t.MayRequest = d.list(o.get("may_request"), "may_request", maxProfiles, func(n *yaml.Node, s string) { d.known(p, n, s) })
	slices.Sort(t.MayRequest)
	t.MayRequest = slices.Compact(t.MayRequest)
	t.Approvers = d.list(o.get("approvers"), "approvers", maxApprovers, nil)
	d.list(o.get("rules"), "rules of a tenant", maxTenantRules, func(n *yaml.Node, _ string) { t.files = append(t.files, n) })
	if v := o.get("limit"); v != nil {
		d.tenantLimit(v, &t.Tenant)
	}
	return t
}

// list reads a list of texts that may be empty; it is nil where n is.
func (d *decoder) list(n *yaml.Node, what string, most int, use func(*yaml.Node, string)) []string {
	if n == nil {
		return nil
	}
	all := []string{}
	for _, entry := range d.items(n, what, most) {
		s, ok := d.text(entry, "an entry of "+what)
		if !ok {
			continue
		}
		if use != nil {
			use(entry, s)
		}
		all = append(all, s)
	}
	return all
}

var tokenReference = regexp.MustCompile(`^\$\{(env|file):([^${}]+)\}$`)

// token reads where the digest of a bearer token is kept.
func (d *decoder) token(n *yaml.Node) Secret {
	s, ok := d.text(n, "token")
	if !ok {
		return Secret{}
	}
	const hint = `write "${env:TOKEN_SHA256}" or "${file:/etc/belljar/token}": a policy says where the SHA-256 of the token is kept, never what it is`
	m := tokenReference.FindStringSubmatch(s)
	switch {
	case m == nil:
		d.Fault(n, hint, "the token is not a reference") // whose text may be a token, and is not repeated
	case m[1] == "env" && !variable.MatchString(m[2]):
		d.Fault(n, "name a variable of belljar's own environment, for example TOKEN_CI_SHA256", "%s is not a valid name of a variable", shown(m[2]))
	case m[1] == "env":
		return Secret{Env: m[2]}
	case !path.IsAbs(m[2]) || path.Clean(m[2]) != m[2] || m[2] == "/" || control(m[2]):
		d.Fault(n, "write an absolute path of the host in its shortest form", "file %s cannot hold a token", shown(m[2]))
	default:
		return Secret{File: m[2]}
	}
	return Secret{}
}

// tenantLimit reads how much a tenant may send.
func (d *decoder) tenantLimit(n *yaml.Node, t *Tenant) {
	o, ok := d.mapping(n, "limit of a tenant", tenantLimitShape)
	if !ok {
		return
	}
	if v := o.get("calls"); v != nil {
		if calls, per, ok := d.rate(v, "calls"); ok {
			t.Rate = float64(calls) / per.Seconds()
		}
	}
	if v := o.get("burst"); v != nil {
		if value, ok := d.count(v, "burst", maxBurst, false); ok {
			t.Burst = int(value)
		}
	}
	if v := o.get("in_flight"); v != nil {
		if value, ok := d.count(v, "in_flight", maxInFlight, false); ok {
			t.InFlight = int(value)
		}
	}
}
