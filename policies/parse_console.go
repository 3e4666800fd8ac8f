package policies

import "go.yaml.in/yaml/v3"

// maxPeople bounds the people of a console.
const maxPeople = 64

// RoleNames are the roles that a person may have at the console. Each may do all that the one
// before it may.
var RoleNames = []string{"viewer", "approver", "operator"}

// Person is somebody who may use the console of a server from other machines.
type Person struct {
	Name string
	Role string // of RoleNames
	// Tenants are those whose things the person may see; nil for all.
	Tenants []string
	// Token says where the SHA-256 of the person's token is kept, in hexadecimal digits.
	Token Secret
}

// People are those who may use the console from other machines, in the order of their names.
// They must not be changed.
func People(p *Policy) []Person { return p.people }

// console reads who may use the console.
func (d *policyDecoder) console(n *yaml.Node) {
	o, ok := d.mapping(n, "console", consoleShape)
	if !ok {
		return
	}
	v := o.get("people")
	if v == nil {
		return
	}
	all, ok := d.mapping(v, "people", nil)
	switch {
	case !ok:
		return
	case len(v.Content) == 0:
		d.Fault(v, `name one, for example ann: {role: viewer, token: "${file:/etc/belljar/ann.sha256}"}, or remove the key`, "people must not be empty")
		return
	case len(all.keys) > maxPeople:
		d.Fault(v, "", "there are %d people, more than the %d that are read", len(all.keys), maxPeople)
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
func (d *policyDecoder) person(key, n *yaml.Node) Person {
	who := Person{Name: key.Value}
	o, ok := d.mapping(n, "person "+key.Value, personShape)
	if !ok {
		return who
	}
	if v := o.get("role"); v == nil {
		d.Fault(key, "write role: viewer, approver or operator", "person %s has no role", key.Value)
	} else if i := d.word(v, "role", RoleNames...); i >= 0 {
		who.Role = RoleNames[i]
	}
	if v := o.get("tenants"); v != nil {
		who.Tenants = d.list(v, "tenants", maxTenants, func(n *yaml.Node, name string) {
			if _, known := d.p.tenants[name]; !known {
				d.Fault(n, suggest(name, d.p.Tenants()), "tenant %q does not exist", name)
			}
		})
		if len(who.Tenants) == 0 {
			d.Fault(v, "name one, or remove the key for the things of all tenants", "the tenants of person %s must not be empty", key.Value)
		}
	}
	if v := o.get("token"); v == nil {
		d.Fault(key, `write token: "${file:/etc/belljar/NAME.sha256}"; "belljar console token" makes one`, "person %s has no token", key.Value)
	} else {
		who.Token = d.token(v)
	}
	return who
}
