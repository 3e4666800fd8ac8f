package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// secureWeb starts a web over TLS.
func secureWeb(t testing.TB, id tls.Certificate) *web {
	w := &web{}
	w.Server = httptest.NewUnstartedServer(w)
	w.TLS = &tls.Config{Certificates: []tls.Certificate{id}, NextProtos: []string{"h2", "http/1.1"}}
	w.EnableHTTP2 = true
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.StartTLS()
	w.port = port(w.Listener.Addr())
	t.Cleanup(w.Close)
	return w
}

// trust returns the box's trust store.
func trust(t testing.TB, d *Door) *x509.CertPool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(d.Authority()) {
		t.Fatalf("no certificate in %q", d.Authority())
	}
	return pool
}

// opened makes a TLS connection to the site, as the box.
func (s *serving) opened(t testing.TB, protocols ...string) *tls.Conn {
	t.Helper()
	c := tls.Client(s.site(t), &tls.Config{ServerName: site, RootCAs: trust(t, s.d), NextProtos: protocols})
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return c
}

func TestInterceptedRequestsAreJudged(t *testing.T) {
	id, roots := identityFor(t, site)
	w := secureWeb(t, id)
	s := serve(t, w.port, func(cfg *Config) {
		withToken(cfg)
		cfg.Egress.Intercept, cfg.Roots = true, roots
		cfg.Egress.Allow[0].Methods = []string{"GET"}
		cfg.Egress.Secrets[0].Paths = []string{"/headers"}
	})
	c := s.opened(t, "h2", "http/1.1")
	if got := c.ConnectionState(); got.NegotiatedProtocol != "http/1.1" || got.PeerCertificates[0].VerifyHostname(site) != nil {
		t.Errorf("got %+v; want http/1.1 and a certificate for the site", got)
	}
	in := bufio.NewReader(c)
	io.WriteString(c, s.asked("GET /headers", "Authorization: mine"))
	resp, body := readAnswer(t, in, "GET")
	if resp.StatusCode != 200 || !strings.Contains(body, "Authorization: Bearer "+strings.Repeat("*", len(token))+"\r\n") || strings.Contains(body, "mine") {
		t.Errorf("got %s %q; want the masked secret", resp.Status, body)
	}
	io.WriteString(c, s.asked("GET /big"))
	if _, body := readAnswer(t, in, "GET"); len(body) != 1_000_000 {
		t.Errorf("got %d bytes; want 1000000", len(body))
	}
	io.WriteString(c, s.asked("DELETE /x"))
	if resp, body := readAnswer(t, in, "DELETE"); resp.StatusCode != 403 || !strings.HasPrefix(body, "BLOCKED by the sandbox: DELETE") {
		t.Errorf("got %s %q; want a refusal", resp.Status, body)
	}
	if diff := cmp.Diff([]string{"GET /headers", "GET /big"}, w.requests()); diff != "" {
		t.Error(diff)
	}
	if r := s.await(t, func(r Record) bool { return r.Path == "/headers" }); r.Secret != "github" || !r.Allowed {
		t.Errorf("got %+v", r)
	}
}

func TestInterceptVerifiesTheServer(t *testing.T) {
	id, roots := identityFor(t, "other.example")
	_, strangers := identityFor(t, site)
	for name, pool := range map[string]*x509.CertPool{"another name": roots, "an unknown authority": strangers, "the host's roots": nil} {
		w := secureWeb(t, id)
		s := serve(t, w.port, func(cfg *Config) { cfg.Egress.Intercept, cfg.Roots = true, pool })
		c := s.opened(t)
		io.WriteString(c, s.asked("GET /x"))
		resp, body := readAnswer(t, bufio.NewReader(c), "GET")
		if resp.StatusCode != 502 || !strings.Contains(body, "x509: ") {
			t.Errorf("%s: got %s %q; want 502 and the cause", name, resp.Status, body)
		}
		if r := s.await(t, func(r Record) bool { return r.Path == "/x" }); !strings.Contains(r.Reason, "x509: ") {
			t.Errorf("%s: got %+v", name, r)
		}
		if len(w.requests()) > 0 {
			t.Errorf("%s: the server saw %q", name, w.requests())
		}
	}
}

// A message to the box has neither the address of the host nor that of its name server.
func TestMessagesHideTheHost(t *testing.T) {
	var from atomic.Value
	broken := server(t, func(c net.Conn) {
		from.Store(c.RemoteAddr().String())
		io.ReadFull(c, make([]byte, 1)) // of the ClientHello
		reset(c)
	})
	s := serve(t, broken, func(cfg *Config) {
		cfg.Egress.Intercept = true
		cfg.Egress.Allow = append(cfg.Egress.Allow, allowing("lost.example").Allow...)
		cfg.Resolver = lostResolver{cfg.Resolver}
	})
	c := s.opened(t)
	io.WriteString(c, s.asked("GET /x"))
	resp, body := readAnswer(t, bufio.NewReader(c), "GET")
	if addr, _ := from.Load().(string); resp.StatusCode != 502 || !strings.Contains(body, "TLS with "+site) || strings.Contains(body, addr) {
		t.Errorf("got %s %q; want 502 without %s", resp.Status, body, addr)
	}
	_, _, resp, body = s.connected(t, "lost.example:443")
	if resp.StatusCode != 502 || !strings.Contains(body, "no such host") || strings.Contains(body, "10.9.8.7") {
		t.Errorf("got %s %q; want 502 without the name server", resp.Status, body)
	}
}

// A name server that refuses is not named either, and neither is the address of the host
// from which it was asked.
func TestARefusingNameServerIsHidden(t *testing.T) {
	// A socket that is connected elsewhere refuses what others send to its port.
	refusing, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer refusing.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", refusing.LocalAddr().String())
	}}
	_, err = resolver.LookupNetIP(t.Context(), "ip", "down.example.")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Fatalf("got %v; want the error of a name server at 127.0.0.1", err)
	}
	s := serve(t, server(t, func(net.Conn) {}), func(cfg *Config) {
		cfg.Egress.Allow = append(cfg.Egress.Allow, allowing("down.example").Allow...)
		cfg.Resolver = resolver
	})
	_, _, resp, body := s.connected(t, "down.example:443")
	if resp.StatusCode != 502 || !strings.Contains(body, "the name server cannot be used") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("got %s %q; want 502 without an address", resp.Status, body)
	}
}

// The box is told that the server has refused TLS, and not only the reason.
func TestRefusalOfTLSSaysWho(t *testing.T) {
	refusing := server(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))        // of the ClientHello
		c.Write([]byte{21, 3, 3, 0, 2, 2, 40}) // alert: fatal, handshake_failure (RFC 8446, 6)
		io.Copy(io.Discard, c)
	})
	s := serve(t, refusing, func(cfg *Config) { cfg.Egress.Intercept = true })
	c := s.opened(t)
	io.WriteString(c, s.asked("GET /x"))
	resp, body := readAnswer(t, bufio.NewReader(c), "GET")
	if resp.StatusCode != 502 || !strings.Contains(body, "remote error: tls: handshake failure") {
		t.Errorf("got %s %q; want 502 and the server's refusal", resp.Status, body)
	}
}

// lostResolver does not find lost.example.
type lostResolver struct{ Resolver }

func (r lostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if host == "lost.example" {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.9.8.7:53", IsNotFound: true}
	}
	return r.Resolver.LookupNetIP(ctx, network, host)
}

// A request that the policy refuses is not recorded as allowed because its server cannot be
// used.
func TestRequestsToABadServerAreJudged(t *testing.T) {
	id, roots := identityFor(t, "other.example")
	s := serve(t, secureWeb(t, id).port, func(cfg *Config) {
		cfg.Egress.Intercept, cfg.Roots = true, roots
		cfg.Egress.Allow[0].Methods = []string{"GET"}
	})
	c := s.opened(t)
	io.WriteString(c, s.asked("DELETE /x"))
	resp, body := readAnswer(t, bufio.NewReader(c), "DELETE")
	if resp.StatusCode != 403 || !strings.Contains(body, "BLOCKED") {
		t.Errorf("got %s %q; want 403 and the refusal", resp.Status, body)
	}
	if r := s.await(t, func(r Record) bool { return r.Method == "DELETE" }); r.Allowed {
		t.Errorf("got record %+v, want a refusal", r)
	}
}

func TestBoxMustTrustTheAuthority(t *testing.T) {
	id, roots := identityFor(t, site)
	s := serve(t, secureWeb(t, id).port, func(cfg *Config) { cfg.Egress.Intercept, cfg.Roots = true, roots })
	if err := tls.Client(s.site(t), &tls.Config{ServerName: site, RootCAs: roots}).HandshakeContext(t.Context()); err == nil {
		t.Error("a client that trusts only the server's own authority was content")
	}
	r := s.await(t, func(r Record) bool { return r.Reason != "" })
	if !strings.Contains(r.Reason, "does the program trust the box's authority?") {
		t.Errorf("got %+v", r)
	}
	// Two boxes have two authorities.
	other := serve(t, secureWeb(t, id).port, func(cfg *Config) { cfg.Egress.Intercept, cfg.Roots = true, roots })
	if err := tls.Client(s.site(t), &tls.Config{ServerName: site, RootCAs: trust(t, other.d)}).HandshakeContext(t.Context()); err == nil {
		t.Error("one box's authority is good for another box")
	}
	if open(t, Config{Egress: allowing(site)}).Authority() != nil {
		t.Error("a door that does not intercept has an authority")
	}
}

func TestInterceptedBytesThatAreNoRequests(t *testing.T) {
	id, roots := identityFor(t, site)
	for _, rules := range []bool{false, true} {
		s := serve(t, secure(t, id), func(cfg *Config) {
			cfg.Egress.Intercept, cfg.Roots = true, roots
			if rules {
				cfg.Egress.Allow[0].Methods = []string{"GET"}
			}
		})
		c := s.opened(t)
		io.WriteString(c, "\x00raw")
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); (err == nil) == rules {
			t.Errorf("rules about requests %v: got %q, %v", rules, got, err)
		}
		c.Close()
	}
}

func TestInterceptedWebsocket(t *testing.T) {
	id, roots := identityFor(t, site)
	port := server(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{id}})
		in := bufio.NewReader(s)
		if _, err := http.ReadRequest(in); err == nil {
			io.WriteString(s, accepted)
			io.Copy(s, in)
		}
	})
	s := serve(t, port, func(cfg *Config) { cfg.Egress.Intercept, cfg.Roots = true, roots })
	s.websocket(t, s.opened(t))
}

func TestInterceptNeedsItsAuthority(t *testing.T) {
	id, _ := identityFor(t, site)
	s := serve(t, secure(t, id), nil)
	changed := *s.d.cfg.Egress
	changed.Intercept = true
	if err := s.d.Set(&changed); err != nil {
		t.Fatal(err)
	}
	if err := tls.Client(s.site(t), &tls.Config{ServerName: site, InsecureSkipVerify: true}).HandshakeContext(t.Context()); err == nil {
		t.Error("TLS went through unopened")
	}
	s.await(t, func(r Record) bool { return !r.Allowed && strings.Contains(r.Reason, "authority") })
}

func TestCertificatesAreBounded(t *testing.T) {
	a, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxLeaves + 10 {
		if _, err := a.certify(host(t, "h"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+".example")); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d certificates are kept", len(a.leaves))
	}
	leaf, err := a.certify(host(t, "10.1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(leaf.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "10.1.2.3", Roots: pool}); err != nil {
		t.Errorf("a certificate for an address: %v", err)
	}
	if cert.NotAfter.After(time.Now().Add(authorityLife + time.Minute)) {
		t.Errorf("valid until %v", cert.NotAfter)
	}
}
