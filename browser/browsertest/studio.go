package browsertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"belljar.dev/browser"
	"belljar.dev/browser/fetch"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// Studio is a web server, with a Fetcher and a real Chrome that read its pages. A test that
// needs it is skipped if the host has no Chrome.
type Studio struct {
	Fetch *fetch.Fetcher
	Pool  *browser.Pool
	Base  string // beginning of its URLs, such as http://site.example:PORT; other.example is the same server
}

// NewStudio opens a Studio until the end of the test.
func NewStudio(t testing.TB, h http.Handler) *Studio {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	closing := func(close func() error) {
		t.Cleanup(func() {
			if err := close(); err != nil {
				t.Error(err)
			}
		})
	}
	sup, err := sandbox.New(sandbox.Config{Resolver: local{}})
	if err != nil {
		t.Fatal(err)
	}
	closing(sup.Close)
	pool, err := browser.New(browser.Config{Supervisor: sup})
	if err != nil {
		t.Fatal(err)
	}
	closing(pool.Close)
	f := fetch.New(fetch.Config{Burst: 1 << 30, Door: func(g policies.Grant) (fetch.Door, error) {
		return egress.New(egress.Config{Egress: g.Egress(), Profile: g.Profile(), Resolver: local{}})
	}})
	closing(f.Close)
	_, port, _ := strings.Cut(web.Listener.Addr().String(), ":")
	return &Studio{f, pool, "http://site.example:" + port}
}

// Policy returns a policy that allows every call, with a browser and the studio's server.
func (s *Studio) Policy() string {
	port := s.Base[strings.LastIndexByte(s.Base, ':')+1:]
	return fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    browser: sandboxed
    net: {mode: proxy, allow_private: ["site.example:%[1]s", "other.example:%[1]s"], limits: {connections: 512, rate: 10000}}
`, port)
}

// Grant returns the grant of the policy for a call of ReadDocs.
func (s *Studio) Grant(t testing.TB) policies.Grant {
	t.Helper()
	return policytest.GrantFor(t, s.Policy(), policies.Facts{Tenant: "t", Tool: "ReadDocs"})
}

// local resolves every name of example to this machine.
type local struct{}

func (local) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if strings.HasSuffix(host, ".example") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
