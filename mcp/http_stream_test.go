package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// openStream is the stream of a request. It is read in the background.
type openStream struct {
	t      testing.TB
	status int
	over   chan struct{} // closed at the end of the stream
	cancel context.CancelFunc

	mu   sync.Mutex
	read string
}

// listen opens a stream of a session. The caller must close it.
func (s *site) listen(headers ...string) *openStream {
	s.t.Helper()
	return s.stream(http.MethodGet, nil, headers...)
}

// stream sends a request, and reads its answer in the background. The caller must close it.
func (s *site) stream(method string, body io.Reader, headers ...string) *openStream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	res, err := http.DefaultClient.Do(s.request(ctx, method, body, headers...))
	if err != nil {
		s.t.Fatal(err)
	}
	l := &openStream{t: s.t, status: res.StatusCode, over: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(l.over)
		defer res.Body.Close()
		for r := bufio.NewReader(res.Body); ; {
			line, err := r.ReadString('\n')
			l.mu.Lock()
			l.read += line
			l.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *openStream) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}

// has waits until the stream contains a text.
func (l *openStream) has(text string) {
	l.t.Helper()
	if !testenv.Until(20*time.Second, func() bool { return strings.Contains(l.text(), text) }) {
		l.t.Fatalf("the stream is %q, want %q in it", l.text(), text)
	}
}

// hasTimes waits until the stream contains a text n times.
func (l *openStream) hasTimes(text string, n int) {
	l.t.Helper()
	if !testenv.Until(20*time.Second, func() bool { return strings.Count(l.text(), text) == n }) {
		l.t.Fatalf("the stream is %q, want %q in it %d times", l.text(), text, n)
	}
}

func (l *openStream) close() {
	l.cancel()
	<-l.over
}

// lastID returns the id of the last event.
func (l *openStream) lastID() string {
	at := strings.LastIndex(l.text(), "id: ")
	if at < 0 {
		return ""
	}
	id, _, _ := strings.Cut(l.text()[at+len("id: "):], "\n")
	return id
}

// counted counts decisions.
type counted struct{ n *atomic.Int64 }

func (c counted) Decided(context.Context, mcp.Decided) error {
	c.n.Add(1)
	return nil
}

func (counted) Finished(mcp.Finished) {}

// TestAttacksOnSessions contains requests for sessions and their streams that a stranger, a
// careless client or a proxy may send.
func TestAttacksOnSessions(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	var ran atomic.Int64
	s := newSite(t, with, func(c *mcp.Config) { c.Kept, c.Audit = book, counted{&ran} })
	as := func(who string) []string { return []string{"Authorization", "Bearer token-" + who} }
	r := s.do("POST", fmt.Sprintf(hello, revLegacy), as("a/ann")...)
	id := r.header.Get("Mcp-Session-Id")
	in := func(id, who string) []string {
		return append([]string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", revLegacy}, as(who)...)
	}
	s.do("POST", initialized, in(id, "a/ann")...)
	say := call("1", "echo", `{"text":"hi"}`)
	young := modern("1", "tools/call", `"name":"echo","arguments":{"text":"hi"},`)
	mine := append(modernHeaders("tools/call", "echo"), as("a/ann")...)

	for _, tt := range []struct {
		name, method, body string
		headers            []string
		status             int
		answer             string // text that the body must contain
	}{
		{"its owner", "POST", say, in(id, "a/ann"), 200, `"hi"`},
		{"another principal of the tenant", "POST", say, in(id, "a/bob"), 404, "no such session"},
		{"another tenant", "POST", say, in(id, "b/ann"), 404, "no such session"},
		{"another principal listens", "GET", "", in(id, "a/bob"), 404, "no such session"},
		{"another principal ends it", "DELETE", "", in(id, "a/bob"), 404, "no such session"},
		{"nobody", "POST", say, in(id, "a/ann")[:4], 401, ""},
		{"a guessed id", "POST", say, in("s-"+strings.Repeat("A", 26), "a/ann"), 404, "no such session"},
		{"an id in other letters", "POST", say, in(strings.ToLower(id), "a/ann"), 404, "no such session"},
		{"an id of 1 KiB", "POST", say, in(strings.Repeat("x", 1<<10), "a/ann"), 400, "not an id"},
		{"an id with a space", "POST", say, in("s- x", "a/ann"), 400, "not an id"},
		{"a second handshake", "POST", fmt.Sprintf(hello, revLegacy), in(id, "a/ann"), 400, "-32600"},
		{"no session", "POST", say, as("a/ann"), 400, "send initialize"},
		{"GET without a session", "GET", "", as("a/ann"), 405, ""},
		{"DELETE without a session", "DELETE", "", as("a/ann"), 405, ""},
		{"an unknown method of HTTP", "PATCH", say, in(id, "a/ann"), 405, ""},
		{"a compressed body", "POST", say, append(in(id, "a/ann"), "Content-Encoding", "gzip"), 415, ""},
		{"another media type", "POST", say, append(in(id, "a/ann"), "Content-Type", "text/plain"), 415, ""},
		{"a client that takes no JSON", "POST", say, append(in(id, "a/ann"), "Accept", "text/event-stream"), 400, "Accept"},
		{"a revision that does not exist", "POST", say, append(in(id, "a/ann"), "Mcp-Protocol-Version", "2025-01-01"), 400, "Unsupported protocol version"},
		{"1 MiB and a byte", "POST", say + strings.Repeat(" ", 1<<20), in(id, "a/ann"), 413, "larger than"},
		{"modern", "POST", young, mine, 200, `"hi"`},
		{"a legacy id in a modern request is ignored", "POST", young, append(mine, "Mcp-Session-Id", "s-none"), 200, `"hi"`},
		{"the header names another method", "POST", young, append(mine, "Mcp-Method", "tools/list"), 400, "-32020"},
		{"the header names another tool", "POST", young, append(mine, "Mcp-Name", "fail"), 400, "-32020"},
		{"the header has base64", "POST", young, append(mine, "Mcp-Name", "=?base64?ZWNobw==?="), 200, `"hi"`},
		{"the header has base64 of another tool", "POST", young, append(mine, "Mcp-Name", "=?base64?ZmFpbA==?="), 400, "-32020"},
		{"the header has invalid base64", "POST", young, append(mine, "Mcp-Name", "=?base64?%%%?="), 400, "-32020"},
		{"the header has base64 of what is not UTF-8", "POST", young, append(mine, "Mcp-Name", "=?base64?/w==?="), 400, "-32020"},
		{"the header names no tool", "POST", young, append(mine, "Mcp-Name", ""), 400, "-32020"},
		{"the header and _meta name two revisions", "POST", young, append(mine, "Mcp-Protocol-Version", "2027-01-01"), 400, ""},
		{"a modern method that does not exist", "POST", modern("1", "no/such", ""), append(modernHeaders("no/such", ""), as("a/ann")...), 404, "-32601"},
		{"a modern revision that does not exist", "POST", strings.Replace(young, "2026-07-28", "2099-01-01", 1), append(mine, "Mcp-Protocol-Version", "2099-01-01"), 400, `"supported":["2026-07-28"`},
		{"the owner again, after all of that", "POST", say, in(id, "a/ann"), 200, `"hi"`},
	} {
		before := ran.Load()
		r := s.do(tt.method, tt.body, tt.headers...)
		if r.status != tt.status || !strings.Contains(r.raw, tt.answer) {
			t.Errorf("%s: got %d %.200s, want %d with %q", tt.name, r.status, r.raw, tt.status, tt.answer)
		}
		if got := ran.Load() != before; got != (tt.status == 200) {
			t.Errorf("%s: a call was decided: %t", tt.name, got)
		}
	}
	for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(say))
		req.Header[http.CanonicalHeaderKey(name)] = []string{id, id} // in the form in which a server gets them
		s.Handler().ServeHTTP(w, req)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "twice") {
			t.Errorf("two headers %s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A client does not get the events of another owner's stream if it names their ids.
func TestEventsOfOthers(t *testing.T) {
	s := newSite(t)
	one, two := s.greet(), s.greet()
	for _, headers := range [][]string{two, one} {
		s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://7"}}`, headers...)
	}
	before := s.listen(two...) // so that the other session has events with the same numbers
	mine := s.listen(one...)
	s.Updated("local", "note://7")
	mine.has("note://7")
	before.has("note://7")
	id := mine.lastID()
	number := "-" + id[strings.LastIndex(id, "-")+1:]
	if last := before.lastID(); !strings.HasSuffix(last, number) {
		t.Fatalf("the events are %s and %s, want the same number", id, last)
	}
	mine.close()
	s.Updated("local", "note://7")
	before.hasTimes("note://7", 2) // otherwise a stream below would get it as a new event
	before.close()
	for _, last := range []string{id, "-1", "18446744073709551616", strings.Repeat("9", 200), "0"} {
		other := s.listen(append(two, "Last-Event-ID", last)...)
		other.has(":\n\n")
		if other.status != 200 || strings.Contains(other.text(), "data") {
			t.Errorf("behind %q another session reads %d %q", last, other.status, other.text())
		}
		other.close()
	}
	// The stream's own client resumes the stream after the event.
	again := s.listen(append(one, "Last-Event-ID", id)...)
	again.has("note://7")
	if n := strings.Count(again.text(), "note://7"); n != 1 {
		t.Errorf("the client that came back got %d events, want the one that it missed: %q", n, again.text())
	}
	again.close()
}

// A client that opens its stream again and again has only one open stream, and can open it
// only at its rate.
func TestManyStreams(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) { c.Limits.Burst, c.Limits.Rate = 60, 0.001 })
	headers := s.greet()
	var all []*openStream
	refused := 0
	for range 100 {
		l := s.listen(headers...)
		if l.status == 429 {
			refused++
		}
		all = append(all, l)
	}
	if refused != 40 {
		t.Errorf("%d of 100 streams were refused, want 40", refused)
	}
	open := 0
	testenv.Until(20*time.Second, func() bool {
		open = 0
		for _, l := range all {
			if !ended(l.over) {
				open++
			}
		}
		return open == 1
	})
	if open != 1 {
		t.Errorf("%d streams are open, want the newest", open)
	}
	for _, l := range all {
		l.close()
	}
}

// Sessions that are never used end after two minutes. A client that begins one session
// after the other uses no more than its share.
func TestSessionsThatAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &shelf{kept: make(map[string]mcp.KeptSession)}
		h := newHandled(t, func(c *mcp.Config) { c.Kept, c.Limits.ClientSessions = book, 64 })
		defer h.Shutdown(context.Background())
		for range 1000 {
			if id, w := h.begin(""); id == "" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for len(h.ended) > 0 {
				<-h.ended
			}
		}
		synctest.Wait()
		if open := len(h.Sessions()); open != 64 || len(book.kept) != 0 {
			t.Errorf("%d sessions are open and %d are kept, want 64 and none", open, len(book.kept))
		}
		used, _ := h.begin("")
		h.ask(t.Context(), "POST", "", used, initialized)
		time.Sleep(2*time.Minute + time.Second) // fake time
		synctest.Wait()
		if open := h.Sessions(); len(open) != 1 || open[0].ID != used {
			t.Errorf("after two minutes %d sessions are open, want the one that was used", len(open))
		}
	})
}

// A client that sends or reads slowly cannot keep a connection for long.
func TestSlowClients(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) { c.Limits.Body = 100 * time.Millisecond })
	var slow sync.WaitGroup
	defer slow.Wait()
	const waits, ends = 408, 400
	for name, tt := range map[string]struct {
		head string
		want int
	}{
		"a body that does not come":       {"Content-Length: 100\r\n\r\n{", waits},
		"chunks that do not end":          {"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", waits},
		"a body shorter than it says":     {"Content-Length: 5\r\n\r\n{}", waits},
		"a body that ends too early":      {"Content-Length: 5\r\n\r\n{}", ends},
		"a chunk that ends too early":     {"Transfer-Encoding: chunked\r\n\r\n5\r\n{}", ends},
		"chunks that end without the end": {"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", ends},
	} {
		slow.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			began := time.Now()
			if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+tt.head); err != nil {
				t.Error(err)
			}
			if half, ok := conn.(*net.TCPConn); ok && tt.want == ends {
				_ = half.CloseWrite() // the client sends no more bytes
			}
			raw, err := io.ReadAll(conn)
			if took := time.Since(began); !strings.HasPrefix(string(raw), fmt.Sprintf("HTTP/1.1 %d ", tt.want)) || tt.want == waits && took < 100*time.Millisecond {
				t.Errorf("%s: after %v: %.100q, want %d, and 408 after 100 ms", name, took, raw, tt.want)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: the connection is open after its answer", name)
			}
		})
	}
}

// A stream that lasts is the last answer of its connection: it ends with the server, and
// its client would send the next request to the server that ends. The connection stays open
// if several requests share it, and after all other answers.
func TestStreamsAreLastAnswers(t *testing.T) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		synctest.Test(t, func(t *testing.T) {
			h := newHandled(t, withSSE)
			session, begun := h.begin("")
			if got := begun.Header().Get("Connection"); got != "" {
				t.Errorf("%s: after an initialize: %q", name, got)
			}
			get := request(t.Context(), "GET", "/mcp")
			get.Header.Set("Mcp-Session-Id", session)
			get.Header.Set("Mcp-Protocol-Version", revLegacy)
			listen := request(t.Context(), "POST", "/mcp", modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
			setHeaders(listen, modernHeaders("subscriptions/listen", "")...)
			want := map[int]string{1: "close"}[major]
			for what, r := range map[string]*http.Request{"the stream of a session": get, "legacy SSE": request(t.Context(), "GET", "/sse"), "a subscription": listen} {
				ctx, cancel := context.WithCancel(t.Context())
				r = r.WithContext(ctx)
				r.ProtoMajor = major
				w, over := newPage(), make(chan struct{})
				go func() {
					defer close(over)
					h.handler.ServeHTTP(w, r)
				}()
				synctest.Wait()
				if got := w.header.Get("Connection"); w.status != http.StatusOK || got != want || w.text() == "" {
					t.Errorf("%s: %s: %d, Connection: %q, want %q; %s", name, what, w.status, got, want, w.text())
				}
				cancel()
				<-over
			}
			h.Shutdown(t.Context())
		})
	}
}

// If a session ends while a subscription begins, and there is an answer with events, then
// the first event is the acknowledgement.
func TestSubscriptionsBeginWhileTheServerEnds(t *testing.T) {
	for range 100 {
		h := newHandled(t)
		listen := request(t.Context(), "POST", "/mcp", modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
		setHeaders(listen, modernHeaders("subscriptions/listen", "")...)
		w, ended := newPage(), make(chan struct{})
		go func() {
			defer close(ended)
			h.Shutdown(t.Context())
		}()
		h.handler.ServeHTTP(w, listen)
		<-ended
		text := w.text()
		if at := strings.Index(text, "data: "); at >= 0 && !strings.Contains(strings.SplitN(text[at:], "\n", 2)[0], "acknowledged") || at < 0 && w.status == http.StatusOK {
			t.Fatalf("%d %v: %s", w.status, w.header, text)
		}
	}
}

// A subscription begins with its acknowledgement. When the server ends, it ends with its
// result.
func TestSubscriptionsEndWithTheServer(t *testing.T) {
	s := newSite(t)
	l := s.stream("POST", strings.NewReader(modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`)), modernHeaders("subscriptions/listen", "")...)
	defer l.close()
	l.has("notifications/subscriptions/acknowledged")
	<-s.endNow()
	<-l.over
	var got []string
	for line := range strings.Lines(l.text()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, data)
		}
	}
	if len(got) != 2 || !strings.Contains(got[0], "acknowledged") || strings.TrimSpace(got[1]) != `{"jsonrpc":"2.0","id":"l","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}` {
		t.Errorf("the messages are %q, want the acknowledgement and the result", got)
	}
}

// A refusal of a server that is stopping is marked: only such a request can be sent to the
// next server immediately.
func TestNotStartedIsMarked(t *testing.T) {
	s := newSite(t, func(c *mcp.Config) {
		c.HTTP.MarkNotStarted = func(h http.Header) { h.Set("Not-Started", "yes") }
	})
	headers := s.greet()
	running := make(chan reply, 1)
	go func() { running <- s.do("POST", call("1", "hang", `{}`), headers...) }()
	<-s.running
	if r := s.do("POST", call("2", "echo", `{"text":"x"}`), "Mcp-Session-Id", "none"); r.status/100 == 2 || r.header.Get("Not-Started") != "" {
		t.Errorf("a server at work refuses with %d %v", r.status, r.header)
	}
	ended := s.endNow()
	for name, send := range map[string]func() reply{
		"legacy": func() reply { return s.do("POST", call("3", "echo", `{"text":"x"}`), headers...) },
		"modern": func() reply {
			return s.do("POST", modern("4", "tools/call", `"name":"echo","arguments":{"text":"x"},`), modernHeaders("tools/call", "echo")...)
		},
		"new": func() reply { return s.do("POST", fmt.Sprintf(hello, revLegacy)) },
	} {
		var r reply
		if !testenv.Until(20*time.Second, func() bool { r = send(); return r.status == http.StatusServiceUnavailable }) {
			t.Errorf("%s: a server that ends says %d %s", name, r.status, r.raw)
		}
		if r.header.Get("Not-Started") != "yes" {
			t.Errorf("%s: refused without a mark: %d %v", name, r.status, r.header)
		}
	}
	close(s.free)
	<-ended
	if r := <-running; r.status != http.StatusOK || r.header.Get("Not-Started") != "" || r.last().text() != "free" {
		t.Errorf("the call that ran: %d %v %s", r.status, r.header, r.raw)
	}
}
