package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// running is a front that serves on loopback.
type running struct {
	*Front
	addr string
	logs *testenv.Log
	end  func() // ends the front once, and waits for its end
}

// start serves a front with the routes of a server. /mcp answers with the body of the
// request.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	r := &running{logs: &testenv.Log{}}
	cfg.Addr, cfg.Log = "127.0.0.1:0", slog.New(slog.NewTextHandler(r.logs, nil))
	var err error
	if r.Front, err = Open(t.Context(), cfg, true); err != nil {
		t.Fatal(err)
	}
	r.addr = r.listener.Addr().String()
	r.Handle("/mcp", http.HandlerFunc(echo))
	r.Handle("GET /.well-known/oauth-protected-resource", http.HandlerFunc(echo))
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := r.Serve(ctx, func() error { return nil }); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	r.end = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
	})
	t.Cleanup(r.end)
	return r
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "got %s", body)
}

// raw sends the bytes of a request, and returns the answer.
func (r *running) raw(t testing.TB, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("answer to %q: %v", request, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// Every route, existing or not, refuses foreign names and pages for every method, before
// its handler gets the request.
func TestEveryRouteIsGuarded(t *testing.T) {
	f := start(t, Config{Hosts: []string{"belljar.example"}})
	own := "http://" + f.addr
	paths := []string{"/nowhere"}
	for _, pattern := range f.Routes() {
		_, path, both := strings.Cut(pattern, " ")
		if !both {
			path = pattern
		}
		paths = append(paths, path)
	}
	if len(paths) < 3 {
		t.Fatalf("the control: only %v", paths)
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "PUT", "CONNECT"} {
			for name, tt := range map[string]struct {
				headers string
				refused bool
			}{
				"own name":       {"Host: " + f.addr, false},
				"own page":       {"Host: " + f.addr + "\r\nOrigin: " + own, false},
				"given name":     {"Host: belljar.example", false},
				"foreign name":   {"Host: evil.example", true},
				"like loopback":  {"Host: 127.0.0.1.evil.example", true},
				"with a zone":    {"Host: [::1%25lo]", true},
				"foreign page":   {"Host: " + f.addr + "\r\nOrigin: https://evil.example", true},
				"page of TLS":    {"Host: " + f.addr + "\r\nOrigin: https://" + f.addr, true},
				"page like ours": {"Host: " + f.addr + "\r\nOrigin: http://localhost.evil", true},
				"page of nobody": {"Host: " + f.addr + "\r\nOrigin: null", true},
				"empty Origin":   {"Host: " + f.addr + "\r\nOrigin:", true},
				"two Origins":    {"Host: " + f.addr + "\r\nOrigin: " + own + "\r\nOrigin: https://evil.example", true},
				"upgrade":        {"Host: " + f.addr + "\r\nOrigin: https://evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket", true},
			} {
				res := f.raw(t, method+" "+path+" HTTP/1.1\r\n"+tt.headers+"\r\n\r\n")
				if refused := res.StatusCode == http.StatusForbidden; refused != tt.refused {
					t.Errorf("%s %s by %s: %s", method, path, name, res.Status)
				}
			}
		}
	}
	if res := f.raw(t, "GET /mcp HTTP/1.0\r\n\r\n"); res.StatusCode != http.StatusForbidden {
		t.Errorf("HTTP/1.0 without Host: %s", res.Status)
	}
}

// unread is a body that must not be read.
type unread struct{ reads int }

func (b *unread) Read([]byte) (int, error) {
	b.reads++
	return 0, io.EOF
}

// No byte of a body is read before the name and the page are checked.
func TestRefusedBodiesAreNotRead(t *testing.T) {
	f := start(t, Config{Proxies: []string{"10.0.0.0/8"}})
	for name, tt := range map[string]struct {
		change func(r *http.Request)
		status int
		reads  bool
	}{
		"own name":       {func(*http.Request) {}, 200, true},
		"foreign name":   {func(r *http.Request) { r.Host = "evil.example" }, 403, false},
		"foreign page":   {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, false},
		"past the proxy": {func(r *http.Request) { r.RemoteAddr = "198.51.100.7:5" }, 403, false},
		"no route":       {func(r *http.Request) { r.URL.Path = "/nowhere" }, 404, false},
	} {
		body := &unread{}
		r := httptest.NewRequest("POST", "http://localhost/mcp", body)
		r.RemoteAddr = "127.0.0.1:5"
		tt.change(r)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != tt.status || (body.reads > 0) != tt.reads {
			t.Errorf("%s: %d, and its body was read %d times", name, w.Code, body.reads)
		}
	}
}

func TestPreflight(t *testing.T) {
	f := start(t, Config{PublicURL: "https://belljar.example", Origins: []string{"https://app.example"}})
	ask := func(method, page string, more ...string) *http.Response {
		req := httptest.NewRequest(method, "http://"+f.addr+"/mcp", nil)
		if page != "" {
			req.Header.Set("Origin", page)
		}
		for i := 0; i < len(more); i += 2 {
			req.Header.Set(more[i], more[i+1])
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, req)
		return w.Result()
	}
	const wants = "Access-Control-Request-Method"
	for _, tt := range []struct {
		name  string
		res   *http.Response
		want  int
		reads bool
	}{
		{"named page", ask("OPTIONS", "https://app.example", wants, "POST"), 204, true},
		{"own page", ask("OPTIONS", "https://belljar.example", wants, "POST"), 204, true},
		{"page that repeats arguments", ask("OPTIONS", "https://app.example", wants, "POST", "Access-Control-Request-Headers", "content-type,mcp-param-region, cookie,x-mcp-param-x"), 204, true},
		{"foreign page", ask("OPTIONS", "https://evil.example", wants, "POST"), 403, false},
		{"page of nobody", ask("OPTIONS", "null", wants, "POST"), 403, false},
		{"page of a public network", ask("OPTIONS", "https://app.example", wants, "POST", "Access-Control-Request-Private-Network", "true"), 403, false},
		{"no page", ask("OPTIONS", "", wants, "POST"), 200, false},
		{"answer for a named page", ask("POST", "https://app.example"), 200, true},
		{"answer for no page", ask("POST", ""), 200, false},
		{"answer for a foreign page", ask("POST", "https://evil.example"), 403, false},
	} {
		h := tt.res.Header
		if tt.res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, tt.res.Status, tt.want)
		}
		page := h.Get("Access-Control-Allow-Origin")
		if (page != "") != tt.reads || page == "*" || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", tt.name, h)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") && !tt.reads {
				t.Errorf("%s: has %s", tt.name, name)
			}
		}
		switch {
		case tt.want == 204:
			for _, header := range []string{"Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"} {
				if !slices.Contains(strings.Split(h.Get("Access-Control-Allow-Headers"), ", "), header) {
					t.Errorf("%s: %s may not be sent", tt.name, header)
				}
			}
			if got := h.Get("Access-Control-Allow-Headers"); strings.Contains(got, "Mcp-Param-Region") != strings.Contains(tt.name, "repeats") || strings.Contains(strings.ToLower(got), "cookie") || strings.Contains(got, "X-") {
				t.Errorf("%s: headers %s", tt.name, got)
			}
			if got := h.Get("Access-Control-Allow-Methods"); got != "GET, POST, DELETE" {
				t.Errorf("%s: methods %s", tt.name, got)
			}
		case tt.reads:
			if got := h.Get("Access-Control-Expose-Headers"); got != "Mcp-Session-Id, Www-Authenticate, Retry-After" {
				t.Errorf("%s: exposes %s", tt.name, got)
			}
		}
		if h.Get("Vary") != "Origin" && tt.want != 403 {
			t.Errorf("%s: Vary %q", tt.name, h.Get("Vary"))
		}
	}
}

func TestProxies(t *testing.T) {
	for _, text := range []string{"0.0.0.0/0", "::/0", "10.0.0.0/33", "proxy", "", "fe80::1%eth0"} {
		if got, err := parsePrefixes([]string{text}); err == nil {
			t.Errorf("--behind-proxy %q: taken as %v", text, got)
		}
	}
	all, err := parsePrefixes([]string{"10.0.0.0/8", "192.0.2.7"})
	for peer, want := range map[string]bool{"10.1.2.3": true, "192.0.2.7": true, "192.0.2.8": false, "2001:db8::1": false} {
		if contains(all, netip.MustParseAddr(peer)) != want || err != nil {
			t.Errorf("%s is a proxy's: want %v; %v", peer, want, err)
		}
	}
}

// Without TLS, a request that does not come from the proxy is refused, because its token
// has crossed the network in clear text.
func TestPastTheProxy(t *testing.T) {
	f := start(t, Config{Proxies: []string{"10.0.0.0/8"}})
	for peer, want := range map[string]int{"10.1.1.1:5": 200, "127.0.0.1:5": 200, "198.51.100.1:5": 403} {
		r := httptest.NewRequest("POST", "http://localhost/mcp", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %s: %d %s, want %d", peer, w.Code, w.Body, want)
		}
	}
}

// With a mistake in the configuration, no port is opened.
func TestMistakes(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no port":               {Config{Addr: "8930"}, "want HOST:PORT"},
		"a name":                {Config{Addr: "example.com:8930"}, "want an address of this machine"},
		"key alone":             {Config{Addr: "127.0.0.1:0", Key: "k"}, "--tls-cert and --tls-key go together"},
		"authority alone":       {Config{Addr: "127.0.0.1:0", ClientCA: "c"}, "--tls-client-ca goes with --tls-cert"},
		"every proxy":           {Config{Addr: "127.0.0.1:0", Proxies: []string{"0.0.0.0/0"}}, "this is every address"},
		"public URL in clear":   {Config{Addr: "127.0.0.1:0", PublicURL: "http://belljar.example"}, "want https://"},
		"public URL with path":  {Config{Addr: "127.0.0.1:0", PublicURL: "https://belljar.example/x"}, "--public-url"},
		"any origin":            {Config{Addr: "127.0.0.1:0", Origins: []string{"*"}}, "--origin"},
		"host with user":        {Config{Addr: "127.0.0.1:0", Hosts: []string{"a@b"}}, "--host"},
		"less than no conns":    {Config{Addr: "127.0.0.1:0", Connections: -1}, "--connections"},
		"everybody, no TLS":     {Config{Addr: "0.0.0.0:0"}, "needs TLS (--tls-cert and --tls-key), or a proxy"},
		"everybody, by default": {Config{Addr: ":0"}, "needs TLS"},
		"every address of v6":   {Config{Addr: "[::]:0"}, "needs TLS"},
		"TLS and no login":      {Config{Addr: "0.0.0.0:0", Cert: "c", Key: "k"}, "needs a policy with tenants"},
		"a proxy and no login":  {Config{Addr: "0.0.0.0:0", Proxies: []string{"10.0.0.0/8"}}, "needs a policy with tenants"},
	} {
		cfg := tt.cfg
		cfg.Log = slog.New(slog.DiscardHandler)
		f, err := Open(t.Context(), cfg, !strings.HasSuffix(name, "no login"))
		if err == nil {
			f.Close()
		}
		var mistake *ConfigError
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// timed records the deadlines of the connection of a request.
type timed struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

// SetReadDeadline is called by http.ResponseController.
func (w *timed) SetReadDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, at)
	return nil
}

// A request for the server as a whole passes the same checks, and no answer repeats text of
// the request.
func TestOddTargets(t *testing.T) {
	f := start(t, Config{})
	for request, want := range map[string]int{
		"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                       http.StatusForbidden,
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n":          http.StatusForbidden,
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":                                          http.StatusBadRequest,
		"GET http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n":                        http.StatusForbidden,
		"GET //mcp?access_token=hidden HTTP/1.1\r\nHost: localhost\r\n\r\n":                      http.StatusNotFound,
		"GET /x/../mcp?access_token=hidden HTTP/1.1\r\nHost: localhost\r\n\r\n":                  http.StatusNotFound,
		"GET /.well-known/./oauth-protected-resource?hidden HTTP/1.1\r\nHost: localhost\r\n\r\n": http.StatusNotFound,
		// net/http refuses it
		"GET /mcp HTTP/1.1\r\nHost: localhost:8930@evil.example\r\n\r\n": http.StatusBadRequest,
		"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n":    http.StatusNotFound,
		"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n":                   http.StatusOK,
	} {
		res := f.raw(t, request)
		if text := fmt.Sprint(res.Header); res.StatusCode != want || strings.Contains(text, "hidden") {
			t.Errorf("%q: %s %s, want %d", request, res.Status, text, want)
		}
	}
}

// A client that uses a wrong path gets the right path.
func TestWrongPaths(t *testing.T) {
	f := start(t, Config{})
	for _, path := range []string{"/", "/nowhere", "/x/../mcp"} {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, http.NoBody))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "MCP is served at /mcp") {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

// A body has a time limit on every route. The deadline is removed when the whole body has
// arrived, because the call may take longer.
func TestBodyHasItsTime(t *testing.T) {
	f := start(t, Config{})
	for path, lifted := range map[string]bool{"/mcp": true, "/nowhere": false} {
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		before := time.Now()
		f.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader("body")))
		if len(w.deadlines) == 0 || w.deadlines[0].Before(before) || w.deadlines[0].After(time.Now().Add(bodyWait)) {
			t.Fatalf("%s: deadlines %v", path, w.deadlines)
		}
		if last := w.deadlines[len(w.deadlines)-1]; last.IsZero() != lifted {
			t.Errorf("%s: the last deadline is %v, want it lifted: %v", path, last, lifted)
		}
	}
}

// A process that opens no boxes uses more of its files for connections.
func TestConnectionsOfFront(t *testing.T) {
	if serves, forwards := totalConnections(false), totalConnections(true); forwards <= serves {
		t.Errorf("a process without boxes takes %d connections, and one with boxes %d", forwards, serves)
	}
}
