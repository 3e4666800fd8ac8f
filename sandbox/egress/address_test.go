package egress

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Every row is a form of an address that must not be dialled, or an address next to it that
// may be dialled.
func TestClassify(t *testing.T) {
	for _, test := range []struct {
		addr string
		want string // part of the reason; empty if the address is public
	}{
		// Public addresses, some of them just outside of a range that is not public.
		{"1.1.1.1", ""},
		{"8.8.8.8", ""},
		{"9.255.255.255", ""},
		{"11.0.0.0", ""},
		{"100.63.255.255", ""},
		{"100.128.0.0", ""},
		{"126.255.255.255", ""},
		{"128.0.0.0", ""},
		{"169.253.255.255", ""},
		{"172.15.255.255", ""},
		{"172.32.0.0", ""},
		{"192.0.1.0", ""},
		{"192.167.255.255", ""},
		{"198.17.255.255", ""},
		{"198.20.0.0", ""},
		{"223.255.255.255", ""},
		{"2606:4700:4700::1111", ""},
		{"2001:200::1", ""},
		{"2001:4860:4860::8888", ""},
		{"2a00:1450:4001:800::200e", ""},
		{"2a00:1450::5efe:808:808", ""}, // ISATAP of 8.8.8.8
		{"::ffff:8.8.8.8", ""},          // connects to 8.8.8.8

		// The IPv4 registry.
		{"0.0.0.0", `"This host on this network" (RFC 1122)`},
		{"0.1.2.3", `"This network" (RFC 791)`},
		{"10.0.0.1", `"Private-Use" (RFC 1918)`},
		{"10.255.255.255", "RFC 1918"},
		{"100.64.0.1", `"Shared Address Space" (RFC 6598)`},
		{"100.127.255.255", "RFC 6598"},
		{"127.0.0.1", `"Loopback" (RFC 1122)`},
		{"127.1.2.3", "Loopback"},
		{"169.254.1.1", `"Link Local" (RFC 3927)`},
		{"172.16.0.1", "RFC 1918"},
		{"172.31.255.255", "RFC 1918"},
		{"192.0.0.1", "IPv4 Service Continuity Prefix"},
		{"192.0.0.8", "dummy"},
		{"192.0.0.9", "Port Control Protocol"}, // "globally reachable", but a relay
		{"192.0.0.10", "Traversal Using Relays"},
		{"192.0.0.100", "IETF Protocol Assignments"},
		{"192.0.0.171", "NAT64/DNS64 Discovery"},
		{"192.0.2.1", "TEST-NET-1"},
		{"192.31.196.1", "AS112-v4"},
		{"192.52.193.1", "AMT"},
		{"192.88.99.1", "6to4 Relay Anycast"},
		{"192.88.99.2", "6a44"},
		{"192.168.1.1", "RFC 1918"},
		{"192.175.48.1", "AS112"},
		{"198.18.0.1", "Benchmarking"},
		{"198.19.255.255", "Benchmarking"},
		{"198.51.100.1", "TEST-NET-2"},
		{"203.0.113.1", "TEST-NET-3"},
		{"224.0.0.1", "Multicast"},
		{"239.255.255.250", "Multicast"},
		{"240.0.0.1", "Reserved"},
		{"255.255.255.255", "Limited Broadcast"},

		// Metadata services of clouds.
		{"169.254.169.254", "169.254.169.254 is a cloud metadata address"},
		{"169.254.170.2", "metadata"},
		{"100.100.100.200", "metadata"},
		{"168.63.129.16", "metadata"},
		{"192.0.0.192", "metadata"},
		{"fd00:ec2::254", "metadata"},
		{"fd20:ce::254", "metadata"},
		{"fe80::a9fe:a9fe", "metadata"},

		// The IPv6 registry, and addresses outside of the space that is given out.
		{"::", "Unspecified"},
		{"::1", "Loopback"},
		{"64:ff9b::808:808", `"IPv4-IPv6 Translation" (RFC 6052)`},
		{"64:ff9b:1::808:808", "RFC 8215"},
		{"64:ff9b:2::1", "outside 2000::/3"},
		{"100::1", "Discard-Only"},
		{"100:0:0:1::1", "Dummy"},
		{"100:0:0:2::1", "outside 2000::/3"},
		{"2001:0:4136:e378:8000:63bf:f7f7:f7f7", "TEREDO"},
		{"2001:1::1", "Port Control Protocol"},
		{"2001:1::3", "Service Registration"},
		{"2001:2::1", "Benchmarking"},
		{"2001:3::1", "AMT"},
		{"2001:4:112::1", "AS112-v6"},
		{"2001:10::1", "ORCHID"},
		{"2001:20::1", "ORCHIDv2"},
		{"2001:30::1", "Drone"},
		{"2001:1ff::1", "IETF Protocol Assignments"},
		{"2001:db8::1", "Documentation"},
		{"2002:808:808::1", "6to4"},
		{"2620:4f:8000::1", "AS112"},
		{"3fff::1", "Documentation"},
		{"3fff:fff:ffff::1", "Documentation"},
		{"4000::1", "outside 2000::/3"},
		{"5f00::1", "SRv6"},
		{"fc00::1", "Unique-Local"},
		{"fdff::1", "Unique-Local"},
		{"fe80::1", "Link-Local"},
		{"fec0::1", "Site-Local"},
		{"ff02::1", "Multicast"},

		// IPv4 in IPv6.
		{"::ffff:127.0.0.1", "127.0.0.1 is not a public address"},
		{"::ffff:169.254.169.254", "169.254.169.254 is a cloud metadata address"},
		{"::127.0.0.1", "IPv4-Compatible"},
		{"::169.254.169.254", "stands for 169.254.169.254, and 169.254.169.254 is a cloud metadata address"},
		{"::ffff:0:169.254.169.254", "stands for 169.254.169.254"},
		{"64:ff9b::169.254.169.254", "stands for 169.254.169.254"},
		{"64:ff9b::127.0.0.1", "Translation"},
		{"64:ff9b:1::169.254.169.254", "stands for 169.254.169.254"},
		{"64:ff9b:1:a9fe:a9:fe00::", "stands for 169.254.169.254"}, // prefix of 48 bits
		{"2002:a9fe:a9fe::1", "stands for 169.254.169.254"},
		{"2002:7f00:1::", "6to4"},
		{"2001:0:a9fe:a9fe::1", "stands for 169.254.169.254"},                   // Teredo's server
		{"2001:0:4136:e378:8000:63bf:5601:5601", "stands for 169.254.169.254"},  // Teredo's client
		{"2a00:1450::5efe:169.254.169.254", "stands for 169.254.169.254"},       // ISATAP
		{"2a00:1450::5efe:10.0.0.1", "stands for 10.0.0.1, and 10.0.0.1 is no"}, // ISATAP
		// ISATAP, below a prefix of a global address
		{"2a00:1450::200:5efe:127.0.0.1", "stands for 127.0.0.1"},
		{"fe80::5efe:8.8.8.8", "Link-Local"},        // ISATAP of a public address
		{"2002:c612:1::1", "stands for 198.18.0.1"}, // a fake address
		{"fe80::1%eth0", "interface"},
	} {
		c := classify(netip.MustParseAddr(test.addr))
		if c.public != (test.want == "") || !strings.Contains(c.reason, test.want) || c.public && c.reason != "" {
			t.Errorf("classify(%s): got %+v, want reason with %q", test.addr, c, test.want)
		}
		if c.metadata != strings.Contains(c.reason, "metadata") {
			t.Errorf("classify(%s): got metadata %v in %+v", test.addr, c.metadata, c)
		}
	}
	if c := classify(netip.Addr{}); c.public {
		t.Errorf("classify of no address: got public")
	}
	for _, fake := range []string{"198.18.0.1", "::ffff:198.18.0.1", "2002:c612:1::1", "64:ff9b::198.19.1.1"} {
		if !classify(netip.MustParseAddr(fake)).fake {
			t.Errorf("classify(%s): got not fake", fake)
		}
	}
}

// TestSpecialRows checks that the rows are sorted by the length of their prefix, and that
// each has a masked prefix, a name and an RFC.
func TestSpecialRows(t *testing.T) {
	for _, rows := range [][]special{special4, special6} {
		for i, r := range rows {
			if r.prefix != r.prefix.Masked() || r.name == "" || !strings.HasPrefix(r.source, "RFC ") {
				t.Errorf("row %+v: want a masked prefix, a name and an RFC", r)
			}
			if i > 0 && rows[i-1].prefix.Bits() < r.prefix.Bits() {
				t.Errorf("row %v comes after %v", r.prefix, rows[i-1].prefix)
			}
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	d := open(t, Config{Egress: allowing("*")})
	reads := 0
	list := []net.Addr{&net.IPNet{IP: net.ParseIP("93.184.216.34"), Mask: net.CIDRMask(24, 32)}}
	var fail error
	d.own.read = func() ([]net.Addr, error) { reads++; return list, fail }

	for addr, own := range map[string]bool{
		"93.184.216.34":                 true,
		"::ffff:93.184.216.34":          true,
		"2a00:1450::5efe:93.184.216.34": true,
		"93.184.216.35":                 false,
	} {
		if c := d.class(netip.MustParseAddr(addr)); c.public == own {
			t.Errorf("%s: got %+v, want own: %v", addr, c, own)
		}
	}
	if reads != 1 {
		t.Errorf("got %d reads within a moment, want 1", reads)
	}

	// A new address is seen once the old list is out of date.
	list = append(list, &net.IPNet{IP: net.ParseIP("93.184.216.35"), Mask: net.CIDRMask(24, 32)})
	d.own.until = d.own.until.Add(-ownFor)
	if c := d.class(netip.MustParseAddr("93.184.216.35")); c.public || !strings.Contains(c.reason, "the host that the sandbox runs on") {
		t.Errorf("got %+v of a new address of the host", c)
	}

	// If the host's addresses cannot be read, no address is public.
	fail = errors.New("no netlink")
	d.own.until = d.own.until.Add(-ownFor)
	if c := d.class(netip.MustParseAddr("8.8.8.8")); c.public {
		t.Errorf("got public although the host's addresses are not known")
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{"::1", "2002:7f00:1::", "2a00:1450::5efe:a00:1", "::ffff:a9fe:a9fe"} {
		b := netip.MustParseAddr(s).As16()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		c := classify(addr)
		if c.public != (c.reason == "") || c.public && (c.metadata || c.fake) {
			t.Fatalf("%v: got %+v", addr, c)
		}
		if !c.public {
			return
		}
		if addr = addr.Unmap(); addr.Is6() && !globalUnicast.Contains(addr) || !addr.IsGlobalUnicast() || addr.IsPrivate() {
			t.Errorf("%v: got public", addr)
		}
		for _, in := range embedded(addr) {
			if !classify(in).public {
				t.Errorf("%v: got public, but it holds %v", addr, in)
			}
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	for _, s := range []string{"8.8.8.8", "10.0.0.1", "2606:4700:4700::1111"} {
		addr := netip.MustParseAddr(s)
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				classify(addr)
			}
		})
	}
}
