package act_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/browser/act"
)

// TestFrozenSeat checks that a Chrome that was stopped while its site closed the
// connections runs on, that a call meanwhile is answered, and that the agent reads the
// reason (BR-A42).
func TestFrozenSeat(t *testing.T) {
	s := open(t)
	over, came := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(came) })
	s.mux.HandleFunc("/live", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		first()
		select {
		case <-over:
		case <-q.Context().Done():
		}
	})
	s.page("/", `<!doctype html><title>none</title><button onclick="document.title = 'clicked'">B</button><p id=p>joined</p><script>const e = new EventSource("/live"); e.onerror = () => { e.close(); p.textContent = "the server left" }</script>`)
	l := s.goTo(s.url("site", "/"))
	<-came
	goOn := stopProcesses(t)
	close(over)
	looked := make(chan error, 1)
	go func() {
		_, err := s.seat.Look(s.ctx(), act.LookRequest{})
		looked <- err
	}()
	select {
	case err := <-looked:
		t.Errorf("a page that stands still was looked at: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	goOn()
	if err := <-looked; err != nil {
		t.Errorf("the look that waited: %v", err)
	}
	s.until(act.LookRequest{}, "the server left")
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if got := s.eval("document.title"); got != `"clicked"` {
		t.Errorf("the page says %s", got)
	}
}

// TestManyWatch checks that the agent's steps go on however many people watch and however
// fast they ask, and that nobody waits longer than a picture may take (BR-A47).
func TestManyWatch(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>0</title><button onclick="document.title = +document.title + 1">B</button>`)
	l := s.goTo(s.url("site", "/"))
	id, over := s.seats.List()[0].ID, make(chan struct{})
	var shown, refused atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				k, err := s.seats.Show(s.ctx(), id)
				switch {
				case err == nil && len(k.Picture) > 0:
					shown.Add(1)
				case act.ReasonOf(err) == act.ReasonTimeout:
					refused.Add(1)
				default:
					t.Errorf("a person who watches: %v", err)
					return
				}
			}
		})
	}
	for range 3 {
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	}
	s.wait(func() bool { return shown.Load() > 0 || refused.Load() > 11 })
	close(over)
	wg.Wait()
	if got := s.eval("document.title"); got != `"3"` {
		t.Errorf("the page was clicked %s times", got)
	}
	t.Logf("%d pictures, %d told to try again", shown.Load(), refused.Load())
}

// TestServiceWorkers checks that a service worker of a site answers no request in place of
// the server, whether the request is judged or not, in no tab, and that it is gone with the
// seat (BR-A35).
func TestServiceWorkers(t *testing.T) {
	s := newStage(t)
	s.secure()
	s.seat = s.another()
	s.mux.HandleFunc("/worker.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`oninstall = () => skipWaiting(); onactivate = (e) => e.waitUntil(clients.claim()); onfetch = (e) => e.respondWith(new Response("<title>worker</title>from the worker", {headers: {"Content-Type": "text/html"}}))`))
	})
	s.page("/", `<!doctype html><title>none</title><a href="/refused">Refused</a><script>
navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then((r) => { document.title = "ready " + r.active.state; caches.open("c") }).catch((e) => { document.title = "failed " + e })</script>`)
	s.page("/plain", `<title>server</title>from the server`)
	s.page("/count", `<!doctype html><title>none</title><script>Promise.all([navigator.serviceWorker.getRegistrations(), caches.keys()]).then((all) => { document.title = "has " + all.map((a) => a.length) })</script>`)
	title := func() string { t.Helper(); return s.eval("document.title") }
	l := s.goTo(s.url("site", "/"))
	s.wait(func() bool { return strings.HasPrefix(title(), `"ready`) })
	_, _ = s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Refused"`)})
	if l := s.look(act.LookRequest{}); strings.Contains(l, "from the worker") || s.judged("/refused") == 0 {
		t.Errorf("a document that is refused was judged %d times, and the page is\n%s", s.judged("/refused"), l)
	}
	for range 2 {
		if l := s.goTo(s.url("site", "/plain")); !strings.Contains(l, "from the server") {
			t.Errorf("the page is\n%s", l)
		}
		s.must(act.Step{Do: act.DoClose}) // another tab is opened in its place
	}
	count := func() string {
		s.goTo(s.url("site", "/count"))
		s.wait(func() bool { return strings.HasPrefix(title(), `"has`) })
		return title()
	}
	if got := count(); got != `"has 1,1"` {
		t.Errorf("in the seat, the site %s", got)
	}
	if err := s.seat.Close(); err != nil {
		t.Error(err)
	}
	s.seat = s.another()
	if got := count(); got != `"has 0,0"` {
		t.Errorf("in the next seat, the site %s", got)
	}
}

// secure makes the stage's site serve TLS, which the egress door decrypts, with a
// certificate of the authority of this package's tests.
func (s *stage) secure() {
	s.t.Helper()
	pair, err := tls.X509KeyPair(issue("site.example"))
	if err != nil {
		s.t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s.mux)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	web.StartTLS()
	s.t.Cleanup(web.Close)
	_, port, _ := strings.Cut(web.Listener.Addr().String(), ":")
	s.port, _ = strconv.Atoi(port)
	s.scheme, s.net = "https", `net: {mode: proxy, tls: intercept, allow_private: [NAMES]}`
}

// authority is a key and a certificate that the doors of this package's tests trust.
var authority = sync.OnceValues(func() (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err == nil {
		cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		panic(err)
	}
	return key, cert
})

// issue makes a certificate for a name, and its key.
func issue(name string) (cert, key []byte) {
	by, ca := authority()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), by)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// believe makes the doors of this process verify servers with the authority of these tests.
// A process reads the roots of the system only once, and it does so here.
func believe() {
	_, ca := authority()
	dir, err := os.MkdirTemp("", "roots")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", file)
	defer os.Unsetenv("SSL_CERT_FILE")
	if _, err := x509.SystemCertPool(); err != nil {
		panic(err)
	}
}
