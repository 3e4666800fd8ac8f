package mcp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// withSSE turns on the transport of 2024-11-05.
func withSSE(c *mcp.Config) { c.SSE = true }

const revSSE = "2024-11-05"

// path returns the site at another path.
func (s *site) path(p string) *site {
	at := *s
	at.url += p
	return &at
}

// events is a client over HTTP with SSE.
type events struct {
	*openStream
	site    *site
	headers []string
	to      string // URL for its messages
}

// sse opens a stream and reads its first event.
func (s *site) sse(headers ...string) *events {
	s.t.Helper()
	e := &events{openStream: s.path("/sse").listen(headers...), site: s, headers: headers}
	if e.status != 200 {
		s.t.Fatalf("GET /sse: %d", e.status)
	}
	s.t.Cleanup(e.close)
	e.has("\nevent: endpoint\n")
	e.has("/messages?sessionId=")
	if !testenv.Until(20*time.Second, func() bool { return strings.Count(e.text(), "\n\n") > 1 }) {
		s.t.Fatalf("the first event has no end: %q", e.text())
	}
	_, data, _ := strings.Cut(e.text(), "data: ")
	e.to, _, _ = strings.Cut(data, "\n")
	return e
}

// id returns the id of the session.
func (e *events) id() string { return strings.TrimPrefix(e.to, "/messages?sessionId=") }

// post sends a message with any headers, as another client might.
func (e *events) post(body string, headers ...string) reply {
	e.site.t.Helper()
	return e.site.path(e.to).do("POST", body, headers...)
}

// send sends messages, and checks that they are accepted.
func (e *events) send(bodies ...string) {
	e.site.t.Helper()
	for _, body := range bodies {
		if r := e.post(body, e.headers...); r.status != 202 || r.raw != "" {
			e.site.t.Fatalf("POST %.100s: %d %s", body, r.status, r.raw)
		}
	}
}

// messages returns the messages of the server so far.
func (e *events) messages() (all []answer) {
	for event := range strings.SplitSeq(e.text(), "\n\n") {
		lines := strings.Split(event, "\n")
		if lines[0] != "event: message" {
			continue
		}
		for _, line := range lines[1:] {
			if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasSuffix(data, "}") {
				all = append(all, parse(e.site.t, data))
			}
		}
	}
	return all
}

// answer waits for the answer to a request.
func (e *events) answer(id string) (found answer) {
	e.site.t.Helper()
	if !testenv.Until(20*time.Second, func() bool {
		at := slices.IndexFunc(e.messages(), func(a answer) bool { return string(a.ID) == id && a.Method == "" })
		if at >= 0 {
			found = e.messages()[at]
		}
		return at >= 0
	}) {
		e.site.t.Fatalf("no answer to %s in %q", id, e.text())
	}
	return found
}

// greet performs the handshake.
func (e *events) greet() *events {
	e.site.t.Helper()
	e.send(fmt.Sprintf(hello, revSSE))
	if a := e.answer(`"hello"`); !strings.Contains(a.raw, `"protocolVersion":"2024-11-05"`) {
		e.site.t.Fatalf("initialize: %s", a.raw)
	}
	e.send(initialized)
	return e
}

// sameOverAll are messages with a part of their answers. The answers are the same over all
// transports. A %s stands for the revision.
var sameOverAll = []struct{ body, want string }{
	{call("1", "echo", `{"text":"hi"}`), `hi`},
	{call("2", "steps", `{}`), `done`},
	{call("3", "fail", `{}`), `"isError":true`},
	{call("4", "echo", `{"text":"forbidden"}`), `no-forbidden`},
	{call("5", "panic", `{}`), `internal error`},
	{call("6", "ecko", `{}`), `-32602`},
	{req("7", "ping"), `"result":{}`},
	{req("8", "prompts/get"), `-32602`},
	{req("9", "no/method"), `-32601`},
	{`{"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"note://7"}}`, `seven`},
	{call("11", "big", `{"bytes":11000000}`), `-32603`},
	{strings.Replace(hello, `"hello"`, "12", 1), `-32600`},
}

// TestSSE checks the wire of 2024-11-05: the endpoint is the first event, the server
// accepts messages with 202, and everything else is sent as events, with the same bytes as
// over stdio.
func TestSSE(t *testing.T) {
	s := newSite(t, withSSE)
	e := s.sse()
	id := e.id()
	if want := ":\n\nevent: endpoint\nid: " + id + "."; !strings.HasPrefix(e.text(), want) || !strings.Contains(e.text(), "\nretry: 3000\n") || !strings.HasPrefix(e.to, "/messages?") {
		t.Errorf("the stream begins with %q, want %q", e.text(), want)
	}
	e.greet()
	over := s.connect(t)
	over.greet(revSSE)
	for _, tt := range sameOverAll {
		body := strings.Replace(tt.body, "%s", revSSE, 1)
		e.send(body)
		over.send(body)
		want := over.next()
		got := e.answer(string(want.ID)).raw
		if !strings.Contains(got, tt.want) || short(got) != short(want.raw) {
			t.Errorf("%.80s:\n got %.300s\nwant %.300s", body, got, want.raw)
		}
	}
	if r := s.path("/messages?sessionId="+id).do("POST", `{"jsonrpc":"2.0","id":1,`); r.status != 400 || r.last().short() != "1: -32700" {
		t.Errorf("what is not JSON: %d %s", r.status, r.raw)
	}
	e.send(strings.Replace(call("20", "steps", `{}`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1))
	e.answer("20")
	if n := strings.Count(e.text(), "notifications/progress"); n != 3 {
		t.Errorf("%d notifications of progress, want 3: %q", n, e.text())
	}
	e.send(call("21", "hang", `{}`))
	<-s.running
	e.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":21}}`)
	<-s.cancelled
	e.send(`{"jsonrpc":"2.0","id":22,"method":"resources/subscribe","params":{"uri":"note://7"}}`)
	e.answer("22")
	s.Updated("local", "note://7")
	e.has("notifications/resources/updated")
	if got := s.Sessions(); len(got) != 2 || !slices.ContainsFunc(got, func(i mcp.SessionInfo) bool {
		return i.ID == id && i.Transport == "sse" && i.Client == "test"
	}) {
		t.Errorf("the sessions are %+v", got)
	}
}

// short returns an answer without the parts that differ from call to call.
func short(raw string) string {
	before, rest, found := strings.Cut(raw, "c-")
	if !found {
		return raw
	}
	return before + "c-" + rest[min(len(rest), 8):]
}

func TestSSEIsOff(t *testing.T) {
	s := newSite(t)
	for _, method := range []string{"GET", "POST"} {
		for _, path := range []string{"/sse", "/messages?sessionId=s-e1"} {
			if r := s.path(path).do(method, req("1", "ping")); r.status != 404 || !strings.Contains(r.raw, "/mcp") || !strings.Contains(r.raw, "--legacy-sse") {
				t.Errorf("%s %s: %d %s", method, path, r.status, r.raw)
			}
		}
	}
	if open := s.Sessions(); len(open) != 0 {
		t.Errorf("%d sessions are open", len(open))
	}
}

// TestAttacksOnSSE contains requests that a stranger or a careless client may send to the
// two routes.
func TestAttacksOnSSE(t *testing.T) {
	_, with := newOffice(t, "auth: {scopes: {read: {tools: [fail]}}}\ntenants: {a: {}, b: {}}\n")
	var ran atomic.Int64
	s := newSite(t, with, withSSE, func(c *mcp.Config) { c.Audit = counted{&ran} })
	as := func(who string) []string { return []string{"Authorization", "Bearer token-" + who} }
	e := s.sse(as("a/ann")...).greet()
	web := s.do("POST", fmt.Sprintf(hello, revLegacy), as("a/ann")...).header.Get("Mcp-Session-Id")
	say := call("1", "echo", `{"text":"hi"}`)
	with2 := func(who, name, value string) []string { return append(as(who), name, value) }
	to, messages := e.to, "/messages?sessionId="
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		answer                   string // text that the body must contain
	}{
		{"its owner", "POST", to, say, as("a/ann"), 202, ""},
		{"its owner with a new token", "POST", to, say, as("a/ann#2"), 202, ""},
		{"its owner with a token that is good for less", "POST", to, say, as("a/ann@read"), 403, "insufficient_scope"},
		{"another principal", "POST", to, say, as("a/bob"), 404, "no such session"},
		{"another tenant", "POST", to, say, as("b/ann"), 404, "no such session"},
		{"nobody", "POST", to, say, nil, 401, ""},
		{"a bad token", "POST", to, say, as("c"), 401, ""},
		{"a token in the URL", "POST", to + "&access_token=token-a/ann", say, nil, 400, "Authorization"},
		{"nobody listens", "GET", "/sse", "", nil, 401, ""},
		{"a session of /mcp", "POST", messages + web, say, as("a/ann"), 404, "no such session"},
		{"the session at /mcp", "POST", "/mcp", say, append(as("a/ann"), "Mcp-Session-Id", e.id()), 404, "no such session"},
		{"the session at /mcp listens", "GET", "/mcp", "", append(as("a/ann"), "Mcp-Session-Id", e.id()), 404, "no such session"},
		{"the session at /mcp ends", "DELETE", "/mcp", "", append(as("a/ann"), "Mcp-Session-Id", e.id()), 404, "no such session"},
		{"a guessed session", "POST", messages + "s-e" + strings.Repeat("A", 26), say, as("a/ann"), 404, "no such session"},
		{"no session", "POST", "/messages", say, as("a/ann"), 400, "does not name a session"},
		{"two sessions", "POST", to + "&sessionId=" + e.id(), say, as("a/ann"), 400, "does not name a session"},
		{"an id of 1 KiB", "POST", messages + strings.Repeat("x", 1<<10), say, as("a/ann"), 400, "does not name a session"},
		{"an id with a line feed", "POST", messages + "s-e%0d%0ax", say, as("a/ann"), 400, "does not name a session"},
		{"1 MiB and a byte", "POST", to, say + strings.Repeat(" ", 1<<20), as("a/ann"), 413, "larger than"},
		{"a compressed body", "POST", to, say, with2("a/ann", "Content-Encoding", "gzip"), 415, ""},
		{"a form of a page", "POST", to, say, with2("a/ann", "Content-Type", "text/plain"), 415, ""},
		{"a foreign page", "POST", to, say, with2("a/ann", "Origin", "https://evil.example"), 403, ""},
		{"a foreign page listens", "GET", "/sse", "", with2("a/ann", "Origin", "https://evil.example"), 403, ""},
		{"a rebound name", "GET", "/sse", "", with2("a/ann", "Host", "evil.example"), 403, ""},
		{"two values", "POST", to, say + say, as("a/ann"), 400, "-32700"},
		{"invalid UTF-8", "POST", to, strings.Replace(say, "hi", "\xff", 1), as("a/ann"), 400, "-32700"},
		{"a token in _meta", "POST", to, strings.Replace(say, `"params":{`, `"params":{"_meta":{"access_token":"x"},`, 1), as("a/ann"), 400, "Authorization"},
		{"a batch of one message", "POST", to, "[" + say + "]", as("a/ann"), 202, ""},
		{"an empty batch", "POST", to, "[]", as("a/ann"), 400, "-32600"},
		{"a client that takes no events", "GET", "/sse", "", with2("a/ann", "Accept", "application/json"), 400, "text/event-stream"},
		{"a message to the stream", "POST", "/sse", say, as("a/ann"), 405, ""},
		{"a stream of messages", "GET", to, "", as("a/ann"), 405, ""},
		{"another method", "DELETE", to, "", as("a/ann"), 405, ""},
		{"the owner again, after all of that", "POST", to, say, as("a/ann"), 202, ""},
	} {
		before, answers := ran.Load(), len(e.messages())
		r := s.path(tt.path).do(tt.method, tt.body, tt.headers...)
		if r.status != tt.status || !strings.Contains(r.raw, tt.answer) {
			t.Errorf("%s: got %d %.200s, want %d with %q", tt.name, r.status, r.raw, tt.status, tt.answer)
		}
		if tt.status == 202 {
			if !testenv.Until(20*time.Second, func() bool { return len(e.messages()) > answers }) {
				t.Errorf("%s: no answer came", tt.name)
			}
			continue
		}
		if ran.Load() != before {
			t.Errorf("%s: a call was decided", tt.name)
		}
	}
	if strings.Contains(e.text(), "token-") {
		t.Errorf("the stream shows a token: %q", e.text())
	}
}

// A client that returns with the id of an event of another principal's session gets a new
// session, and reads nothing of the other session.
func TestEventsOfOthersOverSSE(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	s := newSite(t, with, withSSE)
	ann := s.sse("Authorization", "Bearer token-a/ann").greet()
	ann.send(call("1", "echo", `{"text":"secret"}`))
	ann.answer("1")
	id, start := ann.lastID(), ann.id()+"."
	for _, who := range []string{"a/bob", "b/ann"} {
		for _, last := range []string{id, start, start + "x-1", strings.Replace(id, "-2", "-0", 1)} {
			other := s.sse("Authorization", "Bearer token-"+who, "Last-Event-ID", last)
			if other.id() == ann.id() || strings.Contains(other.text(), "secret") {
				t.Errorf("%s behind %q reads %q", who, last, other.text())
			}
			other.close()
		}
	}
	for _, last := range []string{"", "-1", "s-e.1-1", id[1:], strings.Repeat("9", 200) + ".1-1"} {
		again := s.sse("Authorization", "Bearer token-a/ann", "Last-Event-ID", last)
		if strings.Contains(again.text(), "secret") {
			t.Errorf("behind %q the owner reads %q", last, again.text())
		}
		again.close()
	}
	// An event that its own session does not contain is an event of an earlier server: the
	// owner gets all events that are kept.
	for _, last := range []string{start + "-1", id + "9", start + "0-18446744073709551616"} {
		again := s.sse("Authorization", "Bearer token-a/ann", "Last-Event-ID", last)
		if got := again.answer("1").text(); again.id() != ann.id() || got != "secret" {
			t.Errorf("behind %q the owner is in %s and reads %q", last, again.id(), got)
		}
		again.close()
	}
}

// A client that was cut off returns to its session, with the header that every reader of
// such streams sends by itself, and misses no answer.
func TestSSEComesBack(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	s := newSite(t, withSSE, func(c *mcp.Config) { c.Kept = book })
	e := s.sse().greet()
	e.send(call("1", "hang", `{}`))
	<-s.running
	last := e.lastID()
	e.close()
	s.free <- struct{}{}
	// The call is answered before the client returns.
	e.send(call("2", "echo", `{"text":"while it was away"}`))
	again := s.sse("Last-Event-ID", last)
	if again.id() != e.id() {
		t.Fatalf("the client is in the session %s, want %s", again.id(), e.id())
	}
	if got := again.answer("1").text(); got != "free" {
		t.Errorf("the call that ran says %q", got)
	}
	again.answer("2")
	if n := len(again.messages()); n != 2 {
		t.Errorf("%d messages came, want the two that were missed: %q", n, again.text())
	}
	// A client that has not got a message yet gets all messages.
	start := s.sse()
	had := start.lastID()
	start.send(fmt.Sprintf(hello, revSSE))
	start.answer(`"hello"`)
	back := s.sse("Last-Event-ID", had)
	back.answer(`"hello"`)
	if !testenv.Until(20*time.Second, func() bool { return ended(start.over) }) {
		t.Error("the older stream is still open")
	}

	// The end of the server does not end the session either.
	if kept, ok := book.kept[e.id()]; !ok || kept.Revision != revSSE || len(book.kept) != 1 {
		t.Fatalf("the book has %+v", book.kept)
	}
	// A session whose handshake was refused is not kept.
	bad := s.sse()
	bad.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`)
	if a := bad.answer("1"); a.Error == nil {
		t.Errorf("a bad handshake: %s", a.raw)
	}
	if bad.send(initialized); len(book.kept) != 1 {
		t.Errorf("after a bad handshake the book has %+v", book.kept)
	}
	next := newSite(t, withSSE, func(c *mcp.Config) { c.Kept = book })
	early := &events{site: next, to: e.to} // a message may arrive before the stream is opened
	early.send(call("5", "echo", `{"text":"early"}`))
	after := next.sse("Last-Event-ID", again.lastID())
	after.answer("5")
	if after.id() != e.id() {
		t.Fatalf("after a restart the client is in the session %s, want %s", after.id(), e.id())
	}
	after.send(call("3", "echo", `{"text":"again"}`))
	if got := after.answer("3").text(); got != "again" {
		t.Errorf("after a restart: %s", got)
	}
}

// A session ends two minutes after its stream. Until then it uses a place of its tenant. A
// new session that needs the place ends it earlier.
func TestSSESessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t, withSSE, func(c *mcp.Config) { c.Limits.Sessions = 2 })
		defer h.Shutdown(context.Background())
		one, _, cutOne := h.stream(t.Context())
		two, _, cutTwo := h.stream(t.Context())
		if id, w, _ := h.stream(t.Context()); id != "" || w.status != 503 || w.header.Get("Retry-After") != "60" {
			t.Errorf("where two streams are open: %d %v %q", w.status, w.header, w.text())
		}
		time.Sleep(time.Hour) // fake time; comments keep the streams open
		cutOne()
		three, _, cutThree := h.stream(t.Context())
		for _, id := range []string{two, three} {
			if got := h.message(id, fmt.Sprintf(hello, revSSE), initialized); got != 202 {
				t.Errorf("initialized: %d", got)
			}
		}
		if got := <-h.ended; got != one || three == "" {
			t.Errorf("the session %s ended for %s, want %s", got, three, one)
		}
		cutTwo()
		cutThree()
		time.Sleep(2*time.Minute - time.Second)
		synctest.Wait()
		if n := len(h.Sessions()); n != 2 {
			t.Errorf("%d sessions are open before their time", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(h.Sessions()); n != 0 {
			t.Errorf("%d sessions are open two minutes after their streams, such as %s", n, two)
		}
	})
}

// A client that sends and does not read uses a limited amount of memory, and then gets 429.
func TestSSEUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t, withSSE, func(c *mcp.Config) { c.Limits.Running = 4 })
		var made atomic.Int64
		mcp.AddTool(h.Server, mcp.Tool{Name: "late", Description: "answers much when it is set free"}, func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
			<-h.free
			made.Add(1)
			return mcp.Text("%s", strings.Repeat("x", 400_000)), nil
		})
		id, w, cut := h.stream(t.Context())
		defer cut()
		post := func(body string) int { return h.message(id, body) }
		post(fmt.Sprintf(hello, revSSE))
		w.stall()
		refused := 0
		for i := range 100 {
			if post(call(fmt.Sprint(i), "big", `{"bytes":400000}`)) == 429 {
				refused++
			}
			synctest.Wait()
		}
		if refused < 90 {
			t.Errorf("%d of 100 messages were refused while nothing was read, want almost all", refused)
		}
		w.resume()
		synctest.Wait()
		if got := post(call("200", "echo", `{"text":"read"}`)); got != 202 {
			t.Errorf("after it has read: %d", got)
		}
		synctest.Wait()
		if n := strings.Count(w.text(), "event: message"); n != 100-refused+2 {
			t.Errorf("%d answers came, want %d", n, 100-refused+2)
		}
		// Many answers at the same time use no more memory: their calls wait.
		w.stall()
		for i := range 40 {
			if got := post(call(fmt.Sprint(300+i), "late", `{}`)); got != 202 {
				t.Errorf("call %d: %d", i, got)
			}
		}
		synctest.Wait()
		close(h.free)
		synctest.Wait()
		if n := made.Load(); n > 12 {
			t.Errorf("%d answers of 400 kB were made while nothing was read, want 4 that wait and 4 that run, or so", n)
		}
		w.resume()
		synctest.Wait()
		if n := made.Load(); n != 40 {
			t.Errorf("%d answers were made at the end, want 40", n)
		}
		h.Shutdown(context.Background())
	})
}

// stream opens a stream in a synctest bubble. cut ends the stream.
func (h *handled) stream(ctx context.Context) (id string, w *page, cut func()) {
	ctx, cancel := context.WithCancel(ctx)
	w = newPage()
	over := make(chan struct{})
	r := request(ctx, "GET", "/sse")
	go func() {
		defer close(over)
		h.handler.ServeHTTP(w, r)
	}()
	synctest.Wait()
	_, id, _ = strings.Cut(w.text(), "sessionId=")
	id, _, _ = strings.Cut(id, "\n")
	return id, w, func() { cancel(); <-over }
}

// message sends messages to the session of a stream, and returns the status of the last
// message.
func (h *handled) message(id string, bodies ...string) (status int) {
	for _, body := range bodies {
		w := newPage()
		h.handler.ServeHTTP(w, request(h.t.Context(), "POST", "/messages?sessionId="+id, body))
		status = w.status
	}
	return status
}

// A call that runs when the server ends is answered before its stream ends. A client that
// reads slowly still gets the answer.
func TestSSEDrains(t *testing.T) {
	s := newSite(t, withSSE)
	e := s.sse().greet()
	e.send(call("1", "hang", `{}`))
	<-s.running
	ended := s.endNow()
	refuses := func() bool { // the server may still accept a stream, which is not read
		res, err := http.DefaultClient.Do(s.path("/sse").request(t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable
	}
	if !testenv.Until(20*time.Second, refuses) {
		t.Error("a server that ends takes new clients")
	}
	close(s.free)
	<-ended
	<-e.over
	if got := e.answer("1").text(); got != "free" {
		t.Errorf("the call that ran says %q", got)
	}

	for range 20 { // each round has an even chance of finding a stream that ends too early
		synctest.Test(t, func(t *testing.T) {
			h := newHandled(t, withSSE)
			id, w, cut := h.stream(t.Context())
			defer cut()
			h.message(id, fmt.Sprintf(hello, revSSE))
			synctest.Wait()
			w.stall()
			for i := range 3 {
				h.message(id, call(fmt.Sprint(i), "echo", `{"text":"x"}`), req(fmt.Sprint(10+i), "ping"))
			}
			synctest.Wait()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.Shutdown(context.Background())
			}()
			synctest.Wait()
			time.Sleep(time.Minute)
			w.resume()
			<-ended
			synctest.Wait()
			if n := strings.Count(w.text(), "event: message"); n != 7 {
				t.Errorf("%d of 7 answers came: %q", n, w.text())
			}
		})
	}
}

// If an operator ends a session, its cancelled calls are answered before its stream ends.
func TestSSEIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t, withSSE)
		defer h.Shutdown(context.Background())
		mcp.AddTool(h.Server, mcp.Tool{Name: "slow", Description: "needs a second to be cancelled"}, func(ctx context.Context, _ mcp.Call, _ noInput) (*mcp.Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // fake time
			return nil, context.Cause(ctx)
		})
		id, w, cut := h.stream(t.Context())
		defer cut()
		h.message(id, fmt.Sprintf(hello, revSSE), initialized, call("1", "slow", `{}`))
		synctest.Wait()
		h.End(func(mcp.SessionInfo) bool { return true }, "it is late")
		synctest.Wait()
		if !strings.Contains(w.text(), `"id":1`) {
			t.Errorf("the call that was cancelled has no answer: %q", w.text())
		}
		r := newPage()
		h.handler.ServeHTTP(r, request(t.Context(), "POST", "/messages?sessionId="+id, req("2", "ping")))
		if r.status != 404 || !strings.Contains(r.text(), "it is late") {
			t.Errorf("a message after that: %d %s", r.status, r.text())
		}
	})
}

// TestSSEWithTheSDK uses the client of the go-sdk, which uses this transport in the same
// way as other clients.
func TestSSEWithTheSDK(t *testing.T) {
	s := newSite(t, withSSE)
	updated := make(chan string, 1)
	c := sdk.NewClient(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
	})
	for _, revision := range []string{"", revSSE, "2025-11-25"} {
		session, err := c.Connect(t.Context(), &sdk.SSEClientTransport{Endpoint: s.url + "/sse", HTTPClient: http.DefaultClient}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("revision %q: %v", revision, err)
		}
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 5 {
			t.Errorf("revision %q: %d tools, %v", revision, len(tools.Tools), err)
		}
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(res.Content); err != nil || !strings.Contains(string(text), "hi") {
			t.Errorf("revision %q: %s, %v", revision, text, err)
		}
		if revision == revSSE {
			if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "note://7"}); err != nil {
				t.Error(err)
			}
			s.Updated("local", "note://7")
			if got := <-updated; got != "note://7" {
				t.Errorf("updated: %s", got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-s.running
				cancel()
			}()
			if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "hang"}); err == nil {
				t.Error("a call that was cancelled has an answer")
			}
			<-s.cancelled
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// With a token of fewer scopes, a client sees fewer tools, even if the stream was opened
// with another token.
func TestSSEScopes(t *testing.T) {
	_, with := newOffice(t, twoScopes)
	s := newSite(t, with, withSSE)
	e := s.sse("Authorization", "Bearer token-a/ann").greet()
	for token, want := range map[string]int{"token-a/ann": 7, "token-a/ann@read": 1} {
		id := fmt.Sprintf("%q", token)
		if r := e.post(req(id, "tools/list"), "Authorization", "Bearer "+token); r.status != 202 {
			t.Fatalf("%s: %d %s", token, r.status, r.raw)
		}
		if got := strings.Count(e.answer(id).raw, `"inputSchema"`); got != want {
			t.Errorf("%s: %d tools are listed, want %d", token, got, want)
		}
	}
}

// The messages in flight of all sessions of a tenant have one limit together. An answer and
// the end of a session release their bytes.
func TestSSEBytesInFlight(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}}\n")
	// the limit of a tenant is twice this
	s := newSite(t, with, withSSE, func(c *mcp.Config) { c.Limits.QueueBytes = 920 << 10 })
	large := func(id, tool string, kib int) string {
		return call(id, tool, `{"text":"hi","on_error":"`+strings.Repeat("x", kib<<10)+`"}`)
	}
	var all []*events
	for range 3 {
		all = append(all, s.sse("Authorization", "Bearer token-a").greet())
	}
	all[0].send(large("1", "hold", 900))
	<-s.running
	all[1].send(large("1", "hold", 900)) // waits for its turn
	if r := all[2].post(large("1", "hold", 900), "Authorization", "Bearer token-a"); r.status != http.StatusTooManyRequests || !strings.Contains(r.raw, "bytes_in_flight") {
		t.Errorf("the third large message: %d %.300s", r.status, r.raw)
	}
	s.free <- struct{}{}
	all[0].answer("1")
	<-s.running
	s.End(func(i mcp.SessionInfo) bool { return i.ID == all[1].id() }, "")
	<-all[1].over
	all[2].send(large("2", "echo", 1000)) // fits only if the other messages have released their bytes
	if a := all[2].answer("2"); a.short() != "2: ok" {
		t.Errorf("after the others are over: %.300s", a.raw)
	}
}

// page is the output of a client without a network. A stalled page blocks writes until it
// is resumed.
type page struct {
	header http.Header

	mu      sync.Mutex
	status  int
	read    string
	stalled chan struct{} // guarded by mu: closed by resume; nil if the page is not stalled
}

func newPage() *page { return &page{header: make(http.Header)} }

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = cmp.Or(p.status, http.StatusOK)
	p.read += string(b)
	return len(b), nil
}

func (p *page) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

func (p *page) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.stalled)
	p.stalled = nil
}

func (p *page) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

// request returns a request without a network.
func request(ctx context.Context, method, path string, body ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(strings.Join(body, "")))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}
