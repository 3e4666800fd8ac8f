package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// site is a toy behind HTTP.
type site struct {
	*toy
	t   testing.TB
	url string
	cut chan struct{} // gets a token, if there is room, when a request ends because its client disconnected
}

func newSite(t testing.TB, change ...func(*mcp.Config)) *site {
	t.Helper()
	ty := newToy(t, change...)
	handler, cut := ty.Handler(), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(rw, r)
		if r.Context().Err() != nil {
			select {
			case cut <- struct{}{}:
			default:
			}
		}
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // immediately: running calls are cancelled
		if err := ty.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		server.CloseClientConnections()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return &site{toy: ty, t: t, url: server.URL, cut: cut}
}

// reply is the answer to a request.
type reply struct {
	status  int
	header  http.Header
	answers []answer
	raw     string
}

// request returns a request to the site. headers are names, each followed by its value.
func (s *site) request(ctx context.Context, method string, body io.Reader, headers ...string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, s.url, body)
	if err != nil {
		panic(err) // a mistake of the test, in any goroutine
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	setHeaders(req, headers...)
	return req
}

// setHeaders sets headers of a request. headers are names, each followed by its value.
func setHeaders(r *http.Request, headers ...string) {
	for pair := range slices.Chunk(headers, 2) {
		if pair[0] == "Host" {
			r.Host = pair[1]
		}
		r.Header.Set(pair[0], pair[1])
	}
}

// endNow ends the server after its running calls, and closes ended when the server has
// ended.
func (s *site) endNow() (ended <-chan struct{}) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := s.Shutdown(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}()
	return over
}

func (s *site) do(method, body string, headers ...string) reply {
	s.t.Helper()
	res, err := http.DefaultClient.Do(s.request(context.Background(), method, strings.NewReader(body), headers...))
	if err != nil {
		s.t.Fatalf("%s %.100s: %v", method, body, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("read the answer to %.100s: %v", body, err)
	}
	r := reply{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		lines := bufio.NewScanner(strings.NewReader(r.raw))
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				r.answers = append(r.answers, parse(s.t, data))
			}
		}
	} else if json.Valid(raw) {
		r.answers = []answer{parse(s.t, r.raw)}
	}
	return r
}

func (r reply) last() answer {
	if len(r.answers) == 0 {
		return answer{raw: r.raw}
	}
	return r.answers[len(r.answers)-1]
}

// greet performs the handshake and returns the headers of the session.
func (s *site) greet() []string {
	s.t.Helper()
	r := s.do("POST", fmt.Sprintf(hello, revLegacy))
	if r.status != 200 || r.header.Get("Mcp-Session-Id") == "" {
		s.t.Fatalf("initialize: %d %s", r.status, r.raw)
	}
	headers := []string{"Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy}
	if r := s.do("POST", initialized, headers...); r.status != 202 {
		s.t.Fatalf("initialized: %d %s", r.status, r.raw)
	}
	return headers
}

func modernHeaders(method, name string) []string {
	h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", name)
	}
	return h
}

func TestHTTPLegacy(t *testing.T) {
	s := newSite(t)
	one, two := s.greet(), s.greet()
	if one[1] == two[1] {
		t.Error("two clients share a session")
	}
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), one...); r.last().text() != "hi" {
		t.Errorf("echo answered %d %s", r.status, r.raw)
	}
	if r := s.do("POST", strings.Replace(call("2", "steps", `{}`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1), one...); r.last().text() != "done" || len(r.answers) < 2 {
		t.Errorf("steps answered %d %s, want progress and the answer", r.status, r.raw)
	}
	if r := s.do("POST", call("3", "panic", `{}`), one...); !strings.Contains(r.last().text(), "internal error in call") {
		t.Errorf("panic answered %d %s", r.status, r.raw)
	}
	if r := s.do("POST", call("4", "big", `{"bytes":11000000}`), one...); r.last().short() != "4: -32603" {
		t.Errorf("11 MB answered %d %.200s", r.status, r.raw)
	}
	if r := s.do("POST", fmt.Sprintf(hello, revLegacy), one...); r.last().short() != `"hello": -32600` {
		t.Errorf("a second initialize answered %d %s", r.status, r.raw)
	}
	if r := s.do("DELETE", "", one...); r.status != 204 {
		t.Errorf("DELETE answered %d %s", r.status, r.raw)
	}
	if id := <-s.ended; id != one[1] {
		t.Errorf("the session %s ended, want %s", id, one[1])
	}
	if r := s.do("POST", req("5", "tools/list"), one...); r.status != 404 {
		t.Errorf("a request to a session that is over answered %d %s", r.status, r.raw)
	}
	if r := s.do("POST", req("6", "tools/list"), two...); r.last().short() != "6: ok" {
		t.Errorf("the other session answered %d %s", r.status, r.raw)
	}
}

func TestHTTPModern(t *testing.T) {
	s := newSite(t)
	if r := s.do("POST", modern("1", "server/discover", ``), modernHeaders("server/discover", "")...); !strings.Contains(r.raw, `"supportedVersions":["2026-07-28"`) {
		t.Errorf("discover answered %d %s", r.status, r.raw)
	}
	if r := s.do("POST", modern("2", "tools/list", ``), modernHeaders("tools/list", "")...); !strings.Contains(r.raw, `"name":"echo"`) {
		t.Errorf("list answered %d %s", r.status, r.raw)
	}
	if r := s.do("POST", modern("3", "tools/call", `"name":"echo","arguments":{"text":"hi"},`), modernHeaders("tools/call", "echo")...); r.last().text() != "hi" {
		t.Errorf("echo answered %d %s", r.status, r.raw)
	}
	// Both eras are served on one URL.
	if r := s.do("POST", call("4", "echo", `{"text":"old"}`), s.greet()...); r.last().text() != "old" {
		t.Errorf("legacy echo answered %d %s", r.status, r.raw)
	}
}

func TestHTTPCancelByDisconnect(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	body := modern("1", "tools/call", `"name":"hang","arguments":{},`)
	req := s.request(ctx, "POST", strings.NewReader(body), modernHeaders("tools/call", "hang")...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := http.DefaultClient.Do(req); err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	<-s.running
	cancel()
	<-done
	if err := <-s.cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is %v, want context.Canceled", err)
	}
}

func TestHTTPWhoMayAsk(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name    string
		method  string
		headers []string
		want    int
	}{
		{"loopback", "POST", nil, 200},
		{"localhost", "POST", []string{"Host", "localhost:1"}, 200},
		{"IPv6 loopback", "POST", []string{"Host", "[::1]:1"}, 200},
		{"other loopback", "POST", []string{"Host", "127.9.9.9"}, 200},
		{"rebound", "POST", []string{"Host", "evil.example"}, 403},
		{"name that starts like ours", "POST", []string{"Host", "localhost.evil.example"}, 403},
		{"name that ends like ours", "POST", []string{"Host", "evil-bell.example"}, 403},
		{"address that is not loopback", "POST", []string{"Host", "10.0.0.1"}, 403},
		{"page of another site", "POST", []string{"Origin", "https://evil.example"}, 403},
		{"page of no site", "POST", []string{"Origin", "null"}, 403},
		{"browser says cross-site", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"page of another site reads", "GET", []string{"Origin", "https://evil.example"}, 403},
		{"page of another site ends", "DELETE", []string{"Origin", "https://evil.example"}, 403},
		{"own page", "POST", []string{"Host", "localhost:5", "Origin", "http://localhost:5"}, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.do(tt.method, fmt.Sprintf(hello, revLegacy), tt.headers...)
			if r.status != tt.want {
				t.Errorf("answered %d %s, want %d", r.status, r.raw, tt.want)
			}
		})
	}
}

func TestHTTPOddBodies(t *testing.T) {
	s := newSite(t)
	session := s.greet()
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
		want       string
	}{
		{"empty", ``, session, 400, "null: -32600"},
		{"text", `hello`, session, 400, "null: -32700"},
		{"number", `5`, session, 400, "null: -32600"},
		{"duplicate key", `{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}`, session, 400, "null: -32600"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}", session, 400, "7: -32700"},
		{"deep", nest("[", "]", 900), session, 400, "7: -32600"},
		{"id null", req("null", "ping"), session, 400, "null: -32600"},
		{"id 2^60+1", req("1152921504606846977", "ping"), session, 200, "1152921504606846977: ok"},
		{"id 2^60+1 of a list", req("1152921504606846977", "tools/list"), session, 200, "1152921504606846977: ok"},
		{"params array", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[]}`, session, 400, "7: -32602"},
		{"2 MB", fill(2_000_000), session, 413, "7: -32600"},
		{"2 MB, the id behind", `{"method":"echo","params":{"x":"` + strings.Repeat("x", 2_000_000) + `"},"jsonrpc":"2.0","id":7}`, session, 413, "null: -32600"},
		{"2 MB of an answer", `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("x", 2_000_000) + `"}}`, session, 413, "null: -32600"},
		{"batch after its time", `[` + req("7", "ping") + `]`, session, 400, "7: -32600"},
		{"batch of two after its time", `[` + req("7", "ping") + `,` + req("8", "ping") + `]`, session, 400, "null: -32600"},
		{"no session", req("7", "tools/list"), nil, 400, "7: -32600"},
		{"unknown session", req("7", "tools/list"), []string{"Mcp-Session-Id", "s-guessed"}, 404, "7: -32600"},
		{"unknown tool", call("7", "ecko", `{}`), session, 200, "7: -32602"},
		{"unknown resource", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"note://8"}}`, session, 200, "7: -32002"},
		{"later call", call("7", "echo", `{"text":"x"}`), session, 200, "7: ok"},
	} {
		r := s.do("POST", tt.body, tt.headers...)
		if r.status != tt.status || r.last().short() != tt.want {
			t.Errorf("%s: answered %d %.200s, want %d %s", tt.name, r.status, r.raw, tt.status, tt.want)
		}
	}
}

func TestHTTPSessionCap(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) { c.Limits.Sessions = 2 })
	one, two := s.greet(), s.greet()
	done := make(chan reply, 2)
	for _, session := range [][]string{one, two} {
		go func() { done <- s.do("POST", call("1", "hang", `{}`), session...) }()
		<-s.running
	}
	r := s.do("POST", fmt.Sprintf(hello, revLegacy))
	if r.status != 503 || r.header.Get("Retry-After") != "60" || r.last().short() != `"hello": -32003` {
		t.Errorf("a session too many answered %d %v %s", r.status, r.header, r.raw)
	}
	close(s.free)
	<-done
	<-done
	s.do("POST", req("2", "ping"), one...)
	// A session becomes idle shortly after its answer was written.
	if !testenv.Until(10*time.Second*testenv.Patience(t), func() bool {
		r = s.do("POST", fmt.Sprintf(hello, revLegacy))
		return r.status == 200
	}) {
		t.Fatalf("where a session is idle, a new one answered %d %s", r.status, r.raw)
	}
	if id := <-s.ended; id != two[1] {
		t.Errorf("the session %s ended for it, want %s", id, two[1])
	}
	if r := s.do("POST", req("3", "ping"), two...); r.status != 404 {
		t.Errorf("the session that ended answered %d %s", r.status, r.raw)
	}
}

func TestHTTPIdleSessionEnds(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) { c.Limits.Idle = 20 * time.Millisecond })
	one := s.do("POST", fmt.Sprintf(hello, revLegacy)).header.Get("Mcp-Session-Id")
	if id := <-s.ended; id != one {
		t.Errorf("the session %s ended, want %s", id, one)
	}
}

func TestHTTPTooManyRequests(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) { c.Limits = mcp.Limits{Running: 1, Queue: 1} })
	session := s.greet()
	done := make(chan reply, 3)
	for i := range 3 {
		go func() { done <- s.do("POST", call(fmt.Sprint(i), "hang", `{}`), session...) }()
	}
	r := <-done // one runs, one waits, and the third is answered immediately
	if r.status != 429 || r.header.Get("Retry-After") != "1" || r.last().Error == nil || r.last().Error.Code != -32003 {
		t.Errorf("one too many answered %d %v %s", r.status, r.header, r.raw)
	}
	if r := s.do("POST", req("50", "ping"), append([]string{"X", "y"}, s.greet()...)...); r.status != 200 {
		t.Errorf("another session's ping answered %d %s", r.status, r.raw)
	}
	close(s.free)
	for range 2 {
		if r := <-done; r.last().text() != "free" {
			t.Errorf("a call in its turn answered %d %s", r.status, r.raw)
		}
	}
}
