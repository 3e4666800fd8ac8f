package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/wire"
)

// site is a server over HTTP. A function of the test plays its part.
type site struct {
	*httptest.Server

	mu   sync.Mutex
	seen []seen // guarded by mu
}

// seen is a request that a site received.
type seen struct {
	what   string // HTTP method, and the JSON-RPC method if it has one
	header http.Header
	body   string
}

// newSite starts a site. play gets each request with its message.
func newSite(t *testing.T, play func(w http.ResponseWriter, r *http.Request, m message)) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var m message
		if len(body) > 0 {
			if err := json.Unmarshal(body, &m); err != nil {
				t.Errorf("the client posted %q", body)
			}
		}
		m.raw = string(body)
		s.mu.Lock()
		s.seen = append(s.seen, seen{strings.TrimSpace(r.Method + " " + m.Method), r.Header.Clone(), m.raw})
		s.mu.Unlock()
		play(w, r, m)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// requests returns the requests of a kind that the site received.
func (s *site) requests(what string) (all []seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r.what == what {
			all = append(all, r)
		}
	}
	return all
}

// client returns an HTTP client for a test, which leaves no connection open.
func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (s *site) open(t *testing.T, cfg Config, h HTTP) (*Conn, error) {
	t.Helper()
	if h.URL == "" {
		h.URL = s.URL + "/mcp?key=hidden"
	}
	h.Client = client(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second*testenv.Patience(t))
	defer stop()
	c, err := Open(ctx, h, cfg)
	if c != nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func sayJSON(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func sayEvent(w http.ResponseWriter, event string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, event)
	_ = http.NewResponseController(w).Flush()
}

// legacySite returns a site that answers the handshake of the legacy era, with a session.
// play gets the other requests.
func legacySite(t *testing.T, play func(w http.ResponseWriter, r *http.Request, m message)) *site {
	return newSite(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "server/discover":
			http.Error(w, "Bad Request: Missing session ID", http.StatusBadRequest)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "abc")
			sayJSON(w, m, helloLegacy)
		case m.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodGet && play == nil, r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			play(w, r, m)
		}
	})
}

func modernSite(t *testing.T, play func(w http.ResponseWriter, r *http.Request, m message)) *site {
	return newSite(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "server/discover" {
			sayJSON(w, m, helloModern)
			return
		}
		play(w, r, m)
	})
}

func TestHTTPModern(t *testing.T) {
	s := modernSite(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		if m.Params.Name == "events" {
			sayEvent(w, ": hello\r\n\r\nid: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\ndata: \"params\":{\"progressToken\":"+string(m.Params.Meta["progressToken"])+",\"progress\":1}}\n\nevent: other\ndata: {}\n\n")
			sayEvent(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"n\":1e400}}\n\n", m.ID))
			return
		}
		sayJSON(w, m, `{"n":1e400,  "m":{}}`)
	})
	c, err := s.open(t, Config{}, HTTP{Header: http.Header{"x-key": {"secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	tool := `{"name":"x","inputSchema":{"properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"yes":{"x-mcp-header":"Yes"},
		"null":{"x-mcp-header":"Null"},"half":{"x-mcp-header":"Half"},"big":{"x-mcp-header":"Big"},"bad":{"x-mcp-header":"a b"},
		"in":{"properties":{"deep":{"x-mcp-header":"Deep"}}},"gone":{"x-mcp-header":"Gone"},"none":{}}}}`
	args := `{"region":" 世界","n":-42,"yes":true,"null":null,"half":1.5,"big":9007199254740993,"bad":"x","in":{"deep":"d"},"none":"x"}`
	r, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x\ny","arguments":`+args+`}`), CallOptions{Tool: json.RawMessage(tool)})
	if err != nil || string(r) != `{"n":1e400,  "m":{}}` {
		t.Fatalf("got %s, %v", r, err)
	}
	h := s.requests("POST tools/call")[0].header
	for name, want := range map[string]string{
		"X-Key": "secret", "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?eAp5?=",
		"Mcp-Param-Region": "=?base64?IOS4lueVjA==?=", "Mcp-Param-N": "-42", "Mcp-Param-Yes": "true", "Mcp-Param-Deep": "d",
		"Mcp-Param-Null": "", "Mcp-Param-Half": "", "Mcp-Param-Big": "", "Mcp-Param-Gone": "", "Mcp-Param-None": "", "Mcp-Session-Id": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("the header %s is %q, want %q", name, got, want)
		}
	}
	if h := s.requests("POST server/discover")[0].header; h.Get("Mcp-Method") != "server/discover" || h.Get("Mcp-Protocol-Version") != "2026-07-28" {
		t.Errorf("discover had the headers %v", h)
	}
	var steps []string
	r, err = c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"events"}`), CallOptions{Progress: func(p json.RawMessage) { steps = append(steps, string(p)) }})
	if err != nil || string(r) != `{"n":1e400}` || fmt.Sprint(steps) != `[{"progress":1}]` {
		t.Fatalf("got %s, %v, %v", r, steps, err)
	}
	if got := s.requests("GET"); len(got) != 0 {
		t.Errorf("a modern server got %v", got)
	}
}

func TestHTTPLegacy(t *testing.T) {
	asked := make(chan string, 1)
	resumed := make(chan string, 1)
	note := make(chan struct{})
	s := legacySite(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case r.Header.Get("Mcp-Session-Id") != "abc" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25":
			http.Error(w, "headers", http.StatusTeapot)
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "e7":
			sayEvent(w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+<-resumed+",\"result\":{\"resumed\":1}}\n\n")
		case r.Method == http.MethodGet:
			sayEvent(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		case m.Method == "" && m.Result != nil:
			w.WriteHeader(http.StatusAccepted)
			asked <- m.raw
		case m.Params.Name == "ask":
			sayEvent(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{}}\n\n")
			sayEvent(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"got\":%s}}\n\n", m.ID, <-asked))
		case m.Params.Name == "resume":
			resumed <- string(m.ID)
			sayEvent(w, "id: e7\nretry: 1\ndata:\n\n")
		case m.Params.Name == "cut":
			sayEvent(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
		case m.Params.Name == "slow":
			sayEvent(w, ": wait\n\n")
			<-r.Context().Done()
		}
	})
	var once sync.Once
	c, err := s.open(t, Config{
		Capabilities: json.RawMessage(asks),
		OnRequest: func(_ context.Context, r Request) (json.RawMessage, error) {
			return fmt.Appendf(nil, `{"owner":%q}`, r.Owner), nil
		},
		OnNotification: func(n Notification) {
			if n.Method == "notifications/tools/list_changed" {
				once.Do(func() { close(note) })
			}
		},
	}, HTTP{})
	if err != nil {
		t.Fatal(err)
	}
	<-note
	// The question comes in the response to its call, so its owner is known even while
	// other calls are open.
	ctx, cancel := context.WithCancel(t.Context())
	slow := invoke(ctx, c, "tools/call", `{"name":"slow"}`, CallOptions{Owner: "bob"})
	if r := good(t, invoke(t.Context(), c, "tools/call", `{"name":"ask"}`, CallOptions{Owner: "ann"})); r != `{"got":{"jsonrpc":"2.0","id":"q","result":{"owner":"ann"}}}` {
		t.Errorf("got %s", r)
	}
	if r := good(t, invoke(t.Context(), c, "tools/call", `{"name":"resume"}`, CallOptions{})); r != `{"resumed":1}` {
		t.Errorf("got %s", r)
	}
	if got := failed(t, invoke(t.Context(), c, "tools/call", `{"name":"cut"}`, CallOptions{})); !strings.Contains(got, "ended its response without an answer") {
		t.Errorf("got %q", got)
	}
	cancel()
	is(t, "the slow call", (<-slow).err, context.Canceled)
	if !testenv.Until(30*time.Second*testenv.Patience(t), func() bool { return len(s.requests("POST notifications/cancelled")) == 1 }) {
		t.Error("the server did not hear of the cancel")
	}
	c.Close()
	if got := s.requests("DELETE"); len(got) != 1 || got[0].header.Get("Mcp-Session-Id") != "abc" {
		t.Errorf("the session was ended by %v", got)
	}
}

// A response that is not an answer ends its call, with an error that describes the
// response.
func TestHTTPRefusals(t *testing.T) {
	var elsewhere sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere.Store(r.Method, r.Header.Get("X-Key")) }))
	defer other.Close()
	large := strings.Repeat("x", 11<<20)
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request, m message)
		want   string
	}{
		{"login", func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Www-Authenticate", `Bearer resource_metadata="https://x.example"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "HTTP status 401"},
		{"busy", func(w http.ResponseWriter, _ *http.Request, _ message) {
			http.Error(w, "\x1b[31mslow down", http.StatusTooManyRequests)
		}, "HTTP status 429: ^[[31mslow down"},
		{"an error of the protocol", func(w http.ResponseWriter, _ *http.Request, m message) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Header mismatch","data":{"a":1}}}`, m.ID)
		}, "Header mismatch"},
		{"not JSON", func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		}, "without an answer"},
		{"HTML", func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, `content of type "text/html"`},
		{"accepted", func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(http.StatusAccepted) }, "HTTP status 202"},
		{"the answer to another", func(w http.ResponseWriter, _ *http.Request, m message) {
			sayJSON(w, message{ID: json.RawMessage(`1`)}, `{}`)
		}, "without an answer"},
		{"large", func(w http.ResponseWriter, _ *http.Request, m message) { sayJSON(w, m, `{"a":"`+large+`"}`) }, "more than 10485760 bytes"},
		{"large event", func(w http.ResponseWriter, _ *http.Request, m message) {
			sayEvent(w, `data: {"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"a":"`+large+"\"}}\n\n")
		}, "more than 10485760 bytes"},
		{"event of many lines", func(w http.ResponseWriter, _ *http.Request, _ message) {
			for range 12 {
				sayEvent(w, "data: "+large[:1<<20]+"\n")
			}
			sayEvent(w, "\n")
		}, "more than 10485760 bytes"},
		{"another host", func(w http.ResponseWriter, r *http.Request, _ message) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "redirects to another host"},
		{"round and round", func(w http.ResponseWriter, r *http.Request, _ message) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, "redirects more than 5 times"},
		{"cut", func(http.ResponseWriter, *http.Request, message) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		s := modernSite(t, tt.answer)
		c, err := s.open(t, Config{}, HTTP{Header: http.Header{"X-Key": {"secret"}}})
		if err != nil {
			t.Fatal(err)
		}
		got := failed(t, invoke(t.Context(), c, "tools/call", `{"name":"x"}`, CallOptions{}))
		if !strings.Contains(got, tt.want) || strings.Contains(got, "hidden") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		c.Close()
	}
	elsewhere.Range(func(method, key any) bool {
		t.Errorf("another host got a %v with the header %q", method, key)
		return true
	})
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Www-Authenticate", "Bearer x")
		w.WriteHeader(http.StatusUnauthorized)
	})
	_, err := s.open(t, Config{}, HTTP{})
	if e, ok := errors.AsType[*StatusError](err); !ok || e.Status != 401 || fmt.Sprint(e.Challenge) != "[Bearer x]" {
		t.Errorf("got %v", err)
	}
	if n := len(s.requests("POST initialize")); n != 0 {
		t.Error("initialize was tried without a login")
	}
	for _, u := range []string{"", "file:///etc/passwd", "http://user:pw@x.example", "https://x.example/#a", "https://x.example/#", "https://", "x.example", "http://[::1"} {
		if _, err := Open(t.Context(), HTTP{URL: u, Client: client(t)}, Config{}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("URL %q: got %v", u, err)
		}
	}
}

// The response to one call cannot answer another call. An answer with a wrong id can only
// answer the call in whose response it came.
func TestHTTPAnswersForOthers(t *testing.T) {
	victim := make(chan message, 1)
	release := make(chan struct{})
	s := modernSite(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		switch m.Params.Name {
		case "victim":
			victim <- m
			<-release
			sayJSON(w, m, `{"true":1}`)
		case "liar":
			v := <-victim
			sayEvent(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"false\":1}}\n\n", v.ID))
		case "fool":
			sayJSON(w, message{ID: json.RawMessage(`0`)}, `{"mine":1}`)
		}
	})
	c, err := s.open(t, Config{}, HTTP{})
	if err != nil {
		t.Fatal(err)
	}
	first := invoke(t.Context(), c, "tools/call", `{"name":"victim"}`, CallOptions{})
	if got := failed(t, invoke(t.Context(), c, "tools/call", `{"name":"liar"}`, CallOptions{})); !strings.Contains(got, "without an answer") {
		t.Errorf("got %q", got)
	}
	if r := good(t, invoke(t.Context(), c, "tools/call", `{"name":"fool"}`, CallOptions{})); r != `{"mine":1}` {
		t.Errorf("got %s", r)
	}
	close(release)
	if r := good(t, first); r != `{"true":1}` {
		t.Errorf("got %s", r)
	}
}

// inMemory is a RoundTripper without a network, so that the clock of a synctest bubble can
// be used.
type inMemory func(r *http.Request, m message) (status int, kind, body string)

func (f inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	var m message
	if r.Body != nil {
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			return nil, err
		}
	}
	status, kind, body := f(r, m)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// The stream that belongs to no call is opened again after the last event, at a bounded
// rate. If no events come, that ends after some attempts.
func TestHTTPStreamIsOpenedAgain(t *testing.T) {
	for _, events := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var opened []string
			transport := inMemory(func(r *http.Request, m message) (int, string, string) {
				switch {
				case m.Method == "initialize":
					return http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, helloLegacy)
				case r.Method != http.MethodGet:
					return http.StatusAccepted, "", ""
				}
				opened = append(opened, fmt.Sprintf("%v %s", time.Since(began), r.Header.Get("Last-Event-ID")))
				if len(opened) > events {
					return http.StatusOK, "text/event-stream", ": nothing\n\n"
				}
				return http.StatusOK, "text/event-stream", fmt.Sprintf("id: e%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n", len(opened))
			})
			got := 0
			c, err := Open(t.Context(), HTTP{URL: "https://x.example", Client: &http.Client{Transport: transport}},
				Config{Era: Legacy, OnNotification: func(Notification) { got++ }})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			c.Close()
			want := "[0s  1s  3s  7s  15s ]"
			if events > 0 {
				want = "[0s  1s e1 2s e2 3s e3 4s e3 6s e3 10s e3 18s e3]"
			}
			if fmt.Sprint(opened) != want || got != events {
				t.Errorf("the stream was opened at %v, want %v; %d notifications", opened, want, got)
			}
		})
	}
}

// If the server has forgotten the session, the connection ends, so that its owner opens
// another.
func TestHTTPSessionIsForgotten(t *testing.T) {
	s := legacySite(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, m.ID)
	})
	c, err := s.open(t, Config{}, HTTP{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), CallOptions{})
	is(t, "the call", err, ErrSession)
	<-c.Done()
	c.Close()
	if n := len(s.requests("DELETE")); n != 0 {
		t.Error("the session was ended all the same")
	}
}

func TestHTTPSessionID(t *testing.T) {
	for id, ok := range map[string]bool{"abc-_~!": true, "a b": false, "\u00e9": false, strings.Repeat("x", 1<<10): true, strings.Repeat("x", 1<<10+1): false} {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request, m message) {
			switch m.Method {
			case "initialize":
				w.Header().Set("Mcp-Session-Id", id)
				sayJSON(w, m, helloLegacy)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		})
		_, err := s.open(t, Config{Era: Legacy}, HTTP{})
		if (err == nil) != ok {
			t.Errorf("session %.20q: got %v", id, err)
		}
	}
}

// HTTP+SSE of revision 2024-11-05 is used if the configuration says so, or if a POST is
// refused.
func TestHTTPSSE(t *testing.T) {
	for _, named := range []bool{true, false} {
		lines := make(chan string, 16)
		s := newSite(t, func(w http.ResponseWriter, r *http.Request, m message) {
			switch {
			case r.URL.Path == "/messages":
				w.WriteHeader(http.StatusAccepted)
				switch m.Method {
				case "server/discover":
					t.Error("an old server was asked for server/discover")
				case "initialize":
					lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}`, m.ID)
				case "tools/call":
					lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"name":%q}}`, m.ID, m.Params.Name)
				}
			case r.Method == http.MethodGet:
				sayEvent(w, "event: endpoint\ndata: /messages?sessionId=1\n\n")
				for {
					select {
					case line := <-lines:
						if line == "end" {
							return
						}
						sayEvent(w, "event: message\ndata: "+line+"\n\n")
					case <-r.Context().Done():
						return
					}
				}
			default:
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
		})
		c, err := s.open(t, Config{}, HTTP{SSE: named, Header: http.Header{"X-Key": {"k"}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			want := fmt.Sprintf(`{"name":"%d"}`, i)
			if r := good(t, invoke(t.Context(), c, "tools/call", want, CallOptions{})); r != want {
				t.Errorf("got %s", r)
			}
		}
		if n := len(s.requests("POST notifications/initialized")); n != 1 {
			t.Errorf("initialized was sent %d times", n)
		}
		lines <- "end"
		<-c.Done()
		is(t, "end of the stream", c.Err(), ErrEnded)
		c.Close()
	}
}

// The endpoint of an HTTP+SSE server must be on the server's own host: another host would
// get the calls.
func TestHTTPSSEEndpoint(t *testing.T) {
	for event, want := range map[string]string{
		"event: endpoint\ndata: http://other.example/messages\n\n":       "not on the server's own host",
		"event: endpoint\ndata: //other.example/messages\n\n":            "not on the server's own host",
		"event: endpoint\ndata: http://u:p@%HOST%/messages\n\n":          "not on the server's own host",
		"event: endpoint\ndata: ::\n\n":                                  "not on the server's own host",
		"event: message\ndata: {}\n\n":                                   "not its endpoint",
		"event: endpoint\ndata: " + strings.Repeat("x", 11<<20) + "\n\n": "too long",
		"": "EOF",
	} {
		var s *site
		s = newSite(t, func(w http.ResponseWriter, r *http.Request, _ message) {
			sayEvent(w, strings.ReplaceAll(event, "%HOST%", strings.TrimPrefix(s.URL, "http://")))
		})
		_, err := s.open(t, Config{}, HTTP{SSE: true})
		contains(t, fmt.Sprintf("%.60q", event), err, want)
	}
}

// Close does not wait for requests that a server does not answer.
func TestHTTPClose(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 8)
	s := legacySite(t, func(w http.ResponseWriter, r *http.Request, _ message) {
		if r.Method == http.MethodGet {
			sayEvent(w, ": open\n\n")
		}
		entered <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	c, err := s.open(t, Config{}, HTTP{})
	if err != nil {
		t.Fatal(err)
	}
	done := invoke(t.Context(), c, "tools/call", `{}`, CallOptions{})
	<-entered
	<-entered
	c.Close()
	is(t, "the call", (<-done).err, ErrClosed)
	_, err = c.Call(t.Context(), "tools/call", nil, CallOptions{})
	is(t, "a later call", err, ErrClosed)
	close(release)
}

// A response that streams without end does not use much memory, and its call ends in time.
func TestHTTPFlood(t *testing.T) {
	s := modernSite(t, func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", m.Params.Name)
		out := bufio.NewWriterSize(w, 1<<20)
		chunk := strings.Repeat("x", 1<<20)
		for r.Context().Err() == nil {
			if _, err := out.WriteString(chunk); err != nil {
				return
			}
		}
	})
	c, err := s.open(t, Config{}, HTTP{})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		done := invoke(t.Context(), c, "tools/call", fmt.Sprintf(`{"name":%q}`, kind), CallOptions{})
		var r reply
		for r.err == nil {
			select {
			case r = <-done:
				if r.err == nil {
					t.Fatalf("%s: got %.100s", kind, r.result)
				}
			default:
			}
			if now := heap(); now > before+128<<20 {
				t.Fatalf("%s: memory grew by %d MB", kind, (now-before)>>20)
			}
		}
		t.Logf("%s: %v", kind, r.err)
	}
}

func TestEvents(t *testing.T) {
	ev := newEvents(strings.NewReader("\n:c\n\nevent: e\nid: 1\nid: a\x00b\nretry: 50\nretry: x\ndata:a\ndata\ndata:  b\n\nfoo\nfoo: bar\ndata: "+strings.Repeat("x", 2000)+"\n\ndata: "+
		strings.Repeat("y", 600)+"\ndata: "+strings.Repeat("y", 600)+"\ndata: z\n\nid\ndata: last\r\n\r\ndata: cut"), 1000)
	want := []string{"e|a\n\n b|1", "!", "!", "|last|"}
	for _, w := range want {
		e, err := ev.next()
		got := e.name + "|" + string(e.data) + "|" + ev.id
		if _, large := errors.AsType[*wire.LongLineError](err); large {
			got = "!"
		} else if err != nil {
			t.Fatal(err)
		}
		if got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
	if _, err := ev.next(); !errors.Is(err, io.EOF) || ev.retry != 50*time.Millisecond {
		t.Errorf("got %v, %v", err, ev.retry)
	}
}

// FuzzEvents reads any stream of events: no event is larger than the bound, and the stream
// ends.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\nid: 1\nretry: 5\ndata: {}\ndata: x\n\n:c\r\ndata\n\n"))
	f.Add([]byte("data: " + strings.Repeat("x", 300) + "\n\ndata: y\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ev := newEvents(iotest.HalfReader(bytes.NewReader(text)), 200)
		for n := 0; ; n++ {
			e, err := ev.next()
			if _, large := errors.AsType[*wire.LongLineError](err); err != nil && !large {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			}
			if len(e.data) > 200 || len(ev.id) > mostID || ev.retry < 0 || n > len(text) {
				t.Fatalf("event %d is %q, id %q, retry %v", n, e.data, ev.id, ev.retry)
			}
		}
	})
}
