package egress

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// connected asks the proxy for a tunnel, and returns the connection and the answer.
func (s *serving) connected(t testing.TB, target string, headers ...string) (net.Conn, *bufio.Reader, *http.Response, string) {
	t.Helper()
	c := reach(t, s.proxy)
	in := bufio.NewReader(c)
	lines := append([]string{"CONNECT " + target + " HTTP/1.1"}, headers...)
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: "CONNECT"})
	if err != nil {
		t.Fatalf("CONNECT %q: %v", target, err)
	}
	body := ""
	if resp.StatusCode != 200 {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
	}
	return c, in, resp, body
}

func TestConnectRelays(t *testing.T) {
	s := serve(t, echo(t), nil)
	for _, target := range []string{at(site, s.port), at("SITE.Example.", s.port)} {
		c, _, resp, _ := s.connected(t, target, "Host: "+target, "Proxy-Connection: keep-alive")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: got %s", target, resp.Status)
		}
		exchanged(t, c, "SSH-2.0-x\r\n", "SSH-2.0-x\r\n")
		c.Close()
	}
	// The request that nc -X connect sends.
	c := reach(t, s.proxy)
	exchanged(t, c, "CONNECT "+at(site, s.port)+" HTTP/1.0\r\n\r\n", "HTTP/1.1 200 Connection established\r\n\r\n")
	exchanged(t, c, "\x00raw", "\x00raw")
}

func TestConnectRefuses(t *testing.T) {
	s := serve(t, echo(t), nil)
	for target, status := range map[string]int{
		at("other.example", s.port):            403,
		at(site, s.port+1):                     403,
		"127.0.0.1:22":                         403,
		"[::1]:22":                             403,
		"[::ffff:127.0.0.1]:22":                403,
		"169.254.169.254:80":                   403,
		s.proxy.Addr().String():                403, // the door itself
		s.through.Addr().String():              403,
		"localhost:22":                         403,
		site:                                   400,
		site + ":":                             400,
		site + ":0":                            400,
		site + ":65536":                        400,
		site + ":+80":                          400,
		site + ":http":                         400,
		":443":                                 400,
		"user@" + at(site, s.port):             400,
		"user:pass@" + at(site, s.port):        400,
		at(site, s.port) + "@evil.example":     400,
		"::1:443":                              400,
		"[::1]":                                400,
		"[::1%25lo]:443":                       400,
		"[fe80::1%lo]:443":                     400,
		"[::1":                                 400,
		"2130706433:80":                        400,
		"0x7f.1:80":                            400,
		"127.1:80":                             400,
		"evil.example\x00." + at(site, s.port): 400,
		"evil.example%00." + at(site, s.port):  400,
		at(site, s.port) + "/path":             400,
		"http://" + at(site, s.port):           400,
		strings.Repeat("a.", 200) + at(site, s.port):  400,
		strings.Repeat("a", 2000) + ":443":            400,
		"s\u00edte.example:443":                       400,
		at(site, s.port) + "\tx":                      400,
		at(site, s.port) + " HTTP/1.1\rHost: a\r X: ": 400,
	} {
		c, in, resp, body := s.connected(t, target, "Host: "+at(site, s.port))
		if resp.StatusCode != status || !strings.HasPrefix(body, "BLOCKED by the sandbox: ") || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("CONNECT %.60q: got %s %q; want %d", target, resp.Status, body, status)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("CONNECT %.60q: then got %v; want the end", target, err)
		}
		c.Close()
	}
	_, _, resp, body := s.connected(t, at(site, s.port), "Host: "+at(site, s.port), "Content-Length: 4")
	if resp.StatusCode != 400 {
		t.Errorf("a CONNECT with a body: got %s %q", resp.Status, body)
	}
	for _, r := range s.records.list() {
		if r.Allowed {
			t.Errorf("allowed: %+v", r)
		}
	}
}

// TestTunnelIsJudgedInside has clients that ask the proxy for one host, and then another
// host inside the tunnel.
func TestTunnelIsJudgedInside(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, nil)
	target := at(site, s.port)
	c, in, _, _ := s.connected(t, target, "Host: "+target)
	io.WriteString(c, s.asked("GET /in")+"GET /out HTTP/1.1\r\nHost: other.example\r\n\r\n")
	if resp, _ := readAnswer(t, in, "GET"); resp.StatusCode != 200 {
		t.Errorf("got %s; want 200", resp.Status)
	}
	if resp, body := readAnswer(t, in, "GET"); resp.StatusCode != 403 {
		t.Errorf("got %s %q; want 403", resp.Status, body)
	}
	// A tunnel inside the tunnel.
	c, in, _, _ = s.connected(t, target, "Host: "+target)
	io.WriteString(c, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n")
	if resp, body := readAnswer(t, in, "CONNECT"); resp.StatusCode != 403 {
		t.Errorf("got %s %q; want 403", resp.Status, body)
	}
	// TLS inside the tunnel, for another name.
	c, _, _, _ = s.connected(t, target, "Host: "+target)
	if err := tls.Client(c, &tls.Config{ServerName: "other.example"}).Handshake(); err == nil {
		t.Error("a handshake for another name went well")
	}
	s.await(t, func(r Record) bool { return r.Rule == "SNI" && !r.Allowed })
	if diff := cmp.Diff([]string{"GET /in"}, w.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestProxyForwardsURLs(t *testing.T) {
	w := newWeb(t)
	other := newWeb(t)
	s := serve(t, w.port, func(cfg *Config) {
		e := cfg.Egress
		e.Allow = append(e.Allow, policies.EgressRule{Host: "other.example", Ports: []uint16{other.port}, Paths: []string{"/ok"}})
		private(e, at("other.example", other.port))
	})
	proxy, err := url.Parse("http://" + s.proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	proxy.User = url.UserPassword("box", "word")
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	here, there := "http://"+at(site, w.port), "http://"+at("other.example", other.port)
	for _, row := range []struct {
		url    string
		status int
		holds  string
	}{
		{here + "/headers", 200, ""},
		{there + "/ok", 200, ""},
		{here + "/chunked?x=1", 200, "part 0;part 1;part 2;"},
		{here, 200, ""},
		{there + "/not", 403, "BLOCKED by the sandbox: GET " + at("other.example", other.port) + "/not refused"},
		{"http://no.example/", 403, "BLOCKED by the sandbox: connect to no.example:80 refused"},
		{"http://169.254.169.254/latest/meta-data", 403, "BLOCKED by the sandbox: connect to 169.254.169.254:80 refused"},
		{"http://" + s.proxy.Addr().String() + "/", 403, "BLOCKED"},
	} {
		resp, err := client.Get(row.url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != row.status || !strings.HasPrefix(string(body), row.holds) {
			t.Errorf("%s: got %s %q, %v; want %d %q", row.url, resp.Status, body, err, row.status, row.holds)
		}
		if strings.Contains(string(body), "Proxy-") {
			t.Errorf("%s: the server got %q", row.url, body)
		}
	}
	if diff := cmp.Diff([]string{"GET /ok"}, other.requests()); diff != "" {
		t.Error(diff)
	}
}

// TestProxyChangesHosts sends requests to two hosts on one connection, and then asks for a
// tunnel on it.
func TestProxyChangesHosts(t *testing.T) {
	w := newWeb(t)
	s := serve(t, w.port, func(cfg *Config) {
		cfg.Egress = private(allowing(at(site, w.port), at("other.example", w.port)), at(site, w.port), at("other.example", w.port))
		cfg.Egress.Limits.Conns = 1
	})
	c := reach(t, s.proxy)
	in := bufio.NewReader(c)
	for i := range 6 {
		name := []string{site, "other.example"}[i%2]
		host := at(name, w.port)
		io.WriteString(c, "GET http://"+host+"/x HTTP/1.1\r\nHost: "+host+"\r\nProxy-Connection: keep-alive\r\n\r\n")
		if resp, body := readAnswer(t, in, "GET"); resp.StatusCode != 200 || body != "host "+host+`, body ""` {
			t.Fatalf("got %s %q", resp.Status, body)
		}
	}
	io.WriteString(c, "CONNECT "+at(site, w.port)+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, err := http.ReadResponse(in, &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	io.WriteString(c, s.asked("GET /tunnel"))
	readAnswer(t, in, "GET")
	c.Close()
	s.await(t, func(r Record) bool { return r.Path == "/tunnel" })
	if got := s.d.caps.conns.Load(); got > 1 {
		t.Errorf("%d slots are held", got)
	}
}

// TestProxySendsAgain has a server that closes connections which the proxy keeps for
// further requests.
func TestProxySendsAgain(t *testing.T) {
	once := server(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	s := serve(t, once, nil)
	c := reach(t, s.proxy)
	in := bufio.NewReader(c)
	for range 3 {
		io.WriteString(c, "GET http://"+at(site, once)+"/ HTTP/1.1\r\nHost: "+at(site, once)+"\r\n\r\n")
		if resp, body := readAnswer(t, in, "GET"); body != "ok" {
			t.Fatalf("got %s %q", resp.Status, body)
		}
	}
}

func TestProxyIsNoServer(t *testing.T) {
	s := serve(t, echo(t), nil)
	for _, send := range []string{
		s.asked("GET /"), s.asked("GET /?u=http://" + at(site, s.port)), s.asked("OPTIONS *"),
		s.asked("GET ftp://" + at(site, s.port) + "/"), s.asked("GET https://" + at(site, s.port) + "/"),
		s.asked("GET http://u@" + at(site, s.port) + "/"), s.asked("GET file:///etc/passwd"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		c := reach(t, s.proxy)
		io.WriteString(c, send)
		if resp, body := readAnswer(t, bufio.NewReader(c), "GET"); resp.StatusCode != 400 || !strings.HasPrefix(body, "BLOCKED") {
			t.Errorf("%q: got %s %q; want 400", send, resp.Status, body)
		}
	}
	// A connection that asks for nothing is not recorded.
	before := len(s.records.list())
	reach(t, s.proxy).Close()
	s.d.Close()
	if all := s.records.list(); len(all) != before {
		t.Errorf("recorded %+v", all[before:])
	}
}

func TestProxyHoldsLimits(t *testing.T) {
	s := serve(t, echo(t), func(cfg *Config) { cfg.Egress.Limits.Conns = 1 })
	c, _, _, _ := s.connected(t, at(site, s.port), "Host: x")
	exchanged(t, c, "\x00", "\x00")
	if _, _, resp, body := s.connected(t, at(site, s.port), "Host: x"); resp.StatusCode != 403 || !strings.Contains(body, "connections") {
		t.Errorf("got %s %q; want a refusal that names the limit", resp.Status, body)
	}
}

func TestProxyTellsOfDeadServer(t *testing.T) {
	l := listen(t)
	dead := port(l.Addr())
	l.Close()
	s := serve(t, dead, nil)
	if _, _, resp, body := s.connected(t, at(site, dead), "Host: x"); resp.StatusCode != 502 || !strings.Contains(body, "connection refused") {
		t.Errorf("got %s %q; want 502 and the cause", resp.Status, body)
	}
	s.await(t, func(r Record) bool { return r.Allowed && strings.Contains(r.Reason, "connection refused") })
}
