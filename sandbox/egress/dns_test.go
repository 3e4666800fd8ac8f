package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// query packs a question, with EDNS if edns is set.
func query(t testing.TB, name string, typ dnsmessage.Type, class dnsmessage.Class, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 77, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: class}},
	}
	if edns {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, 0, true); err != nil {
			t.Fatal(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	return pack(t, m)
}

func pack(t testing.TB, m dnsmessage.Message) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return m
}

// inWords returns an answer in one line: its code and its records.
func inWords(m dnsmessage.Message) string {
	s := strings.TrimPrefix(m.RCode.String(), "RCode")
	for _, a := range m.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			s += " " + netip.AddrFrom4(body.A).String()
		case *dnsmessage.AAAAResource:
			s += " " + netip.AddrFrom16(body.AAAA).String()
		case *dnsmessage.PTRResource:
			s += " " + body.PTR.String()
		default:
			s += fmt.Sprintf(" %T", body)
		}
	}
	return s
}

func TestDNS(t *testing.T) {
	e := private(allowing("a.example", "*.wild.example", "b.example:8443", "_x.example", "9.9.9.9"), "db.internal:5432")
	e.Deny = allowing("bad.wild.example").Allow
	d := open(t, Config{Egress: e})
	const in, long = dnsmessage.ClassINET, "0123456789012345678901234567890123456789012345678901234567890."
	for _, test := range []struct {
		name  string
		typ   dnsmessage.Type
		class dnsmessage.Class
		want  string
	}{
		{"a.example.", dnsmessage.TypeA, in, "Success 198.18.0.1"},
		{"A.eXample.", dnsmessage.TypeA, in, "Success 198.18.0.1"},
		{"b.example.", dnsmessage.TypeA, in, "Success 198.18.0.2"},
		{"x.wild.example.", dnsmessage.TypeA, in, "Success 198.18.0.3"},
		{"x.y.wild.example.", dnsmessage.TypeA, in, "Success 198.18.0.4"},
		{"db.internal.", dnsmessage.TypeA, in, "Success 198.18.0.5"},
		{"_x.example.", dnsmessage.TypeA, in, "Success 198.18.0.6"},
		{"a.example.", dnsmessage.TypeAAAA, in, "Success"},
		{"a.example.", dnsmessage.TypeTXT, in, "Success"},
		{"a.example.", dnsmessage.TypeMX, in, "Success"},
		{"a.example.", dnsmessage.TypeNS, in, "Success"},
		{"a.example.", dnsmessage.TypeSOA, in, "Success"},
		{"a.example.", dnsmessage.TypeSRV, in, "Success"},
		{"_https._tcp.a.example.", dnsmessage.TypeSRV, in, "Success"},
		{"_https._tcp.other.example.", dnsmessage.TypeSRV, in, "NameError"},
		{"_https._tcp.a.example.", dnsmessage.TypeA, in, "NameError"},
		{"_https._tcp.", dnsmessage.TypeSRV, in, "NameError"},
		{"a.example.", 64, in, "Success"}, // SVCB
		{"a.example.", 65, in, "Success"}, // HTTPS
		{"a.example.", 65280, in, "Success"},
		{"new.wild.example.", dnsmessage.TypeAAAA, in, "Success"}, // and uses up no address
		{"localhost.", dnsmessage.TypeA, in, "Success 127.0.0.1"},
		{"LocalHost.", dnsmessage.TypeAAAA, in, "Success ::1"},
		{"x.localhost.", dnsmessage.TypeA, in, "Success 127.0.0.1"},
		{"localhost.", dnsmessage.TypeTXT, in, "Success"},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, in, "Success a.example."},
		{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, in, "Success localhost."},
		{"9.9.9.9.in-addr.arpa.", dnsmessage.TypePTR, in, "NameError"},
		{"999.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, in, "NameError"},

		{"other.example.", dnsmessage.TypeA, in, "NameError"},
		{"other.example.", dnsmessage.TypeAAAA, in, "NameError"},
		{"other.example.", dnsmessage.TypeTXT, in, "NameError"},
		{"example.", dnsmessage.TypeA, in, "NameError"},
		{"wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"bad.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"a.example.evil.example.", dnsmessage.TypeA, in, "NameError"},
		{"evila.example.", dnsmessage.TypeA, in, "NameError"},
		{"a.example.local.", dnsmessage.TypeA, in, "NameError"},
		{"localhost.example.", dnsmessage.TypeA, in, "NameError"},
		{".", dnsmessage.TypeA, in, "NameError"},
		{".", dnsmessage.TypeNS, in, "NameError"},
		{"9.9.9.9.", dnsmessage.TypeA, in, "NameError"},
		{"2130706433.", dnsmessage.TypeA, in, "NameError"},
		{"0x7f.1.", dnsmessage.TypeA, in, "NameError"},
		{"a b.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"a\x00.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"a\\.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"a\n.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"*.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"-a.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{"\xc3\xa4.wild.example.", dnsmessage.TypeA, in, "NameError"},
		{long + long + long + "wild.example.", dnsmessage.TypeA, in, "NameError"},
		{strings.Repeat("a.", maxFreeLabels) + "wild.example.", dnsmessage.TypeA, in, "NameError"},

		{"a.example.", dnsmessage.TypeALL, in, "Refused"},
		{"a.example.", dnsmessage.TypeAXFR, in, "Refused"},
		{"a.example.", 251, in, "Refused"}, // IXFR
		{"a.example.", 253, in, "Refused"}, // MAILB
		{"a.example.", 250, in, "Refused"}, // TSIG
		{"a.example.", 249, in, "Refused"}, // TKEY
		{"a.example.", dnsmessage.TypeOPT, in, "Refused"},
		{"a.example.", 0, in, "Refused"},
		{"a.example.", dnsmessage.TypeA, dnsmessage.ClassCHAOS, "Refused"},
		{"version.bind.", dnsmessage.TypeTXT, dnsmessage.ClassCHAOS, "Refused"},
		{"a.example.", dnsmessage.TypeA, dnsmessage.ClassANY, "Refused"},
		{"a.example.", dnsmessage.TypeA, 0, "Refused"},
	} {
		for _, edns := range []bool{false, true} {
			m := unpack(t, nameServer{d}.answer(nil, query(t, test.name, test.typ, test.class, edns)))
			if got := inWords(m); got != test.want {
				t.Errorf("%q %v %v: got %s, want %s", test.name, test.typ, test.class, got, test.want)
			}
			if !m.Response || m.ID != 77 || !m.RecursionDesired || !m.RecursionAvailable || m.AuthenticData || len(m.Authorities) != 0 {
				t.Errorf("%q: got header %+v", test.name, m.Header)
			}
			if len(m.Questions) != 1 || m.Questions[0].Name.String() != test.name || m.Questions[0].Type != test.typ {
				t.Errorf("%q: got questions %v", test.name, m.Questions)
			}
			for _, a := range m.Answers {
				if a.Header.Name.String() != test.name || a.Header.TTL != dnsTTL {
					t.Errorf("%q: got answer to %q with TTL %d", test.name, a.Header.Name, a.Header.TTL)
				}
			}
			if got := len(m.Additionals); got != map[bool]int{true: 1}[edns] {
				t.Errorf("%q: got %d additional records with EDNS %v", test.name, got, edns)
			}
		}
	}
	if d.names.knows(host(t, "new.wild.example")) || d.names.knows(host(t, "other.example")) {
		t.Error("a name took an address without a query for one that was answered")
	}
}

// A message that is not a plain query is not answered like one.
func TestDNSMalformed(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example")})
	good := query(t, "a.example.", dnsmessage.TypeA, dnsmessage.ClassINET, false)
	with := func(change func(b []byte) []byte) []byte { return change(slices.Clone(good)) }
	set := func(i int, b ...byte) []byte {
		return with(func(q []byte) []byte { copy(q[i:], b); return q })
	}
	q := dnsmessage.Question{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
	opt := func(version byte, name string) dnsmessage.Resource {
		return dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeOPT, Class: 1232, TTL: uint32(version) << 16},
			Body:   &dnsmessage.OPTResource{},
		}
	}
	a := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{}}
	for _, test := range []struct {
		what  string
		query []byte
		want  string // empty if no answer is expected
	}{
		{"nothing", nil, ""},
		{"half a header", good[:11], ""},
		{"an answer", set(2, 0x80), ""},
		{"a header only", good[:12], "FormatError"},
		{"half a question", good[:len(good)-3], "FormatError"},
		{"no question", set(4, 0, 0), "FormatError"},
		{"a question that is not there", set(4, 0, 2), "FormatError"},
		{"65535 questions", set(4, 0xff, 0xff), "FormatError"},
		{"two questions", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q, q}}), "FormatError"},
		{"an answer in it", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Answers: []dnsmessage.Resource{a}}), "FormatError"},
		{"an authority in it", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Authorities: []dnsmessage.Resource{a}}), "FormatError"},
		{"an inverse query", set(2, 1<<3), "NotImplemented"},
		{"a status query", set(2, 2<<3), "NotImplemented"},
		{"a notify", set(2, 4<<3), "NotImplemented"},
		{"an update", set(2, 5<<3), "NotImplemented"},
		{"a name that points at itself", set(12, 0xc0, 12), "FormatError"},
		{"a name that points ahead", set(12, 0xc0, 200), "FormatError"},
		{"a label too long", set(12, 64), "FormatError"},
		{"a dot in a label", set(12, 9, 'a', '.', 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0), "FormatError"},
		// with BADVERS, see below
		{"EDNS version 1", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Additionals: []dnsmessage.Resource{opt(1, ".")}}), "Success"},
		{"EDNS twice", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Additionals: []dnsmessage.Resource{opt(0, "."), opt(0, ".")}}), "FormatError"},
		{"EDNS of a name", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Additionals: []dnsmessage.Resource{opt(0, "a.example.")}}), "FormatError"},
		{"three more records", pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{q}, Additionals: []dnsmessage.Resource{a, a, a}}), "FormatError"},
		{"a record that is not there", set(10, 0, 1), "FormatError"},
	} {
		got := nameServer{d}.answer(nil, test.query)
		if got == nil || test.want == "" {
			if got != nil || test.want != "" {
				t.Errorf("%s: got %x, want %q", test.what, got, test.want)
			}
			continue
		}
		m := unpack(t, got)
		if inWords(m) != test.want || !m.Response {
			t.Errorf("%s: got %s, want %s", test.what, inWords(m), test.want)
		}
		if test.what == "EDNS version 1" && m.Additionals[0].Header.ExtendedRCode(m.RCode) != rcodeBadVersion {
			t.Errorf("%s: got %v", test.what, m.Additionals)
		}
	}
}

// A client that sends EDNS is informed that a policy refused the name.
func TestDNSBlocked(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example")})
	for name, want := range map[string][]dnsmessage.Option{"a.example.": nil, "b.example.": {blockedOption}} {
		m := unpack(t, nameServer{d}.answer(nil, query(t, name, dnsmessage.TypeA, dnsmessage.ClassINET, true)))
		opt, ok := m.Additionals[0].Body.(*dnsmessage.OPTResource)
		if !ok || !slices.EqualFunc(opt.Options, want, func(a, b dnsmessage.Option) bool { return a.Code == b.Code && string(a.Data) == string(b.Data) }) {
			t.Errorf("%s: got %v, want the options %v", name, m.Additionals, want)
		}
	}
}

// A refused name is reported once, and counted.
func TestDNSRefusals(t *testing.T) {
	var told records
	d := open(t, Config{Egress: allowing("a.example"), Record: told.add})
	ask := func(name string) {
		nameServer{d}.answer(nil, query(t, name, dnsmessage.TypeA, dnsmessage.ClassINET, false))
	}
	for range 5 {
		ask("pypi.example.")
	}
	ask("evil\n.example.")
	list, _ := d.Blocked(0)
	var got []string
	for _, r := range list {
		got = append(got, r.Refusal())
	}
	want := []string{
		`BLOCKED by the sandbox: look-up of pypi.example refused 5 times, no rule of the profile names it (profile "dev"). The host is not down. Allowed here: a.example.`,
		`BLOCKED by the sandbox: look-up of a name refused, host evil\n.example. is not a name: it contains more than letters, digits, hyphens, underscores and dots; write other letters in the xn-- form (profile "dev"). The host is not down. Reach the goal another way, or tell the person you work for.`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if list := told.list(); len(list) != 2 || list[0].Proto != "dns" || list[0].Host.Name() != "pypi.example" {
		t.Errorf("got %d records, want one of each name: %+v", len(list), list)
	}

	// Any number of new names cannot flood the program that writes the records.
	for i := range 10 * throttleKinds {
		ask(fmt.Sprintf("n%d.example.", i))
	}
	if n := len(told.list()); n > throttleKinds {
		t.Errorf("got %d records in a moment, want at most %d", n, throttleKinds)
	}
	if list, _ := d.Blocked(0); len(list) != maxBlocked {
		t.Errorf("got %d refusals kept, want %d", len(list), maxBlocked)
	}
}

// A rule with a star lets a box send data, in names, to the servers of these names. The
// number of new names is limited.
func TestFreeNames(t *testing.T) {
	d := open(t, Config{Egress: allowing("*.wild.example", "spelt.example")})
	given := 0
	for i := range 2 * freeNames {
		q := query(t, fmt.Sprintf("n%d.wild.example.", i), dnsmessage.TypeA, dnsmessage.ClassINET, false)
		if m := unpack(t, nameServer{d}.answer(nil, q)); m.RCode == dnsmessage.RCodeSuccess {
			given++
		}
	}
	if given < freeNames || given > freeNames+freeNames/10 {
		t.Errorf("got %d new names at once, want %d", given, freeNames)
	}
	// A name that is known already, or that the policy spells out, is still answered. A
	// further name is refused, also by Dial.
	for _, name := range []string{"n1.wild.example.", "spelt.example."} {
		if m := unpack(t, nameServer{d}.answer(nil, query(t, name, dnsmessage.TypeA, dnsmessage.ClassINET, false))); m.RCode != dnsmessage.RCodeSuccess {
			t.Errorf("%s: got %v", name, m.RCode)
		}
	}
	_, err := d.Dial(t.Context(), "tcp", "more.wild.example:443")
	if r, ok := errors.AsType[*Refused](err); !ok || r.Record.Rule != ruleLimits {
		t.Errorf("dial of a further name: got %v", err)
	}
	// The advice fits the bound: no pause makes a long name shorter.
	for name, want := range map[string]string{
		"more.wild.example": "Go more slowly.",
		strings.Repeat("a.", maxFreeLabels) + "wild.example":            "Use a shorter name",
		strings.Repeat(strings.Repeat("a", 60)+".", 3) + "wild.example": "Use a shorter name",
	} {
		_, err := d.Dial(t.Context(), "tcp", name+":443")
		if r, ok := errors.AsType[*Refused](err); !ok || !strings.HasPrefix(r.Record.Instead, want) {
			t.Errorf("dial of %s: got %+v, want the advice %q", name, err, want)
		}
	}
}

// serveDNS serves a door's names on loopback, and returns a resolver that uses this server.
func serveDNS(t testing.TB, d *Door) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	go func() { served <- d.ServeDNS(pc) }()
	go func() { served <- d.ServeDNSStream(l) }()
	t.Cleanup(func() {
		d.Close()
		for range 2 {
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		addr := pc.LocalAddr()
		if strings.HasPrefix(network, "tcp") {
			addr = l.Addr()
		}
		return (&net.Dialer{}).DialContext(ctx, addr.Network(), addr.String())
	}}
}

func TestServeDNS(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example")})
	r := serveDNS(t, d)
	for range 2 {
		addrs, err := r.LookupHost(t.Context(), "a.example.")
		if err != nil || !slices.Equal(addrs, []string{"198.18.0.1"}) {
			t.Errorf("got %v, %v", addrs, err)
		}
	}
	if addrs, err := r.LookupHost(t.Context(), "pypi.example."); err == nil {
		t.Errorf("got %v for a name that is not allowed", addrs)
	}
	if names, err := r.LookupAddr(t.Context(), "198.18.0.1"); err != nil || !slices.Equal(names, []string{"a.example."}) {
		t.Errorf("got %v, %v", names, err)
	}

	// Over TCP, two queries in one write, then a length that is too large.
	c, err := r.Dial(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q := query(t, "a.example.", dnsmessage.TypeA, dnsmessage.ClassINET, true)
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	if _, err := c.Write(append(slices.Clone(framed), framed...)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var n [2]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint16(n[:]))
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		if got := inWords(unpack(t, b)); got != "Success 198.18.0.1" {
			t.Errorf("got %s over TCP", got)
		}
	}
	if _, err := c.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("got %d bytes for a query that is too large, want the end", n)
	}
}

func FuzzDNS(f *testing.F) {
	f.Add(query(f, "a.example.", dnsmessage.TypeA, dnsmessage.ClassINET, false))
	f.Add(query(f, "x.wild.example.", dnsmessage.TypeA, dnsmessage.ClassINET, true))
	f.Add(query(f, "localhost.", dnsmessage.TypeAAAA, dnsmessage.ClassINET, true))
	f.Add(query(f, "1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.ClassINET, false))
	f.Add(query(f, "pypi.example.", dnsmessage.TypeALL, dnsmessage.ClassANY, true))
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	d := open(f, Config{Egress: allowing("a.example", "*.wild.example")})
	f.Fuzz(func(t *testing.T, q []byte) {
		got := nameServer{d}.answer(nil, q)
		if got == nil {
			return
		}
		if len(got) > 600 {
			t.Fatalf("got an answer of %d bytes", len(got))
		}
		m := unpack(t, got)
		if !m.Response || m.ID != binary.BigEndian.Uint16(q) || q[2]&0x80 != 0 {
			t.Fatalf("got %+v for %x", m.Header, q)
		}
		if (nameServer{d}).answer(nil, got) != nil {
			t.Fatal("an answer was answered")
		}
		for _, a := range m.Answers {
			body, ok := a.Body.(*dnsmessage.AResource)
			if !ok {
				continue
			}
			addr := netip.AddrFrom4(body.A)
			h, known := d.names.name(addr)
			if !addr.IsLoopback() && (!known || h != host(t, a.Header.Name.String()) || !d.current.Load().Names(h)) {
				t.Fatalf("got %v for %v", addr, a.Header.Name)
			}
		}
	})
}

func BenchmarkDNS(b *testing.B) {
	d := open(b, Config{Egress: allowing("a.example", "*.wild.example")})
	for _, name := range []string{"a.example.", "pypi.example."} {
		q := query(b, name, dnsmessage.TypeA, dnsmessage.ClassINET, true)
		buf := make([]byte, 0, maxQuery)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if (nameServer{d}).answer(buf, q) == nil {
					b.Fatal("no answer")
				}
			}
		})
	}
}
