package policies

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/order"
)

// Bounds of what a profile says about the network.
const (
	maxEgressRules = 1000
	maxPorts       = 64 // ports of one rule
	maxMethods     = 32 // methods of one rule
	maxPaths       = 64 // paths of one rule
	maxPublish     = 64
)

// defaultPorts returns the ports of rules that name none, in a profile that names none: the
// ports of HTTP and HTTPS.
func defaultPorts() []uint16 { return []uint16{80, 443} }

// netDecoder reads what may leave a box, and which of its ports may be opened.
type netDecoder struct {
	*decoder

	secrets map[string]Secret // secrets that net may name
}

// network reads what may leave a box.
func (d *netDecoder) network(n *yaml.Node, g *profileGrant) {
	o, ok := d.mapping(n, "net", netShape)
	if !ok {
		return
	}
	mode := o.get("mode")
	if mode == nil {
		d.Fault(n, "write mode: none, or mode: proxy with what may be reached", "net has no mode")
		return
	}
	switch d.word(mode, "mode of net", "none", "proxy") {
	case 0:
		for _, key := range o.keys {
			if key.Value != "mode" {
				d.Fault(key, "remove it, or write mode: proxy", "net has mode none, so nothing may leave and %s has no meaning", key.Value)
			}
		}
	case 1:
		g.network, g.egress = NetworkDoor, d.egress(n, o)
	}
}

// egress reads the keys of net in mode proxy.
func (d *netDecoder) egress(n *yaml.Node, o object) *Egress {
	e := &Egress{}
	netLimits.usual(&e.Limits)
	ports := defaultPorts()
	if v := o.get("ports"); v != nil {
		if named := d.ports(v, "ports of net"); len(named) > 0 {
			ports = named
		}
	}
	var nodes []*yaml.Node // nodes of the rules in e.Allow
	if v := o.get("allow"); v != nil {
		e.Allow, nodes = d.egressRules(v, "allow", ports)
	}
	if v := o.get("deny"); v != nil {
		e.Deny, _ = d.egressRules(v, "deny", nil)
	}
	if v := o.get("allow_private"); v != nil {
		d.private(v, e, ports)
	}
	if o.get("allow") == nil && o.get("allow_private") == nil {
		d.Fault(n, "write allow: [HOST], or mode: none", "net has mode proxy and allows nothing")
	}
	for i, at := range nodes {
		d.reachable(at, &e.Allow[i], e)
	}
	if v := o.get("tls"); v != nil {
		e.Intercept = d.word(v, "tls", "pass", "intercept") == 1
	}
	if v := o.get("limits"); v != nil {
		if limits, ok := d.mapping(v, "limits of net", netLimitsShape); ok {
			netLimits.read(d.decoder, limits, &e.Limits)
		}
	}
	if v := o.get("secrets"); v != nil {
		d.secretHeaders(v, e)
	}
	return e
}

// egressRules reads allow or deny. It returns the rules and the place of each rule.
func (d *netDecoder) egressRules(n *yaml.Node, key string, ports []uint16) ([]EgressRule, []*yaml.Node) {
	if n.Kind == yaml.ScalarNode || n.Kind == yaml.MappingNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{n}}
	}
	entries := d.items(n, key, maxEgressRules)
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		d.Fault(n, "name at least one host, or remove the key", "%s must not be empty", key)
	}
	var rules []EgressRule
	var nodes []*yaml.Node
	for _, entry := range entries {
		r, ok := d.egressRule(entry, key, ports)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(rules, func(o EgressRule) bool { return r.same(&o) }); i >= 0 {
			d.Fault(entry, "remove one", "%s says the same as on line %d", key, rules[i].Source.Line)
			continue
		}
		rules, nodes = append(rules, r), append(nodes, entry)
	}
	return rules, nodes
}

// same reports whether two rules of one list have the same effect.
func (r *EgressRule) same(o *EgressRule) bool {
	return r.Host == o.Host && slices.Equal(r.Ports, o.Ports) && slices.Equal(r.Methods, o.Methods) && slices.Equal(r.Paths, o.Paths)
}

// egressRule reads one entry of allow or deny: a host, or a mapping.
func (d *netDecoder) egressRule(n *yaml.Node, key string, ports []uint16) (EgressRule, bool) {
	r := EgressRule{Source: d.source(n)}
	before := len(d.Faults)
	if n.Kind == yaml.ScalarNode {
		if s, ok := d.text(n, "an entry of "+key); ok {
			var port uint16
			r.Host, port = d.target(n, key, s)
			if port != 0 {
				ports = []uint16{port}
			}
		}
	} else if o, ok := d.mapping(n, "an entry of "+key, egressShape); ok {
		if v := o.get("host"); v == nil {
			d.Fault(n, `write {host: NAME, methods: [GET], paths: ["/v1/**"]}`, "the entry of %s has no host", key)
		} else if s, ok := d.text(v, "host"); ok {
			var port uint16
			r.Host, port = d.target(v, "host", s)
			if port != 0 {
				d.Fault(v, fmt.Sprintf("write host: %q, ports: [%d]", r.Host, port), "host names a port, which belongs under ports here")
			}
		}
		if v := o.get("ports"); v != nil {
			ports = d.ports(v, "ports")
		}
		r.Methods, r.Paths = d.requests(o)
	}
	r.Ports = ports
	if len(d.Faults) > before || r.Host == "" {
		return r, false
	}
	r.compiled = compileEgress(r.Host, r.Ports, r.Methods, r.Paths)
	return r, true
}

// private reads allow_private. If allow does not name a host, and the host has no port
// here, it is reached on the ports of net.
func (d *netDecoder) private(n *yaml.Node, e *Egress, ports []uint16) {
	d.texts(n, "allow_private", func(n *yaml.Node, s string) {
		host, port, err := splitTarget(s)
		var h Host
		if err == nil {
			h, err = ParseHost(host)
		}
		r := PrivateRule{Host: h, Port: port}
		switch {
		case strings.Contains(s, "*"):
			d.Fault(n, "name each host; the operator of a domain's name servers decides which addresses its names have", "allow_private %s: what is not public is named one by one", shown(s))
		case err != nil:
			d.Fault(n, `write "host.belljar.internal:3000", "10.1.2.3:5432" or "db.internal"`, "allow_private %s: %v", shown(s), err)
		case unreachable(h.Addr()):
			d.Fault(n, "clouds hand out their machines' credentials on such addresses", "%s is a link-local, multicast or unspecified address, and cannot be reached from a box", h)
		case slices.Contains(e.Private, r):
			d.Fault(n, "remove one", "allow_private names %s twice", Clip(s, maxShown))
		case len(e.Private) >= maxEgressRules:
			d.Fault(n, "", "allow_private has more than the %d entries that are read", maxEgressRules)
		default:
			e.Private = append(e.Private, r)
			if port == 0 && !slices.ContainsFunc(e.Allow, func(a EgressRule) bool { return a.ready().host.denies(h) }) {
				for _, p := range ports {
					e.Private = append(e.Private, PrivateRule{Host: h, Port: p})
				}
			}
		}
	})
}

// unreachable reports whether no rule can make an address reachable.
func unreachable(a netip.Addr) bool {
	return a.IsValid() && (a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}

// reachable adds a fault if a rule of allow cannot let anything through.
func (d *netDecoder) reachable(n *yaml.Node, r *EgressRule, e *Egress) {
	m := r.ready()
	for i := range e.Deny {
		if no := e.Deny[i].ready(); no.all && m.host.within(no.host) && coverPorts(no.ports, m.ports) {
			d.Fault(n, "deny wins over allow: remove one of the two", "%s is denied by %s on line %d", m.host, no.host, e.Deny[i].Source.Line)
			return
		}
	}
	a := m.host.host.Addr()
	named := slices.ContainsFunc(e.Private, func(p PrivateRule) bool { return p.Host == m.host.host })
	switch {
	case unreachable(a):
		d.Fault(n, "clouds hand out their machines' credentials on such addresses", "%s is a link-local, multicast or unspecified address, and cannot be reached from a box", a)
	case a.IsValid() && (a.IsPrivate() || a.IsLoopback()) && !named:
		d.Fault(n, fmt.Sprintf("name it under allow_private, as %q", netip.AddrPortFrom(a, slices.Min(m.ports))), "%s is not a public address", a)
	}
}

// publish reads the ports of a box that may be opened on the host.
func (d *netDecoder) publish(n *yaml.Node) []PortRange {
	entries := []*yaml.Node{n}
	if n.Kind != yaml.ScalarNode {
		entries = d.items(n, "publish", maxPublish)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.Fault(n, "name at least one port, or remove the key", "publish must not be empty")
		}
	}
	var all []PortRange
	for _, entry := range entries {
		if entry.Kind == yaml.AliasNode {
			continue
		}
		if entry.Kind != yaml.ScalarNode || entry.ShortTag() == "!!null" {
			d.Fault(entry, `write a port such as 3000, or a range such as "8000-8099"`, "an entry of publish must be a port, not %s", kind(entry))
			continue
		}
		r, err := readPorts(entry.Value)
		if err != nil {
			d.Fault(entry, `write a port such as 3000, or a range such as "8000-8099"`, "publish: %v", err)
			continue
		}
		if i := slices.IndexFunc(all, func(o PortRange) bool { return r.First <= o.Last && o.First <= r.Last }); i >= 0 {
			d.Fault(entry, "remove one, or join the two", "publish names %d twice", max(r.First, all[i].First))
			continue
		}
		all = append(all, r)
	}
	// Sorted, so that two grants with the same ports are equal.
	order.By(all, func(a, b *PortRange) int { return int(a.First) - int(b.First) })
	return all
}

// readPorts reads "3000" or "8000-8099".
func readPorts(s string) (PortRange, error) {
	first, last, two := strings.Cut(s, "-")
	if !two {
		last = first
	}
	var r PortRange
	var err error
	if r.First, err = readPort(first); err == nil {
		r.Last, err = readPort(last)
	}
	if err == nil && r.Last < r.First {
		err = fmt.Errorf("the range %s ends before it begins", s)
	}
	return r, err
}
