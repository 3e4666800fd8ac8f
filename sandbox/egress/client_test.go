package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"belljar.dev/policies"
)

// get fetches an address, and returns the status and the body.
func get(t testing.TB, c *http.Client, address string) (string, error) {
	t.Helper()
	resp, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b)), err
}

func TestClient(t *testing.T) {
	var server *httptest.Server
	var asked atomic.Int64
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch to := r.URL.Query().Get("to"); {
		case to != "":
			http.Redirect(w, r, to, http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL.Path)
		}
	}))
	defer server.Close()
	p := port(server.Listener.Addr())
	resolver := &answers{known: map[string][]string{"a.example": {"127.0.0.1"}, "b.example": {"127.0.0.1"}, "meta.example": {"169.254.169.254"}}}
	e := private(allowing(at("meta.example", p)), at("b.example", p), at("a.example", p))
	e.Allow = append(e.Allow, policies.EgressRule{Host: "a.example", Ports: []uint16{p}, Methods: []string{"GET"}, Paths: []string{"/v1/**"}})
	var told records
	d := open(t, Config{Egress: e, Resolver: resolver, Record: told.add})
	c := d.Client()
	a, b := "http://"+at("a.example", p), "http://"+at("b.example", p)

	for _, test := range []struct {
		address string
		want    string // the answer, or part of the error's text if refused
		refused bool
	}{
		{a + "/v1/x", "200 GET " + at("a.example", p) + " /v1/x", false},
		{"HTTP://A.EXAMPLE.:" + fmt.Sprint(p) + "/v1/x", "200 GET " + at("a.example", p) + " /v1/x", false},
		{a + "/v2/x", "GET a.example", true},
		{a, "GET a.example", true},
		{a + "/v1/../v2/x", "different ways", true},
		{a + "/v1/%2e%2e/v2", "different ways", true},
		{b, "200 GET " + at("b.example", p) + " /", false},
		{b + "?to=/x", "200 GET " + at("b.example", p) + " /x", false},

		// Each hop is judged anew.
		{b + "?to=" + url.QueryEscape(a+"/v1/ok"), "200 GET " + at("a.example", p) + " /v1/ok", false},
		{b + "?to=" + url.QueryEscape(a+"/v2/no"), "GET a.example", true},
		{b + "?to=http://c.example/", "no rule", true},
		{b + "?to=http://127.0.0.1:" + fmt.Sprint(p), "no rule", true},
		{b + "?to=http://[::ffff:7f00:1]:" + fmt.Sprint(p), "no rule", true},
		{b + "?to=http://2130706433/", "is a number", true},
		{b + "?to=" + url.QueryEscape("http://"+at("meta.example", p)), "cloud metadata", true},
		{b + "?to=file:///etc/passwd", "only http and https", true},
		{b + "?to=ftp://b.example/", "only http and https", true},
		{b + "?to=gopher://b.example/", "only http and https", true},
		{b + "?to=//c.example/x", "no rule", true},

		{"file:///etc/passwd", "only http and https", true},
		{"http://b.example:0/", "port 0", true},
		{"http://b.example:99999/", "port 99999", true},
		{"http:///x", "no host is named", true},
		{"http://b.example%00.a.example/", "invalid URL escape", false},
		{"http://bücher.example/", "xn--", true},
	} {
		got, err := get(t, c, test.address)
		if err != nil {
			got = err.Error()
		}
		if ok := errors.As(err, new(*Refused)); ok != test.refused || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, refused %v, want %q, %v", test.address, got, ok, test.want, test.refused)
		}
	}

	req, _ := http.NewRequestWithContext(t.Context(), "GET", b, nil)
	req.Host = "a.example"
	if _, err := c.Do(req); !errors.As(err, new(*Refused)) {
		t.Errorf("another host in the header: got %v", err)
	}
	body := &closing{Reader: strings.NewReader("x")}
	req, _ = http.NewRequestWithContext(t.Context(), "POST", a+"/v1/x", body)
	if _, err := c.Do(req); !errors.As(err, new(*Refused)) || !body.closed {
		t.Errorf("a method that is not allowed: got %v, body closed %v", err, body.closed)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "CONNECT", b, nil)
	if _, err := c.Do(req); !errors.As(err, new(*Refused)) {
		t.Errorf("CONNECT: got %v", err)
	}

	// Another policy applies from the next request on, even if a connection is open.
	before := asked.Load()
	if err := d.Set(private(allowing(), at("a.example", p))); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, c, b); !errors.As(err, new(*Refused)) || asked.Load() != before {
		t.Errorf("after Set: got %v", err)
	}
	if got, err := get(t, c, a+"/v2/x"); err != nil || !strings.HasPrefix(got, "200 ") {
		t.Errorf("after Set: got %q, %v", got, err)
	}
	requests := 0
	for _, r := range told.list() {
		if r.Proto == "http" && r.Allowed && (r.Method != "GET" || r.Port != p || r.Rule == "" || strings.Contains(r.Path, "?")) {
			t.Errorf("got record %+v", r)
		} else if r.Proto == "http" && r.Allowed {
			requests++
		}
	}
	if want := int(asked.Load()); requests != want {
		t.Errorf("got records of %d requests, the server %d", requests, want)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TLS requests and verifies the name that was judged.
func TestClientTLS(t *testing.T) {
	var names []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names = append(names, h.ServerName)
		return nil, nil
	}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	p := port(server.Listener.Addr())
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate()) // its certificate is for example.com
	resolver := &answers{known: map[string][]string{"example.com": {"127.0.0.1"}, "other.example": {"127.0.0.1"}}}
	e := private(allowing(), at("example.com", p), at("other.example", p))

	d := open(t, Config{Egress: e, Resolver: resolver, Roots: roots})
	if got, err := get(t, d.Client(), "https://"+at("EXAMPLE.com.", p)); err != nil || got != "200 HTTP/2.0" {
		t.Errorf("got %q, %v", got, err)
	}
	if len(names) != 1 || names[0] != "example.com" {
		t.Errorf("got asked for %q", names)
	}
	if _, err := get(t, d.Client(), "https://"+at("other.example", p)); !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("another name's certificate: got %v", err)
	}
	d = open(t, Config{Egress: e, Resolver: resolver})
	if _, err := get(t, d.Client(), "https://"+at("example.com", p)); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("a root that the host does not know: got %v", err)
	}
}

// A proxy of the environment is not used.
func TestClientNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	p := port(server.Listener.Addr())
	d := open(t, Config{Egress: private(allowing(), at("a.example", p)), Resolver: &answers{known: map[string][]string{"a.example": {"127.0.0.1"}}}})
	if got, err := get(t, d.Client(), "http://"+at("a.example", p)); err != nil || !strings.HasPrefix(got, "404 ") {
		t.Errorf("got %q, %v", got, err)
	}
	if tr := d.current.Load().client; tr.Proxy != nil {
		t.Error("the transport has a proxy")
	}
	if d.Client().Jar != nil {
		t.Error("the client keeps cookies")
	}
}
