package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"belljar.dev/internal/order"
	"belljar.dev/policies"
)

// class says whether an address may be dialled, and if not, why. The zero class is an
// address that is not public, for an unknown reason.
type class struct {
	public   bool   // whether it is global unicast, and in no row of the registries
	metadata bool   // whether it is a cloud's metadata service, which gives out the host's credentials
	fake     bool   // whether it is in the range that stands for names in boxes, and means nothing on the host
	reason   string // why the address is not public, for example "10.0.0.1 is ..."; empty if it is public
}

// special is a row of the IANA special-purpose address registries, or of another list of
// ranges without public servers.
type special struct {
	prefix netip.Prefix
	name   string // name in the registry
	source string // document that defines the row
}

// specials are the rows for IPv4 and IPv6, the longest prefix first. Every row counts as
// not public, whatever its column "globally reachable" says: the globally reachable rows
// lead to relays, translators and anycast services, behind which is another address.
//
// https://www.iana.org/assignments/iana-ipv4-special-registry
// https://www.iana.org/assignments/iana-ipv6-special-registry
var special4, special6 = split([]special{
	{prefix("0.0.0.0/8"), "This network", "RFC 791"},
	{prefix("0.0.0.0/32"), "This host on this network", "RFC 1122"},
	{prefix("10.0.0.0/8"), "Private-Use", "RFC 1918"},
	{prefix("100.64.0.0/10"), "Shared Address Space", "RFC 6598"},
	{prefix("127.0.0.0/8"), "Loopback", "RFC 1122"},
	{prefix("169.254.0.0/16"), "Link Local", "RFC 3927"},
	{prefix("172.16.0.0/12"), "Private-Use", "RFC 1918"},
	{prefix("192.0.0.0/24"), "IETF Protocol Assignments", "RFC 6890"},
	{prefix("192.0.0.0/29"), "IPv4 Service Continuity Prefix", "RFC 7335"},
	{prefix("192.0.0.8/32"), "IPv4 dummy address", "RFC 7600"},
	{prefix("192.0.0.9/32"), "Port Control Protocol Anycast", "RFC 7723"},
	{prefix("192.0.0.10/32"), "Traversal Using Relays around NAT Anycast", "RFC 8155"},
	{prefix("192.0.0.170/31"), "NAT64/DNS64 Discovery", "RFC 8880"},
	{prefix("192.0.2.0/24"), "Documentation (TEST-NET-1)", "RFC 5737"},
	{prefix("192.31.196.0/24"), "AS112-v4", "RFC 7535"},
	{prefix("192.52.193.0/24"), "AMT", "RFC 7450"},
	{prefix("192.88.99.0/24"), "Deprecated (6to4 Relay Anycast)", "RFC 7526"},
	{prefix("192.88.99.2/32"), "6a44-relay anycast address", "RFC 6751"},
	{prefix("192.168.0.0/16"), "Private-Use", "RFC 1918"},
	{prefix("192.175.48.0/24"), "Direct Delegation AS112 Service", "RFC 7534"},
	{prefix("198.18.0.0/15"), "Benchmarking", "RFC 2544"},
	{prefix("198.51.100.0/24"), "Documentation (TEST-NET-2)", "RFC 5737"},
	{prefix("203.0.113.0/24"), "Documentation (TEST-NET-3)", "RFC 5737"},
	{prefix("224.0.0.0/4"), "Multicast", "RFC 5771"},
	{prefix("240.0.0.0/4"), "Reserved", "RFC 1112"},
	{prefix("255.255.255.255/32"), "Limited Broadcast", "RFC 8190"},

	{prefix("::/96"), "IPv4-Compatible Address", "RFC 4291"},
	{prefix("::/128"), "Unspecified Address", "RFC 4291"},
	{prefix("::1/128"), "Loopback Address", "RFC 4291"},
	{prefix("::ffff:0:0/96"), "IPv4-mapped Address", "RFC 4291"},
	{prefix("::ffff:0:0:0/96"), "IPv4-translated Address", "RFC 2765"},
	{prefix("64:ff9b::/96"), "IPv4-IPv6 Translation", "RFC 6052"},
	{prefix("64:ff9b:1::/48"), "IPv4-IPv6 Translation", "RFC 8215"},
	{prefix("100::/64"), "Discard-Only Address Block", "RFC 6666"},
	{prefix("100:0:0:1::/64"), "Dummy IPv6 Prefix", "RFC 9780"},
	{prefix("2001::/23"), "IETF Protocol Assignments", "RFC 2928"},
	{prefix("2001::/32"), "TEREDO", "RFC 4380"},
	{prefix("2001:1::1/128"), "Port Control Protocol Anycast", "RFC 7723"},
	{prefix("2001:1::2/128"), "Traversal Using Relays around NAT Anycast", "RFC 8155"},
	{prefix("2001:1::3/128"), "DNS-SD Service Registration Protocol Anycast", "RFC 9665"},
	{prefix("2001:2::/48"), "Benchmarking", "RFC 5180"},
	{prefix("2001:3::/32"), "AMT", "RFC 7450"},
	{prefix("2001:4:112::/48"), "AS112-v6", "RFC 7535"},
	{prefix("2001:10::/28"), "Deprecated (previously ORCHID)", "RFC 4843"},
	{prefix("2001:20::/28"), "ORCHIDv2", "RFC 7343"},
	{prefix("2001:30::/28"), "Drone Remote ID Protocol Entity Tags", "RFC 9374"},
	{prefix("2001:db8::/32"), "Documentation", "RFC 3849"},
	{prefix("2002::/16"), "6to4", "RFC 3056"},
	{prefix("2620:4f:8000::/48"), "Direct Delegation AS112 Service", "RFC 7534"},
	{prefix("3fff::/20"), "Documentation", "RFC 9637"},
	{prefix("5f00::/16"), "Segment Routing (SRv6) SIDs", "RFC 9602"},
	{prefix("fc00::/7"), "Unique-Local", "RFC 4193"},
	{prefix("fe80::/10"), "Link-Local Unicast", "RFC 4291"},
	{prefix("fec0::/10"), "Deprecated (Site-Local)", "RFC 3879"},
	{prefix("ff00::/8"), "Multicast", "RFC 4291"},
})

// metadata are the addresses at which clouds answer their own machines. A program that can
// reach them may get the credentials of the host.
var metadata = []netip.Prefix{
	prefix("169.254.169.0/24"),    // nearly all clouds: .254; Amazon's resolver and clock are next to it
	prefix("169.254.170.0/24"),    // Amazon: credentials of containers (.2) and pods (.23)
	prefix("169.254.0.23/32"),     // Tencent
	prefix("169.254.42.42/32"),    // Scaleway
	prefix("100.100.100.200/32"),  // Alibaba
	prefix("168.63.129.16/32"),    // Azure; the number is that of a public address
	prefix("192.0.0.192/32"),      // Oracle
	prefix("fd00:ec2::/32"),       // Amazon
	prefix("fd20:ce::254/128"),    // Google
	prefix("fd00:42::42/128"),     // Scaleway
	prefix("fe80::a9fe:a9fe/128"), // OpenStack
}

// globalUnicast is the only IPv6 space that has been given out (RFC 4291, 2.4).
var globalUnicast = prefix("2000::/3")

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// split sorts rows by length, and separates the families.
func split(rows []special) (v4, v6 []special) {
	order.By(rows, func(a, b *special) int { return b.prefix.Bits() - a.prefix.Bits() })
	for _, r := range rows {
		if r.prefix.Addr().Is4() {
			v4 = append(v4, r)
		} else {
			v6 = append(v6, r)
		}
	}
	return v4, v6
}

// classify returns the class of an address, by its number alone. An IPv6 address that
// contains an IPv4 address is public only if both are.
func classify(addr netip.Addr) class {
	if !addr.IsValid() {
		return class{reason: "it is not an IP address"}
	}
	addr = addr.Unmap() // the kernel connects to the IPv4 address
	if addr.Zone() != "" {
		return class{reason: fmt.Sprintf("%v names an interface of this host", addr)}
	}
	c := classifyPlain(addr)
	for _, inner := range embedded(addr) {
		in := classifyPlain(inner)
		if in.public || c.metadata {
			continue
		}
		c.metadata, c.fake = in.metadata, c.fake || in.fake
		if c.public || in.metadata || in.fake {
			c.public = false
			c.reason = fmt.Sprintf("%v stands for %v, and %s", addr, inner, in.reason)
		}
	}
	return c
}

// classifyPlain is classify without the addresses that addr contains.
func classifyPlain(addr netip.Addr) class {
	for _, p := range metadata {
		if p.Contains(addr) {
			return class{metadata: true, reason: fmt.Sprintf("%v is a cloud metadata address", addr)}
		}
	}
	rows := special4
	if addr.Is6() {
		rows = special6
	}
	for _, r := range rows {
		if r.prefix.Contains(addr) {
			return class{
				fake:   fakeRange.Contains(addr),
				reason: fmt.Sprintf("%v is not a public address: it is in the range %q (%s)", addr, r.name, r.source),
			}
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return class{reason: fmt.Sprintf("%v is not a public address: it is outside %v (RFC 4291)", addr, globalUnicast)}
	}
	return class{public: true}
}

// The prefixes in which IPv6 addresses contain IPv4 addresses.
var (
	compatible = prefix("::/96")
	translated = prefix("::ffff:0:0:0/96")
	nat64      = prefix("64:ff9b::/96")
	nat64Local = prefix("64:ff9b:1::/48")
	sixToFour  = prefix("2002::/16")
	teredo     = prefix("2001::/32")
)

// embedded returns the IPv4 addresses that an IPv6 address contains: those to which a
// translator, a relay or a tunnel would send the packets. A prefix that a network has
// chosen for its own translator cannot be recognized.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	last := at(12, 13, 14, 15)
	var all []netip.Addr
	switch {
	case compatible.Contains(addr) && addr.Compare(netip.IPv6Loopback()) > 0, translated.Contains(addr), nat64.Contains(addr):
		all = append(all, last)
	case nat64Local.Contains(addr):
		// RFC 6052, 2.2: the place of the IPv4 address depends on the length of the prefix,
		// from 48 to 96 bits, and leaves out byte 8.
		all = append(all, at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12), last)
	case sixToFour.Contains(addr):
		all = append(all, at(2, 3, 4, 5))
	case teredo.Contains(addr):
		// RFC 4380, 4: the address of the server, and that of the client with its bits
		// inverted.
		all = append(all, at(4, 5, 6, 7), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	// ISATAP (RFC 5214, 6.1) can be below any prefix.
	if (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		all = append(all, last)
	}
	return all
}

// parsePort reads a port, which is not 0.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %s: want a number from 1 to 65535", policies.Clip(s, 20))
	}
	return uint16(n), nil
}

// hostPort returns the host and port in the form that a URL of the scheme uses.
func hostPort(h policies.Host, port uint16, scheme string) string {
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		if h.Addr().Is6() {
			return "[" + h.String() + "]"
		}
		return h.String()
	}
	return net.JoinHostPort(h.String(), strconv.Itoa(int(port)))
}
