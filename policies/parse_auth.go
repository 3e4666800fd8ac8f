package policies

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/cond"
)

// Bounds of auth.
const (
	maxIssuers     = 16
	maxAudiences   = 16
	maxMapped      = 1000 // values of one claim
	maxTenantWhens = 100  // conditions of one issuer
	maxScopes      = 100
	maxAddresses   = 16
)

// scopePattern is a scope-token of RFC 6749, 3.3, without the colon at its ends.
const scopePattern = `^[!#-\[\]-~]{1,64}$`

var scopeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(scopePattern) })

// authDecoder reads what a policy says about clients over HTTP.
type authDecoder struct {
	*decoder

	p *Policy // already contains its tenants and profiles
}

// auth reads the key auth.
func (d *authDecoder) auth(n *yaml.Node) {
	o, ok := d.mapping(n, "auth", authShape)
	if !ok {
		return
	}
	d.p.auth.source = d.source(n)
	if len(d.p.tenants) == 0 {
		d.Fault(n, `name them, for example tenants: {team-a: {}}`, "auth needs tenants: a token says which of them a client belongs to")
		return
	}
	if v := o.get("issuers"); v != nil {
		d.issuers(v)
	}
	if v := o.get("scopes"); v != nil {
		d.scopes(v)
	}
}

func (d *authDecoder) issuers(n *yaml.Node) {
	first := make(map[string]int)
	for _, entry := range d.items(n, "issuers", maxIssuers) {
		i, ok := d.issuer(entry)
		if !ok {
			continue
		}
		if line, twice := first[i.URL]; twice {
			d.Fault(entry, "make one of them", "the issuer %s stands here a second time; the first is on line %d", shown(i.URL), line)
			continue
		}
		first[i.URL] = entry.Line
		d.p.auth.issuers = append(d.p.auth.issuers, i)
	}
}

func (d *authDecoder) issuer(n *yaml.Node) (i Issuer, ok bool) {
	o, ok := d.mapping(n, "an issuer", issuerShape)
	if !ok {
		return i, false
	}
	if v := o.get("url"); v == nil {
		d.Fault(n, "write url: https://login.example.com", "the issuer has no url")
	} else {
		i.URL = d.secureURL(v, "url")
	}
	if v := o.get("audience"); v != nil {
		d.texts(v, "audience", func(n *yaml.Node, s string) { i.Audience = append(i.Audience, s) })
		if len(i.Audience) > maxAudiences {
			d.Fault(v, "", "audience has %d entries, more than the %d that are read", len(i.Audience), maxAudiences)
		}
	}
	if v := o.get("keys"); v != nil {
		i.Keys = d.secureURL(v, "keys")
	}
	i.Algorithms = d.algorithms(o.get("algorithms"))
	if v := o.get("types"); v != nil {
		d.texts(v, "types", func(n *yaml.Node, s string) {
			d.word(n, "types", TypeAccess, TypeJWT)
			i.PlainType = i.PlainType || s == TypeJWT
		})
	}
	i.Addresses = d.addresses(o.get("addresses"))
	d.tenantOfIssuer(n, o, &i)
	return i, true
}

// algorithms reads the signature algorithms that tokens may have.
func (d *authDecoder) algorithms(n *yaml.Node) (all []string) {
	if n == nil {
		return []string{"RS256", "PS256", "ES256", "EdDSA"}
	}
	d.texts(n, "algorithms", func(n *yaml.Node, s string) {
		d.word(n, "algorithms", Algorithms...)
		all = append(all, s)
	})
	return all
}

// addresses reads the addresses that the hosts of an issuer may have.
func (d *authDecoder) addresses(n *yaml.Node) (all []netip.Prefix) {
	if n == nil {
		return nil
	}
	d.texts(n, "addresses", func(n *yaml.Node, s string) { all = append(all, d.prefix(n, s)) })
	if len(all) > maxAddresses {
		d.Fault(n, "", "addresses has %d entries, more than the %d that are read", len(all), maxAddresses)
	}
	return all
}

// prefix reads an address or a range of addresses.
func (d *authDecoder) prefix(n *yaml.Node, s string) netip.Prefix {
	prefix, err := netip.ParsePrefix(s)
	if addr, single := netip.ParseAddr(s); err != nil && single == nil && addr.Zone() == "" {
		prefix, err = addr.Prefix(addr.BitLen())
	}
	switch {
	case err != nil || prefix.Addr().Is4In6():
		d.Fault(n, "write a range such as 10.20.0.0/16, or one address", "%s is not a range of addresses", shown(s))
	case prefix != prefix.Masked():
		d.Fault(n, "write "+prefix.Masked().String(), "%s has bits set after its prefix", shown(s))
	}
	return prefix
}

// secureURL reads a URL of https.
func (d *authDecoder) secureURL(n *yaml.Node, what string) string {
	s, ok := d.text(n, what)
	if !ok {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" || u.ForceQuery || strings.ContainsAny(s, "|\\\"<> ") || control(s) || len(s) > 500 {
		d.Fault(n, "write https://HOST/PATH, without a name, a query or a fragment", "%s is not an https URL of that form: %s", what, shown(s))
		return ""
	}
	return s
}

// tenantOfIssuer reads which tenant the tokens of an issuer belong to.
func (d *authDecoder) tenantOfIssuer(n *yaml.Node, o object, i *Issuer) {
	ways := 0
	for _, key := range []string{"tenant", "tenant_of", "tenant_when"} {
		if o.get(key) != nil {
			ways++
		}
	}
	if ways != 1 {
		d.Fault(n, "write one of tenant: NAME, tenant_of: {claim: org, map: {acme: NAME}} and tenant_when: [{when: ..., tenant: NAME}]", "exactly one key must say which tenant the issuer's tokens belong to")
		return
	}
	if v := o.get("tenant"); v != nil {
		i.tenant = d.tenantNamed(v)
	}
	if v := o.get("tenant_of"); v != nil {
		d.tenantOf(v, i)
	}
	if v := o.get("tenant_when"); v != nil {
		d.tenantWhen(v, i)
	}
}

// tenantNamed reads the name of a tenant of the policy.
func (d *authDecoder) tenantNamed(n *yaml.Node) string {
	s, ok := d.text(n, "tenant")
	if _, known := d.p.tenants[s]; ok && !known {
		d.Fault(n, suggest(s, d.p.Tenants()), "tenant %q does not exist", s)
	}
	return s
}

func (d *authDecoder) tenantOf(n *yaml.Node, i *Issuer) {
	o, ok := d.mapping(n, "tenant_of", tenantOfShape)
	if !ok {
		return
	}
	claim, values := o.get("claim"), o.get("map")
	if claim == nil || values == nil {
		d.Fault(n, "write tenant_of: {claim: org, map: {acme: NAME}}", "tenant_of needs the keys claim and map")
		return
	}
	i.claim, _ = d.text(claim, "claim")
	m, ok := d.mapping(values, "map", nil)
	switch {
	case !ok:
		return
	case len(m.keys) == 0 || len(m.keys) > maxMapped:
		d.Fault(values, "", "map must have 1 to %d values", maxMapped)
		return
	}
	i.byName = make(map[string]string)
	for _, key := range m.keys {
		if strings.TrimSpace(key.Value) == "" {
			d.Fault(key, "", "the value of a claim must not be empty")
		}
		i.byName[key.Value] = d.tenantNamed(m.get(key.Value))
	}
}

func (d *authDecoder) tenantWhen(n *yaml.Node, i *Issuer) {
	entries := d.items(n, "tenant_when", maxTenantWhens)
	if n.Kind == yaml.SequenceNode && len(entries) == 0 {
		d.Fault(n, "write at least one", "tenant_when must not be empty")
	}
	for _, entry := range entries {
		o, ok := d.mapping(entry, "an entry of tenant_when", tenantWhenShape)
		if !ok {
			continue
		}
		when, tenant := o.get("when"), o.get("tenant")
		if when == nil || tenant == nil {
			d.Fault(entry, `write {when: 'claims.org == "acme"', tenant: NAME}`, "an entry of tenant_when needs the keys when and tenant")
			continue
		}
		c := choice{tenant: d.tenantNamed(tenant)}
		if c.when, ok = d.condition(when); ok {
			i.chosen = append(i.chosen, c)
		}
	}
}

// condition reads a condition about claims.
func (d *authDecoder) condition(n *yaml.Node) (when *cond.Claims, ok bool) {
	text, ok := d.text(n, "when")
	if !ok {
		return nil, false
	}
	when, wrong := cond.CompileClaims(text)
	for _, f := range wrong {
		line, col := d.within(n, text, f.Line, f.Col)
		d.FaultAt(line, col, "when: "+f.Message, f.Hint)
	}
	return when, len(wrong) == 0
}

// scopes reads what tokens may be used for.
func (d *authDecoder) scopes(n *yaml.Node) {
	o, ok := d.mapping(n, "scopes", nil)
	switch {
	case !ok:
		return
	case len(o.keys) == 0 || len(o.keys) > maxScopes:
		d.Fault(n, "name one, for example read: {tools: [Read, Search]}, or remove the key", "there must be 1 to %d scopes", maxScopes)
		return
	}
	for _, key := range o.keys {
		if !scopeName().MatchString(key.Value) {
			d.Fault(key, "use printable characters of ASCII without spaces, quotes and backslashes, 64 at most", "%s cannot be the name of a scope", shown(key.Value))
			continue
		}
		s := tokenScope{name: key.Value}
		so, ok := d.mapping(o.get(key.Value), "scope "+key.Value, scopeShape)
		if !ok {
			continue
		}
		if v := so.get("tools"); v == nil {
			d.Fault(key, `write tools: [Read, "Web*"]`, "the scope %s has no tools", key.Value)
		} else {
			d.texts(v, "tools", func(_ *yaml.Node, t string) { s.tools = append(s.tools, t) })
		}
		s.profiles = d.list(so.get("profiles"), "profiles", maxProfiles, func(n *yaml.Node, name string) { d.known(d.p.profiles, n, name) })
		d.p.auth.scopes = append(d.p.auth.scopes, s)
	}
}
