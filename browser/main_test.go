package browser_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/escape"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	escape.Main()
	testenv.NeedForExamples(testenv.UserNamespaces, testenv.Chromium)
	testenv.Main(m)
}

// names resolves every name of example to this machine, except the names that it contains.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if at, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr(at)}, nil
	}
	if strings.HasSuffix(host, ".example") {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// rig is a web server, and a pool that can reach it.
type rig struct {
	t    testing.TB
	mux  *http.ServeMux
	web  *httptest.Server
	port int
	sup  *sandbox.Supervisor
	pool *browser.Pool

	mu      sync.Mutex
	records []egress.Record
}

func newRig(t testing.TB, cfg browser.Config) *rig {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	r := &rig{t: t, mux: http.NewServeMux()}
	r.web = httptest.NewServer(r.mux)
	t.Cleanup(r.web.Close)
	r.port = r.web.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // httptest listens on TCP
	var err error
	r.sup, err = sandbox.New(sandbox.Config{Resolver: names{"ten.example": "10.0.0.1"}, Egress: func(_ string, e egress.Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.sup.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Supervisor = r.sup
	if r.pool, err = browser.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// page serves HTML.
func (r *rig) page(path, html string) {
	r.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(html))
	})
}

// url returns the URL of a path of the web server, with the name site.example.
func (r *rig) url(path string) string { return fmt.Sprintf("http://site.example:%d%s", r.port, path) }

// grant allows the names site, other and cdn of the web server, and no others.
func (r *rig) grant(tenant string) policies.Grant { return r.grantWith(tenant, "") }

func (r *rig) grantWith(tenant, more string) policies.Grant {
	r.t.Helper()
	return policytest.GrantFor(r.t, fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    browser: sandboxed
    net: {mode: proxy, allow_private: ["site.example:%[1]d", "other.example:%[1]d", "cdn.example:%[1]d"], limits: {connections: 512, rate: 10000, bytes: 100GiB}}
    %[2]s
`, r.port, more), policies.Facts{Tenant: tenant, Tool: "ReadDocs"})
}

func (r *rig) load(q browser.Request) (*browser.Loaded, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute*testenv.Patience(r.t))
	defer cancel()
	return r.pool.Load(ctx, r.grant("t"), q)
}

func (r *rig) must(q browser.Request) *browser.Loaded {
	r.t.Helper()
	l, err := r.load(q)
	if err != nil {
		r.t.Fatalf("load %s: %v", q.URL, err)
	}
	return l
}
