package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// site is the name of the server that tests of the relay talk to.
const site = "site.example"

// serving is a door in front of one server, with both ways in served.
type serving struct {
	d       *Door
	records *records
	port    uint16 // port of the server
	through net.Listener
	proxy   net.Listener
	target  atomic.Pointer[netip.AddrPort] // address of the next transparent connection
}

// serve starts a door that allows the port of a server on loopback under the name of the
// site. change may change the configuration; it may be nil.
func serve(t testing.TB, server uint16, change func(*Config)) *serving {
	t.Helper()
	s := &serving{port: server, records: &records{}}
	cfg := Config{
		Egress:   private(allowing(at(site, server)), at(site, server)),
		Resolver: &answers{known: map[string][]string{site: {"127.0.0.1"}, "other.example": {"127.0.0.1"}}},
		Record:   s.records.add,
	}
	if change != nil {
		change(&cfg)
	}
	s.d = open(t, cfg)
	s.target.Store(&netip.AddrPort{})
	s.through, s.proxy = listen(t), listen(t)
	var served sync.WaitGroup
	served.Go(func() {
		s.d.ServeTransparent(s.through, func(net.Conn) (netip.AddrPort, error) { return *s.target.Load(), nil })
	})
	served.Go(func() { s.d.ServeProxy(s.proxy) })
	t.Cleanup(func() { s.d.Close(); served.Wait() })
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dial connects like a box that has looked up the name.
func (s *serving) dial(t testing.TB, name string, port uint16) net.Conn {
	t.Helper()
	addr, ok := s.d.names.give(host(t, name))
	if !ok {
		t.Fatalf("no address for %s", name)
	}
	return s.dialAddr(t, netip.AddrPortFrom(addr, port))
}

func (s *serving) dialAddr(t testing.TB, to netip.AddrPort) net.Conn {
	t.Helper()
	s.target.Store(&to)
	return reach(t, s.through)
}

// site connects to the server.
func (s *serving) site(t testing.TB) net.Conn { return s.dial(t, site, s.port) }

// reach connects to a listener. The connection has a deadline, so that a test that waits in
// vain fails.
func reach(t testing.TB, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if errors.Is(err, syscall.ECONNRESET) {
		return alreadyReset{}
	}
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

// alreadyReset is a connection that was reset while it was made.
type alreadyReset struct{ net.Conn }

func (alreadyReset) Read([]byte) (int, error)    { return 0, syscall.ECONNRESET }
func (alreadyReset) Write(p []byte) (int, error) { return 0, syscall.ECONNRESET }
func (alreadyReset) CloseWrite() error           { return nil }

// server starts a TCP server on loopback, and returns its port.
func server(t testing.TB, handle func(net.Conn)) uint16 {
	t.Helper()
	l := listen(t)
	var conns sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			conns.Go(func() { defer c.Close(); handle(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return port(l.Addr())
}

// await waits until a record fits, and returns it.
func (s *serving) await(t testing.TB, fits func(Record) bool) Record {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		for _, r := range s.records.list() {
			if fits(r) {
				return r
			}
		}
		wait := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(wait) })
		<-wait
	}
	t.Fatalf("no record fits; there are %+v", s.records.list())
	return Record{}
}

// wantReset fails the test unless the connection is reset before it returns a byte.
func wantReset(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: got %d bytes, %v; want a reset", n, err)
	}
}

func exchanged(t testing.TB, c net.Conn, send, want string) {
	t.Helper()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func TestOpaqueIsRelayedBothWays(t *testing.T) {
	s := serve(t, echo(t), nil)
	for _, begin := range []string{"SSH-2.0-test\r\n", "0032git-upload-pack /p\x00host=site.example\x00", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "*1\r\n$4\r\nPING\r\n", "GET key\r\n"} {
		c := s.site(t)
		exchanged(t, c, begin, begin)
		long := strings.Repeat("0123456789abcdef", 64<<10) // longer than a chunk
		var sent sync.WaitGroup
		sent.Go(func() {
			io.WriteString(c, long)
			closeWrite(c)
		})
		got, err := io.ReadAll(c)
		sent.Wait()
		if err != nil || string(got) != long {
			t.Errorf("after %q: got %d bytes back, %v; want %d", begin, len(got), err, len(long))
		}
		want := int64(len(begin) + len(long))
		r := s.await(t, func(r Record) bool { return r.Sent == want })
		if !r.Allowed || r.Received != want || r.Proto != "tcp" || r.Host.String() != site || r.Reason != "" {
			t.Errorf("record: got %+v", r)
		}
	}
}

func TestServerMaySpeakFirst(t *testing.T) {
	greeting := server(t, func(c net.Conn) {
		io.WriteString(c, "220 ready\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, "250 "+line)
	})
	c := serve(t, greeting, nil).site(t)
	exchanged(t, c, "", "220 ready\r\n")
	exchanged(t, c, "EHLO box\r\n", "250 EHLO box\r\n")
}

// TestServerSpeaksMeanwhile has a client that sends the beginning of a possible request,
// and a server that speaks before the request is complete.
func TestServerSpeaksMeanwhile(t *testing.T) {
	begun := make(chan struct{})
	greeting := server(t, func(c net.Conn) {
		<-begun
		io.WriteString(c, "220 ready\r\n")
		io.Copy(c, c)
	})
	c := serve(t, greeting, nil).site(t)
	io.WriteString(c, "HELO")
	close(begun)
	exchanged(t, c, "", "220 ready\r\nHELO")
	exchanged(t, c, " GET / HTTP/1.1\r\n", " GET / HTTP/1.1\r\n")
}

func TestHalfCloseGoesThrough(t *testing.T) {
	// The client sends nothing and closes its sending direction (nc host daytime).
	day := server(t, func(c net.Conn) {
		if _, err := io.ReadAll(c); err == nil {
			io.WriteString(c, "Sunday")
		}
	})
	c := serve(t, day, nil).site(t)
	closeWrite(c)
	if got, err := io.ReadAll(c); string(got) != "Sunday" || err != nil {
		t.Errorf("got %q, %v; want what the server says at the end", got, err)
	}
}

func TestRefusedConnectionIsReset(t *testing.T) {
	s := serve(t, echo(t), nil)
	for _, to := range []netip.AddrPort{
		netip.AddrPortFrom(netip.MustParseAddr("198.18.77.77"), s.port), // no name has this address
		netip.MustParseAddrPort("1.2.3.4:443"),                          // no rule names this address
		netip.MustParseAddrPort("127.0.0.1:22"),
		netip.MustParseAddrPort("169.254.169.254:80"),
	} {
		wantReset(t, s.dialAddr(t, to))
		r := s.await(t, func(r Record) bool { return r.Addr == to })
		if r.Allowed || !strings.HasPrefix(r.Refusal(), "BLOCKED by the sandbox: connect to "+to.String()) {
			t.Errorf("%v: got %q", to, r.Refusal())
		}
	}
	wantReset(t, s.dial(t, "other.example", s.port))
	wantReset(t, s.dial(t, site, s.port+1))
}

// identityFor returns a certificate for the names, and a pool that trusts it.
func identityFor(t testing.TB, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secure starts a TLS server that sends back what it receives, and returns its port.
func secure(t testing.TB, id tls.Certificate) uint16 {
	return server(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{id}})
		io.Copy(s, s)
	})
}

func TestTLSMustNameTheHost(t *testing.T) {
	id, roots := identityFor(t, site, "other.example")
	at127 := func(cfg *Config) {
		cfg.Egress.Allow = append(cfg.Egress.Allow, policies.EgressRule{Host: "127.0.0.1", Ports: cfg.Egress.Allow[0].Ports})
		cfg.Egress.Private = append(cfg.Egress.Private, policies.PrivateRule{Host: policies.HostAddr(netip.MustParseAddr("127.0.0.1"))})
	}
	s := serve(t, secure(t, id), at127)
	for _, row := range []struct {
		asked, name string
		split       bool
		ok          bool
	}{
		{site, site, false, true},
		{site, "SITE.example", false, true},
		{site, "site.example.", false, true}, // crypto/tls sends the name without its dot
		{site, site, true, true},
		{site, "other.example", false, false},
		{site, "", false, false},
		{"127.0.0.1", "", false, true},
		{"127.0.0.1", site, false, false},
	} {
		var c net.Conn
		if row.asked == site {
			c = s.site(t)
		} else {
			c = s.dialAddr(t, netip.AddrPortFrom(netip.MustParseAddr(row.asked), s.port))
		}
		if row.split {
			c = inPieces{c}
		}
		client := tls.Client(c, &tls.Config{ServerName: row.name, RootCAs: roots, InsecureSkipVerify: row.name == ""})
		err := client.Handshake()
		if (err == nil) != row.ok {
			t.Errorf("%+v: handshake: %v", row, err)
		}
		if row.ok {
			exchanged(t, client, "hello", "hello")
			continue
		}
		r := s.await(t, func(r Record) bool { return !r.Allowed && (row.name == "" || strings.Contains(r.Reason, row.name)) })
		if r.Proto != "tls" || !strings.HasPrefix(r.Reason, "SNI mismatch") {
			t.Errorf("%+v: record %+v", row, r)
		}
	}
}

// TestSecondHelloMustNameTheHost has a server that asks for a second ClientHello, for
// example for another key exchange.
func TestSecondHelloMustNameTheHost(t *testing.T) {
	id, roots := identityFor(t, site, "other.example")
	var asked atomic.Pointer[string]
	server := server(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{
			MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP384},
			GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				asked.Store(&h.ServerName)
				return &id, nil
			},
		})
		io.Copy(s, s)
	})
	s := serve(t, server, nil)
	c := tls.Client(s.site(t), &tls.Config{ServerName: site, RootCAs: roots})
	if err := c.Handshake(); err != nil || !c.ConnectionState().HelloRetryRequest {
		t.Fatalf("got %v, %+v; want a handshake with a second hello", err, c.ConnectionState().HelloRetryRequest)
	}
	exchanged(t, c, "hello", "hello")

	for name, between := range map[string]string{
		"at once":            "",
		"behind appearances": "\x14\x03\x03\x00\x01\x01",
		"behind early data":  "\x17\x03\x03\x00\x04abcd\x17\x03\x03\x00\x04abcd",
		"behind a flood":     strings.Repeat("\x14\x03\x03\x00\x01\x01", 2*maxSkipped),
	} {
		asked.Store(nil)
		raw := s.site(t)
		raw.Write(helloOf(site, nil))
		// the server asks for a second ClientHello
		if _, err := io.ReadFull(raw, make([]byte, recordHeader+1)); err != nil {
			t.Fatal(err)
		}
		io.WriteString(raw, between)
		raw.Write(helloOf("other.example", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }))
		io.Copy(io.Discard, raw) // until the connection ends
		if got := asked.Load(); got != nil {
			t.Errorf("%s: the server was asked for %s", name, *got)
		}
	}
	// During the flood, the server may give up before the door does.
	s.await(t, func(Record) bool {
		n := 0
		for _, r := range s.records.list() {
			if !r.Allowed && r.Rule == "SNI" {
				n++
			}
		}
		return n == 3
	})
}

// inPieces is a connection that writes in pieces of 40 bytes.
type inPieces struct{ net.Conn }

func (c inPieces) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i += 40 {
		if _, err := c.Conn.Write(p[i:min(i+40, len(p))]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// TestRulesAboutRequestsNeedRequests has a rule about methods, which can be enforced only
// for requests in the clear.
func TestRulesAboutRequestsNeedRequests(t *testing.T) {
	id, _ := identityFor(t, site)
	for name, begin := range map[string]func(net.Conn) error{
		"TLS":     func(c net.Conn) error { return tls.Client(c, &tls.Config{ServerName: site}).Handshake() },
		"HTTP/2":  said("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"ssh":     said("SSH-2.0-x\r\n"),
		"nothing": closeWrite,
	} {
		s := serve(t, secure(t, id), func(cfg *Config) { cfg.Egress.Allow[0].Methods = []string{"GET"} })
		c := s.site(t)
		err := begin(c)
		if err == nil {
			_, err = io.ReadAll(c)
		}
		if err == nil {
			t.Errorf("%s: the connection went well; want a reset", name)
		}
		if r := s.await(t, func(r Record) bool { return !r.Allowed }); r.Rule != "requests" {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// said returns a function that writes the text.
func said(text string) func(net.Conn) error {
	return func(c net.Conn) error { _, err := io.WriteString(c, text); return err }
}

// TestOpeningIsBounded has clients whose first bytes never show the protocol.
func TestOpeningIsBounded(t *testing.T) {
	for name, row := range map[string]struct {
		begin string
		every time.Duration // time between further bytes; 0 if there are none
		most  time.Duration
	}{
		"half a request line": {"GET / HT", 0, openingTime},
		"drops of TLS":        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", time.Second, openingTime},
		"drops of a method":   {"G", time.Second, openingTime},
		"a flood of drops":    {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", time.Microsecond, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			client := newSide(here, nil)
			defer client.free()
			r := relay{flow: &flow{d: &Door{}}, client: client}
			var drip sync.WaitGroup
			drip.Go(func() {
				io.WriteString(there, row.begin)
				for row.every > 0 {
					time.Sleep(row.every)
					if _, err := there.Write([]byte{'A'}); err != nil {
						return
					}
				}
			})
			start := time.Now()
			_, err := r.peek(new(atomic.Bool))
			if _, ok := errors.AsType[*Refused](err); !ok || time.Since(start) > row.most {
				t.Errorf("%s: got %v after %v; want a refusal within %v", name, err, time.Since(start), row.most)
			}
			here.Close()
			drip.Wait()
		})
	}
}

func TestHalfOpenFloodIsBounded(t *testing.T) {
	s := serve(t, echo(t), func(cfg *Config) { cfg.Egress.Limits.Conns = 4 })
	var silent []net.Conn
	for range 4 {
		c := s.site(t)
		exchanged(t, c, "\x00", "\x00") // the connection has its slot
		silent = append(silent, c)
	}
	for range 20 {
		wantReset(t, s.site(t))
	}
	silent[0].Close()
	s.await(t, func(r Record) bool { return r.Allowed })
	exchanged(t, s.site(t), "\x00again", "\x00again")
}

func TestSilentConnectionIsClosed(t *testing.T) {
	s := serve(t, echo(t), func(cfg *Config) { cfg.Egress.Limits.Idle = 50 * time.Millisecond })
	c := s.site(t)
	exchanged(t, c, "\x00", "\x00")
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v; want the end of the connection", err)
	}
	s.await(t, func(r Record) bool { return strings.Contains(r.Reason, errIdle.Error()) })
}

func TestBytesAreBounded(t *testing.T) {
	const most = 1 << 20
	s := serve(t, echo(t), func(cfg *Config) { cfg.Egress.Limits.Bytes = most })
	c := s.site(t)
	var sent sync.WaitGroup
	sent.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	})
	n, _ := io.Copy(io.Discard, c)
	sent.Wait()
	if n > most+2*chunk {
		t.Errorf("%d bytes came back; want at most %d", n, most+2*chunk)
	}
	r := s.await(t, func(r Record) bool { return !r.Allowed })
	if got := r.Sent + r.Received; got > most+2*chunk {
		t.Errorf("%d bytes went through; want at most %d", got, most+2*chunk)
	}
	wantReset(t, s.site(t))
}

func TestCloseEndsRelays(t *testing.T) {
	s := serve(t, echo(t), nil)
	c := s.site(t)
	exchanged(t, c, "\x00", "\x00")
	if err := s.d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its door")
	}
	var proto []string
	for _, r := range s.records.list() {
		proto = append(proto, r.Proto)
	}
	if diff := cmp.Diff([]string{"tcp"}, proto); diff != "" {
		t.Error(diff)
	}
}
