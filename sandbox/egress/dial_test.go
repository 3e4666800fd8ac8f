package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// TestPermit checks to which addresses a connection that the policy allows by its host may
// go.
func TestPermit(t *testing.T) {
	e := private(allowing("*", "db.example:5432", "10.7.7.7"), "db.example:5432", "10.1.2.3:5432", "home.example", "localhost:3000", "10.7.7.7", "169.254.169.254:80", "198.18.0.7:80")
	e.Allow = append(e.Allow, policies.EgressRule{Host: "10.5.5.5", Ports: []uint16{443}, Methods: []string{"GET"}})
	private(e, "10.5.5.5:443")
	e.Deny = []policies.EgressRule{{Host: "9.9.9.9"}, {Host: "10.1.2.4"}}
	d := open(t, Config{Egress: e})
	for _, test := range []struct {
		host string
		port uint16
		addr string
		want string // part of the refusal; empty if the address is allowed
	}{
		{"a.example", 443, "93.184.216.34", ""},
		{"a.example", 443, "::ffff:93.184.216.34", ""},
		{"a.example", 443, "2606:4700:4700::1111", ""},
		{"a.example", 443, "127.0.0.1", "Loopback"},
		{"a.example", 443, "::ffff:127.0.0.1", "Loopback"},
		{"a.example", 443, "0.0.0.0", "This host"},
		{"a.example", 443, "::", "Unspecified"},
		{"a.example", 443, "10.0.0.1", "Private-Use"},
		{"a.example", 443, "fe80::1%lo", "interface"},
		{"a.example", 80, "169.254.169.254", "cloud metadata"}, // although there is a rule for the address
		{"a.example", 443, "9.9.9.9", "the profile denies it"}, // whatever name leads to it
		{"a.example", 443, "64:ff9b::9.9.9.9", "the profile denies it"},

		// A person's own servers: by name and port, ...
		{"db.example", 5432, "10.1.2.9", ""},
		{"db.example", 5432, "127.0.0.1", ""},
		{"db.example", 5432, "10.1.2.4", "the profile denies it"},
		{"db.example", 443, "10.1.2.9", "Private-Use"},
		{"db.example", 5432, "169.254.169.254", "cloud metadata"},
		{"db.example", 5432, "100.100.100.200", "cloud metadata"},
		{"db.example", 5432, "fd00:ec2::254", "cloud metadata"},
		{"db.example", 5432, "2002:a9fe:a9fe::", "cloud metadata"},
		{"db.example", 5432, "198.18.0.1", "Benchmarking"}, // a fake address leads nowhere
		{"db.example", 5432, "64:ff9b::198.18.0.1", "Benchmarking"},
		{"home.example", 443, "192.168.1.1", ""},
		{"home.example", 80, "192.168.1.1", ""},
		{"x.home.example", 443, "192.168.1.1", "Private-Use"},
		{"localhost", 3000, "127.0.0.1", ""},
		{"localhost", 3001, "127.0.0.1", "Loopback"},
		{"x.localhost", 3000, "127.0.0.1", "Loopback"},

		// ... and by address and port.
		{"10.1.2.3", 5432, "10.1.2.3", ""},
		{"a.example", 5432, "10.1.2.3", ""},
		{"a.example", 443, "10.1.2.3", "Private-Use"},
		{"10.7.7.7", 443, "10.7.7.7", ""},
		{"a.example", 443, "10.7.7.7", ""},
		{"10.5.5.5", 443, "10.5.5.5", ""},
		{"a.example", 443, "10.5.5.5", "Private-Use"},  // a way around the rule about requests
		{"169.254.169.254", 80, "169.254.169.254", ""}, // the rule spells out the address
		{"169.254.169.254", 443, "169.254.169.254", "cloud metadata"},
		{"198.18.0.7", 80, "198.18.0.7", "Benchmarking"},
	} {
		got := d.permit(d.current.Load(), host(t, test.host), test.port, netip.MustParseAddr(test.addr))
		switch {
		case got == nil:
			if test.want != "" {
				t.Errorf("%s:%d at %s: got allowed, want %q", test.host, test.port, test.addr, test.want)
			}
		case test.want == "" || !strings.Contains(got.Record.Reason, test.want):
			t.Errorf("%s:%d at %s: got %v, want %q", test.host, test.port, test.addr, got, test.want)
		case got.Record.Rule == "" || got.Record.Port != test.port || !got.Record.Addr.IsValid():
			t.Errorf("%s:%d at %s: got record %+v", test.host, test.port, test.addr, got.Record)
		}
	}
}

// Every row is a host that gets no connection. No row reaches a network.
func TestDialRefuses(t *testing.T) {
	resolver := &answers{known: map[string][]string{
		"cname.example":  {"169.254.169.254"}, // for example by a CNAME
		"inner.example":  {"10.0.0.1", "::1", "fe80::1"},
		"v4in6.example":  {"::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"},
		"none.example":   {},
		"zone.example":   {"fe80::1%eth0"},
		"listed.example": {"198.18.0.1"},
	}}
	var told records
	e := allowing("*", "1.2.3.4", "127.0.0.1", "0.0.0.0", "::", "::1", "localhost", "169.254.169.254", "::ffff:127.0.0.1", "2130706433.example")
	e.Deny = []policies.EgressRule{{Host: "*.denied.example"}}
	d := open(t, Config{Egress: e, Resolver: resolver, Record: told.add})
	for _, test := range []struct {
		address string
		want    string
		refused bool
	}{
		{"cname.example:80", "cname.example:80: refused: 169.254.169.254 is a cloud metadata address", true},
		{"inner.example:80", "10.0.0.1 is not a public address", true},
		{"v4in6.example:80", "127.0.0.1 is not a public address", true},
		{"listed.example:80", "198.18.0.1 is not a public address", true},
		{"none.example:80", "has no address", false},
		{"zone.example:80", "has no address", false},
		{"unknown.example:80", "no such host", false},
		{"x.denied.example:443", "the profile denies it", true},
		{"other.example:22", "port 80 or 443, not on 22", true},
		{"8.8.8.8:53", "only where a rule names it", true},
		{"127.0.0.1:80", "Loopback", true},
		{"[::1]:80", "Loopback", true},
		{"[::ffff:127.0.0.1]:80", "Loopback", true},
		{"0.0.0.0:80", "This host", true},
		{"[::]:80", "Unspecified", true},
		{"localhost:80", "Loopback", true},
		{"LOCALHOST.:80", "Loopback", true},
		{"169.254.169.254:80", "cloud metadata", true},
		{"2130706433:80", "is a number", true},
		{"0x7f000001:80", "is a number", true},
		{"0x7f.1:80", "is a number", true}, // its last part is a number
		{"127.1:80", "is a number", true},
		{"0177.0.0.1:80", "is a number", true},
		{"127.0.0.1.:80", "is a number", true},
		{"evil.example\x00.a.example:80", "is not a name", true},
		{"a.example%00:80", "is not a name", true},
		{"a.example/:80", "is not a name", true},
		{"a..example:80", "is not a name", true},
		{"user@a.example:80", "is not a name", true},
		{"ａ.example:80", "is not a name", true}, // a full-width letter
		{"a\u3002example:80", "is not a name", true},
		{"[fe80::1%eth0]:80", "zone", true},
		{":80", "no host", true},
		{"a.example:0", "port 0", false},
		{"a.example:+80", "port +80", false},
		{"a.example:http", "port http", false},
		{"a.example:65616", "port 65616", false},
		{"a.example", "missing port", false},
	} {
		c, err := d.Dial(t.Context(), "tcp", test.address)
		if err == nil {
			c.Close()
			t.Errorf("%q: got a connection", test.address)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.address, err, test.want)
		}
		if r, ok := errors.AsType[*Refused](err); ok != test.refused {
			t.Errorf("%q: got refused %v of %v, want %v", test.address, ok, err, test.refused)
		} else if ok && !strings.HasPrefix(r.Record.Refusal(), "BLOCKED by the sandbox: ") {
			t.Errorf("%q: got refusal %q", test.address, r.Record.Refusal())
		}
	}
	if _, err := d.Dial(t.Context(), "udp", "a.example:80"); err == nil || !strings.Contains(err.Error(), "only tcp") {
		t.Errorf("udp: got %v", err)
	}
	for _, name := range resolver.asked {
		if strings.HasSuffix(name, "denied.example") || name == "other.example" || strings.Contains(name, "localhost") {
			t.Errorf("%s was resolved before it was judged", name)
		}
	}
	for _, r := range told.list() {
		if r.Allowed && r.Reason == "" {
			t.Errorf("got record of a connection that was made: %+v", r)
		}
	}
}

// An address that turns bad between the check and the system call is not connected to.
func TestDialLooksAgain(t *testing.T) {
	d := open(t, Config{Egress: allowing("a.example"), Resolver: &answers{known: map[string][]string{"a.example": {"93.184.216.34"}}}})
	reads := 0
	d.own.read = func() ([]net.Addr, error) {
		reads++
		if reads == 1 {
			return nil, nil
		}
		return []net.Addr{&net.IPNet{IP: net.ParseIP("93.184.216.34"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	d.own.keep = 0
	c, err := d.Dial(t.Context(), "tcp", "a.example:443")
	if err == nil {
		c.Close()
		t.Fatal("got a connection")
	}
	r, ok := errors.AsType[*Refused](err)
	if !ok || !strings.Contains(r.Record.Reason, "the host that the sandbox runs on") {
		t.Errorf("got %v, want a refusal", err)
	}
	if reads < 2 {
		t.Errorf("got %d looks, want one before and one in the dialler", reads)
	}
}

// A name may have bad addresses in addition to good ones; only the good ones are dialled.
func TestDialTakesTheGoodOnes(t *testing.T) {
	p := echo(t)
	resolver := &answers{known: map[string][]string{"mixed.example": {"169.254.169.254", "fe80::1", "127.0.0.1", "198.18.0.1"}}}
	var told records
	d := open(t, Config{Egress: private(allowing(), at("mixed.example", p)), Resolver: resolver, Record: told.add})
	for range 3 {
		c, err := d.Dial(t.Context(), "tcp", at("MIXED.example.", p))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != at("127.0.0.1", p) {
			t.Errorf("got connected to %s", got)
		}
		ping(t, c, "hello")
		c.Close()
		c.Close()
	}
	if n := resolver.lookups(); n != 1 {
		t.Errorf("got %d look-ups for 3 connections in a moment, want 1", n)
	}
	list := told.list()
	if len(list) != 3 {
		t.Fatalf("got %d records, want 3: %+v", len(list), list)
	}
	if r := list[0]; !r.Allowed || r.Host.Name() != "mixed.example" || r.Port != p || r.Addr.String() != at("127.0.0.1", p) ||
		r.Sent != 5 || r.Received != 5 || r.Rule != "allow_private mixed.example" || r.Profile != "dev" || r.Proto != "tcp" || r.Refusal() != "" {
		t.Errorf("got record %+v", r)
	}
}

// ping sends text to an echo server and waits until the text comes back.
func ping(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
		t.Fatalf("got %q, %v, want %q", buf, err, text)
	}
}

// TestRace checks that Dial connects to the first address that answers, which is the third
// one here, and that it returns an error if all addresses are dead.
func TestRace(t *testing.T) {
	p := echo(t)
	d := open(t, Config{Egress: private(allowing(), at("a.example", p)), Resolver: &answers{known: map[string][]string{
		"a.example": {"127.0.0.2", "::1", "127.0.0.1", "127.0.0.1"}, // echo listens on the third
	}}})
	c, err := d.Dial(t.Context(), "tcp", at("a.example", p))
	if err != nil {
		t.Fatal(err)
	}
	ping(t, c, "x")
	c.Close()

	// All addresses are dead: the error is that of the first one, and the answer of the
	// resolver is forgotten.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := port(l.Addr())
	l.Close()
	resolver := &answers{known: map[string][]string{"a.example": {"127.0.0.1", "127.0.0.2"}}}
	d = open(t, Config{Egress: private(allowing(), at("a.example", dead)), Resolver: resolver})
	for range 2 {
		_, err = d.Dial(t.Context(), "tcp", at("a.example", dead))
		if err == nil || !strings.Contains(err.Error(), "connection refused") || errors.As(err, new(*Refused)) {
			t.Errorf("got %v, want connection refused", err)
		}
	}
	if n := resolver.lookups(); n != 2 {
		t.Errorf("got %d look-ups, want 2", n)
	}
}

func TestInterleave(t *testing.T) {
	var addrs []netip.Addr
	for _, s := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "10.0.0.1"} {
		addrs = append(addrs, netip.MustParseAddr(s))
	}
	var got []string
	for _, a := range interleave(addrs) {
		got = append(got, a.String())
	}
	if want := "2001:db8::1 10.0.0.1 2001:db8::2 2001:db8::3"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// stuck is a resolver that answers nothing until its context ends.
type stuck struct{ asked chan struct{} }

func (s stuck) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestClose checks that Close ends connections, also those that are being made, and waits
// for them.
func TestClose(t *testing.T) {
	p := echo(t)
	d := open(t, Config{Egress: private(allowing(), at("localhost", p))})
	c, err := d.Dial(t.Context(), "tcp", at("localhost", p))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("read after close: got %v, want %v", err, ErrClosed)
	}
	for what, err := range map[string]error{
		"close": d.Close(),
		"set":   d.Set(allowing("a.example")),
	} {
		if want := map[string]error{"set": ErrClosed}[what]; !errors.Is(err, want) {
			t.Errorf("%s after close: got %v, want %v", what, err, want)
		}
	}
	if _, err := d.Dial(t.Context(), "tcp", at("localhost", p)); !errors.Is(err, ErrClosed) {
		t.Errorf("dial after close: got %v", err)
	}

	resolver := stuck{make(chan struct{}, 1)}
	d = open(t, Config{Egress: allowing("a.example"), Resolver: resolver})
	failed := make(chan error)
	go func() {
		_, err := d.Dial(context.WithoutCancel(t.Context()), "tcp", "a.example:80")
		failed <- err
	}()
	<-resolver.asked
	closed := make(chan error)
	go func() { closed <- d.Close() }()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("dial while the door closes: got %v, want %v", err, ErrClosed)
	}
	<-closed
}

func BenchmarkDial(b *testing.B) {
	p := echo(b)
	d := open(b, Config{Egress: private(allowing(), at("db.example", p)), Resolver: &answers{known: map[string][]string{"db.example": {"127.0.0.1"}}}})
	dialer := &net.Dialer{}
	for name, dial := range map[string]func() (net.Conn, error){
		"door": func() (net.Conn, error) { return d.Dial(b.Context(), "tcp", at("db.example", p)) },
		"net":  func() (net.Conn, error) { return dialer.DialContext(b.Context(), "tcp", at("127.0.0.1", p)) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := dial()
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}
