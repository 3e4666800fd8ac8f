// Package fetchtest has a network of servers on this machine, for the tests of packages
// that fetch pages. Names lead to the servers as they would to the Internet, through real
// egress doors.
package fetchtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser/fetch"
	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Net contains the servers and the names that lead to them.
type Net struct {
	key  *ecdsa.PrivateKey
	root *x509.Certificate

	mu    sync.Mutex
	hosts map[string]uint16   // port on this machine, by the name and port in a URL
	names map[string][]string // addresses of names that lead elsewhere
	told  []egress.Record
}

// New makes a network without servers.
func New(t testing.TB) *Net {
	t.Helper()
	n := &Net{hosts: make(map[string]uint16), names: make(map[string][]string)}
	var err error
	if n.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	n.root = n.certificate(t, nil, "test authority", time.Now().Add(time.Hour))
	return n
}

// certificate returns a certificate that the authority has signed. Without names, it is the
// authority's own.
func (n *Net) certificate(t testing.TB, names []string, common string, until time.Time) *x509.Certificate {
	t.Helper()
	since := time.Now()
	if until.Before(since) {
		since = until
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: common}, DNSNames: names,
		NotBefore: since.Add(-48 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA: names == nil, BasicConstraintsValid: true,
	}
	parent := n.root
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &n.key.PublicKey, n.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Serve makes a handler answer for http://NAME/.
func (n *Net) Serve(t testing.TB, name string, h http.Handler) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	n.at(net.JoinHostPort(name, "80"), s.Listener.Addr())
}

// ServeTLS makes a handler answer for https://NAME/, with a certificate for names that is
// valid until a time. If names is nil, the certificate is for NAME.
func (n *Net) ServeTLS(t testing.TB, name string, h http.Handler, names []string, until time.Time) {
	t.Helper()
	if names == nil {
		names = []string{name}
	}
	n.serveTLS(t, name, h, tls.Certificate{Certificate: [][]byte{n.certificate(t, names, name, until).Raw}, PrivateKey: n.key})
}

// ServeSelfSigned is ServeTLS with a certificate of an authority that nobody trusts.
func (n *Net) ServeSelfSigned(t testing.TB, name string, h http.Handler) {
	t.Helper()
	own := New(t) // another authority
	n.serveTLS(t, name, h, tls.Certificate{Certificate: [][]byte{own.certificate(t, []string{name}, name, time.Now().Add(time.Hour)).Raw}, PrivateKey: own.key})
}

func (n *Net) serveTLS(t testing.TB, name string, h http.Handler, c tls.Certificate) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c}}
	// drop the lines about handshakes that failed
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	n.at(net.JoinHostPort(name, "443"), s.Listener.Addr())
}

// ServeListener makes a listener answer for http://NAME/.
func (n *Net) ServeListener(name string, l net.Listener) {
	n.at(net.JoinHostPort(name, "80"), l.Addr())
}

// Lead resolves a name to addresses at which the network has no server.
func (n *Net) Lead(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = to
}

func (n *Net) at(where string, addr net.Addr) {
	tcp, _ := addr.(*net.TCPAddr)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[where] = uint16(tcp.Port)
}

// Roots returns the authority of the network's servers.
func (n *Net) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(n.root)
	return pool
}

// Told returns the records of the doors, in order.
func (n *Net) Told() []egress.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

// LookupNetIP makes the Net a resolver.
func (n *Net) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if to, ok := n.names[host]; ok {
		var addrs []netip.Addr
		for _, s := range to {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return nil, err
			}
			addrs = append(addrs, a)
		}
		return addrs, nil
	}
	for where := range n.hosts {
		if name, _, err := net.SplitHostPort(where); err == nil && name == host {
			return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
		}
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// Door is a function for fetch.Config.Door: it opens real egress doors that judge by the
// grant. Three things are not real: the ports of the servers, the loopback address of their
// names, and the authority of their certificates.
func (n *Net) Door(g policies.Grant) (fetch.Door, error) {
	e := *g.Egress()
	e.Allow, e.Private = slices.Clone(e.Allow), slices.Clone(e.Private)
	local := policies.HostAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	n.mu.Lock()
	for i, r := range e.Allow {
		ports := slices.Clone(r.Ports)
		for where, port := range n.hosts {
			_, named, _ := net.SplitHostPort(where)
			if p, err := strconv.ParseUint(named, 10, 16); err == nil && slices.Contains(r.Ports, uint16(p)) {
				ports = append(ports, port)
			}
		}
		e.Allow[i] = policies.EgressRule{Host: r.Host, Ports: ports, Methods: r.Methods, Paths: r.Paths, Source: r.Source}
	}
	for _, port := range n.hosts {
		e.Private = append(e.Private, policies.PrivateRule{Host: local, Port: port})
	}
	n.mu.Unlock()
	d, err := egress.New(egress.Config{
		Egress: &e, Profile: g.Profile(), Resolver: n, Roots: n.Roots(),
		Record: func(r egress.Record) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.told = append(n.told, r)
		},
	})
	if err != nil {
		return nil, err
	}
	return &door{d, n}, nil
}

// door is an egress door that replaces the ports of URLs with those of the servers.
type door struct {
	*egress.Door
	net *Net
}

// Client returns the client of the inner door, with the ports replaced.
func (d *door) Client() *http.Client {
	c := d.Door.Client()
	c.Transport = &turned{c.Transport, d.net}
	return c
}

type turned struct {
	inner http.RoundTripper
	net   *Net
}

// RoundTrip makes a request at the server's own port. The caller does not notice that.
func (t *turned) RoundTrip(req *http.Request) (*http.Response, error) {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	t.net.mu.Lock()
	real, ok := t.net.hosts[net.JoinHostPort(req.URL.Hostname(), port)]
	t.net.mu.Unlock()
	if !ok {
		return t.inner.RoundTrip(req)
	}
	to := req.Clone(req.Context())
	to.URL.Host = net.JoinHostPort(req.URL.Hostname(), strconv.Itoa(int(real)))
	to.Host = ""
	resp, err := t.inner.RoundTrip(to)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// Grant returns what a policy grants to a ReadDocs call of a tenant for a URL.
func Grant(t testing.TB, policy, tenant, url string) policies.Grant {
	t.Helper()
	p, err := policies.Parse("pages.yaml", []byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Decide(policies.Facts{Tenant: tenant, Tool: "ReadDocs", URLs: []string{url}})
	if d.Verdict != policies.Allow {
		t.Fatal(errors.New(d.Refusal("")))
	}
	return d.Grant
}
