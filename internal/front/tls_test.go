package front

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, pool: x509.NewCertPool()}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// issue returns a certificate for loopback, and its key.
func (a *authority) issue(t testing.TB, serial int64, ends time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-12 * time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", secret)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// store replaces a file as operators do: it writes a new file next to it, and renames that
// file.
func store(t testing.TB, name string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	return name
}

// secure is a front with TLS.
type secure struct {
	*running
	ca        *authority
	cert, key string // paths of its files
}

func startTLS(t testing.TB, cfg Config) *secure {
	t.Helper()
	dir := t.TempDir()
	s := &secure{ca: newAuthority(t), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	s.replace(t, 100, time.Now().Add(time.Hour))
	cfg.Cert, cfg.Key = s.cert, s.key
	s.running = start(t, cfg)
	return s
}

func (s *secure) replace(t testing.TB, serial int64, ends time.Time) {
	t.Helper()
	cert, key := s.ca.issue(t, serial, ends)
	store(t, s.cert, cert)
	store(t, s.key, key)
}

// shake makes a handshake, and returns the state of the connection.
func (s *secure) shake(cfg *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.Dial("tcp", s.addr, cfg)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

// serial waits until the server has a certificate with a serial number, at most for the
// time that reading it again may take, and returns how long it took.
func (s *secure) serial(t testing.TB, want int64) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		state, err := s.shake(&tls.Config{RootCAs: s.ca.pool, Time: func() time.Time { return time.Now().Add(-6 * time.Hour) }})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if state.PeerCertificates[0].SerialNumber.Int64() == want {
			return took
		}
		if took > 20*time.Second {
			t.Fatalf("the server shows %v, want %d; it logged\n%s", state.PeerCertificates[0].SerialNumber, want, s.logs)
		}
	}
}

func TestTLSVersions(t *testing.T) {
	s := startTLS(t, Config{})
	state, err := s.shake(&tls.Config{RootCAs: s.ca.pool, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
		t.Errorf("by default: %v, %x %s, want TLS 1.3 and HTTP/2", err, state.Version, state.NegotiatedProtocol)
	}
	if state, err = s.shake(&tls.Config{RootCAs: s.ca.pool, MaxVersion: tls.VersionTLS12}); err != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, err = s.shake(&tls.Config{RootCAs: s.ca.pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
	res, err := client.Post("https://"+s.addr+"/mcp", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "got hello" || res.ProtoMajor != 2 {
		t.Errorf("over %s: %q, %v", res.Proto, body, err)
	}
	if want := "https://" + s.addr; s.URL() != want {
		t.Errorf("URL is %s, want %s", s.URL(), want)
	}
}

func TestClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	file := store(t, filepath.Join(t.TempDir(), "ca.pem"), pemOf("CERTIFICATE", ca.cert.Raw))
	s := startTLS(t, Config{ClientCA: file})
	try := func(certs ...tls.Certificate) error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.pool, Certificates: certs}, DisableKeepAlives: true}}
		res, err := client.Get("https://" + s.addr + "/mcp")
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	of := func(by *authority) tls.Certificate {
		pair, err := tls.X509KeyPair(by.issue(t, 7, time.Now().Add(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	if err := try(of(ca)); err != nil {
		t.Errorf("the control: a client of the authority: %v", err)
	}
	if err := try(); err == nil {
		t.Error("a client without a certificate is let in")
	}
	if err := try(of(newAuthority(t))); err == nil {
		t.Error("a client of another authority is let in")
	}
}

// A key that every user can read is reported when it is read, and again when it is read
// again.
func TestKeyOfEverybody(t *testing.T) {
	s := startTLS(t, Config{})
	const says = "every user of this machine has access to the key"
	if strings.Contains(s.logs.String(), says) {
		t.Errorf("of a key that nobody else can read it logged %s", s.logs)
	}
	cert, key := s.ca.issue(t, 101, time.Now().Add(time.Hour))
	store(t, s.cert, cert)
	if err := os.WriteFile(s.key+".all", key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.key+".all", 0o644); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := os.Rename(s.key+".all", s.key); err != nil {
		t.Fatal(err)
	}
	s.serial(t, 101)
	if !testenv.Until(20*time.Second, func() bool { return strings.Contains(s.logs.String(), says) }) {
		t.Errorf("it logged %s", s.logs)
	}
}

// A client whose authority was removed cannot resume a TLS session that it began before.
func TestResumedSessionsAreJudged(t *testing.T) {
	ca := newAuthority(t)
	file := store(t, filepath.Join(t.TempDir(), "ca.pem"), pemOf("CERTIFICATE", ca.cert.Raw))
	s := startTLS(t, Config{ClientCA: file})
	pair, err := tls.X509KeyPair(ca.issue(t, 7, time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	resumed := false
	cfg := &tls.Config{RootCAs: s.ca.pool, Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(8), VerifyConnection: func(st tls.ConnectionState) error {
		resumed = st.DidResume
		return nil
	}}
	try := func() error {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		res, err := client.Get("https://" + s.addr + "/mcp")
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		return err
	}
	for i, want := range []bool{false, true} {
		if err := try(); err != nil || resumed != want {
			t.Fatalf("handshake %d: %v, resumed %t", i, err, resumed)
		}
	}
	store(t, file, pemOf("CERTIFICATE", newAuthority(t).cert.Raw))
	before := s.keyPair.now.Load()
	s.Reload()
	if !testenv.Until(20*time.Second, func() bool { return s.keyPair.now.Load() != before }) {
		t.Fatal("the authority was not read again")
	}
	if err := try(); err == nil {
		t.Errorf("a client of the authority before is let in, resumed %t", resumed)
	}
}

// A certificate is replaced while 100 requests run: when its files change, and immediately
// when this is requested. None of the requests fails.
func TestCertificateIsReplaced(t *testing.T) {
	s := startTLS(t, Config{})
	hold, held := make(chan struct{}), make(chan struct{}, 100)
	s.Handle("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held <- struct{}{}
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		echo(w, r)
	}))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.pool}, MaxConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			res, err := client.Post("https://"+s.addr+"/slow", "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Errorf("a running call: %v", err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != "got x" {
				t.Errorf("a running call: %q, %v", body, err)
			}
		})
	}
	for range 100 {
		<-held
	}
	s.replace(t, 101, time.Now().Add(time.Hour))
	if took := s.serial(t, 101); took > 2*time.Second {
		t.Logf("it took %v, on a busy machine", took)
	}
	s.replace(t, 102, time.Now().Add(time.Hour))
	s.Reload()
	s.serial(t, 102)
	close(hold)
	calls.Wait()
}

// A pair that cannot be used changes nothing. A pair that has expired is used, because the
// operator may have no other one. Both are reported.
func TestBadCertificate(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	text := &testenv.Log{}
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, key := ca.issue(t, 1, time.Now().Add(time.Hour))
	store(t, certFile, cert)
	store(t, keyFile, key)
	p, err := openKeyPair(certFile, keyFile, "", slog.New(slog.NewTextHandler(text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	holds := func(when string, serial int64, degraded string) {
		t.Helper()
		if got := p.now.Load().leaf.SerialNumber.Int64(); got != serial {
			t.Errorf("%s: holds %d, want %d", when, got, serial)
		}
		if got := p.degraded(); (got == "") != (degraded == "") || !strings.Contains(got, degraded) {
			t.Errorf("%s: degraded %q, want %q", when, got, degraded)
		}
	}
	holds("at first", 1, "")
	_, other := ca.issue(t, 2, time.Now().Add(time.Hour))
	store(t, keyFile, other)
	p.look(false)
	holds("half of a change", 1, "") // the change may not be complete yet
	p.look(false)
	holds("wrong key", 1, "are not a pair")
	if n := strings.Count(text.String(), "the previous certificate stays in use"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, text)
	}
	p.look(false)
	if n := strings.Count(text.String(), "the previous certificate stays in use"); n != 1 {
		t.Errorf("logged %d times after another look, want once", n)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	p.look(false)
	holds("no key", 1, "no such file")
	store(t, keyFile, key)
	p.look(false)
	holds("as it was", 1, "")
	store(t, certFile, []byte("nothing\n"))
	p.look(true)
	holds("not a certificate", 1, "are not a pair")
	old, oldKey := ca.issue(t, 3, time.Now().Add(-time.Hour))
	store(t, certFile, old)
	store(t, keyFile, oldKey)
	p.look(true)
	holds("expired", 3, "it expired on")
	if !strings.Contains(text.String(), "clients will refuse the certificate") {
		t.Errorf("an expired one is not logged:\n%s", text)
	}
}

// A front does not start with a pair that cannot be used.
func TestNoCertificate(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := ca.issue(t, 1, time.Now().Add(time.Hour))
	c, k := store(t, filepath.Join(dir, "c"), cert), store(t, filepath.Join(dir, "k"), key)
	for name, cfg := range map[string]Config{
		"missing":   {Cert: filepath.Join(dir, "none"), Key: k},
		"swapped":   {Cert: k, Key: c},
		"authority": {Cert: c, Key: k, ClientCA: k},
	} {
		cfg.Addr, cfg.Log = "127.0.0.1:0", slog.New(slog.DiscardHandler)
		if f, err := Open(t.Context(), cfg, true); err == nil {
			f.Close()
			t.Errorf("%s: it starts", name)
		}
	}
	cfg := Config{Addr: "127.0.0.1:0", Cert: c, Key: k, Log: slog.New(slog.DiscardHandler)}
	f, err := Open(t.Context(), cfg, true)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	f.Close()
}

// BenchmarkHandshake measures TLS handshakes through the front, and with crypto/tls alone.
func BenchmarkHandshake(b *testing.B) {
	shake := func(b *testing.B, addr string, pool *x509.CertPool) {
		for b.Loop() {
			conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
			if err != nil {
				b.Fatal(err)
			}
			conn.Close()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
	}
	b.Run("front", func(b *testing.B) {
		s := startTLS(b, Config{})
		shake(b, s.addr, s.ca.pool)
	})
	b.Run("alone", func(b *testing.B) {
		ca := newAuthority(b)
		pair, err := tls.X509KeyPair(ca.issue(b, 1, time.Now().Add(time.Hour)))
		if err != nil {
			b.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			b.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					defer conn.Close()
					ctx, cancel := context.WithTimeout(context.Background(), headerWait)
					defer cancel()
					if c, ok := conn.(*tls.Conn); ok && c.HandshakeContext(ctx) == nil {
						_, _ = conn.Read(make([]byte, 1))
					}
				})
			}
		})
		shake(b, l.Addr().String(), ca.pool)
		l.Close()
		all.Wait()
	})
}
