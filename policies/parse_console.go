package policies

import "go.yaml.in/yaml/v3"

// maxPeople bounds the people of a console.
const maxPeople = 64

// RoleNames are the roles that a person may have at the console. Each role may do
// everything that the role before it may do.
var RoleNames = []string{"viewer", "approver", "operator"}

// Person is a person who may use the console of a server from other machines.
type Person struct {
	Name string
	Role string // one of RoleNames
	// Tenants are the tenants whose things the person may see; nil for all tenants.
	Tenants []string
	// Token says where the SHA-256 of the person's token is kept, in hexadecimal digits.
	Token Secret
}

// People returns the people who may use the console from other machines, in the order of
// their names. The result must not be changed.
func People(p *Policy) []Person { return p.people }

// console reads the people who may use the console.
func (d *policyDecoder) console(n *yaml.Node) {
	o, ok := d.mapping(n, "console", consoleShape)
	if !ok {
		return
	}
	c := &consoleDecoder{d, &authDecoder{d.decoder, d.p}}
	if v := o.get("people"); v != nil {
		c.people(v)
	}
	if v := o.get("provider"); v != nil {
		c.provider(v)
	}
}

// consoleDecoder reads the people of a console.
type consoleDecoder struct {
	*policyDecoder

	auth *authDecoder // reads the keys that a provider and an issuer have in common
}

// people reads the people who have tokens of their own.
func (d *consoleDecoder) people(n *yaml.Node) {
	all, ok := d.mapping(n, "people", nil)
	switch {
	case !ok:
		return
	case len(n.Content) == 0:
		d.Fault(n, `name one, for example ann: {role: viewer, token: "${file:/etc/belljar/ann.sha256}"}, or remove the key`, "people must not be empty")
		return
	case len(all.keys) > maxPeople:
		d.Fault(n, "", "there are %d people, more than the %d that are read", len(all.keys), maxPeople)
		return
	}
	people := make(map[string]Person)
	for _, key := range all.keys {
		if !IsName(key.Value) {
			d.Fault(key, NameShape, "%q cannot be the name of a person", key.Value)
			continue
		}
		people[key.Value] = d.person(key, all.get(key.Value))
	}
	for _, name := range names(people) {
		d.p.people = append(d.p.people, people[name])
	}
}

// person reads one entry of people.
func (d *consoleDecoder) person(key, n *yaml.Node) Person {
	who := Person{Name: key.Value}
	o, ok := d.mapping(n, "person "+key.Value, personShape)
	if !ok {
		return who
	}
	who.Role, who.Tenants = d.mayDo(key, o, "person "+key.Value)
	if v := o.get("token"); v == nil {
		d.Fault(key, `write token: "${file:/etc/belljar/NAME.sha256}"; "belljar console token" makes one`, "person %s has no token", key.Value)
	} else {
		who.Token = d.token(v)
	}
	return who
}

// mayDo reads the role of a person, and the tenants that it is limited to.
func (d *consoleDecoder) mayDo(at *yaml.Node, o object, whose string) (role string, tenants []string) {
	if v := o.get("role"); v == nil {
		d.Fault(at, "write role: viewer, approver or operator", "%s has no role", whose)
	} else if i := d.word(v, "role", RoleNames...); i >= 0 {
		role = RoleNames[i]
	}
	if v := o.get("tenants"); v != nil {
		tenants = d.list(v, "tenants", maxTenants, func(n *yaml.Node, name string) {
			if _, known := d.p.tenants[name]; !known {
				d.Fault(n, suggest(name, d.p.Tenants()), "tenant %q does not exist", name)
			}
		})
		if len(tenants) == 0 {
			d.Fault(v, "name one, or remove the key for the things of all tenants", "the tenants of %s must not be empty", whose)
		}
	}
	return role, tenants
}

// provider reads the provider at which people log in.
func (d *consoleDecoder) provider(n *yaml.Node) {
	o, ok := d.mapping(n, "provider", providerShape)
	if !ok {
		return
	}
	p := &Provider{Scopes: []string{"openid"}}
	if v := o.get("url"); v == nil {
		d.Fault(n, "write url: https://login.example.com", "the provider has no url")
	} else {
		p.URL = d.auth.secureURL(v, "url")
	}
	if v := o.get("client"); v == nil {
		d.Fault(n, "write client: belljar, which is the name that the provider has for this server", "the provider has no client")
	} else if p.Client, ok = d.text(v, "client"); ok && !isShown(p.Client) {
		d.Fault(v, "", "client is not a short text: %s", shown(p.Client))
	}
	if v := o.get("secret"); v != nil {
		p.Secret = d.reference(v, "secret", `write "${file:/etc/belljar/client-secret}" or "${env:CLIENT_SECRET}": a policy says where the secret is kept, never what it is`)
	}
	if v := o.get("scopes"); v != nil {
		for _, scope := range d.list(v, "scopes", maxScopes, func(n *yaml.Node, s string) {
			if !scopeName().MatchString(s) {
				d.Fault(n, "use printable characters of ASCII without spaces, quotes and backslashes, 64 at most", "%s cannot be the name of a scope", shown(s))
			}
		}) {
			if scope != "openid" {
				p.Scopes = append(p.Scopes, scope)
			}
		}
	}
	p.Algorithms = d.auth.algorithms(o.get("algorithms"))
	p.Addresses = d.auth.addresses(o.get("addresses"))
	if v := o.get("name"); v != nil {
		p.name, _ = d.text(v, "name")
	}
	if v := o.get("roles"); v == nil {
		d.Fault(n, `write roles: [{when: '"ops" in claims.groups', role: viewer}]`, "the provider has no roles, so nobody could log in")
	} else {
		p.people = d.roles(v)
	}
	d.p.provider = p
}

// roles reads the people that a provider lets in, and their roles.
func (d *consoleDecoder) roles(n *yaml.Node) (all []roleOf) {
	entries := d.items(n, "roles", maxTenantWhens)
	if n.Kind == yaml.SequenceNode && len(entries) == 0 {
		d.Fault(n, "write at least one", "roles must not be empty")
	}
	for _, entry := range entries {
		o, ok := d.mapping(entry, "an entry of roles", roleShape)
		if !ok {
			continue
		}
		var m roleOf
		m.as.Role, m.as.Tenants = d.mayDo(entry, o, "an entry of roles")
		when := o.get("when")
		if when == nil {
			d.Fault(entry, `write {when: '"ops" in claims.groups', role: viewer}`, "an entry of roles needs the key when")
			continue
		}
		if m.when, ok = d.auth.condition(when); ok {
			all = append(all, m)
		}
	}
	return all
}
