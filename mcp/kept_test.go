package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// shelf is a SessionBook in memory.
type shelf struct {
	mu   sync.Mutex
	kept map[string]mcp.KeptSession
	fail error
}

func (b *shelf) Keep(_ context.Context, s mcp.KeptSession) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[s.ID] = s
	return b.fail
}

func (b *shelf) Find(_ context.Context, id string) (mcp.KeptSession, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.kept[id]
	return s, ok, b.fail
}

func (b *shelf) Forget(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.kept, id)
	return b.fail
}

// TestSessionsComeBack checks that a session continues on the next server with its first
// request, with the same client. Only its owner can use it, and only until it is ended.
func TestSessionsComeBack(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	server := func() *site { return newSite(t, with, func(c *mcp.Config) { c.Kept = book }) }
	auth := []string{"Authorization", "Bearer token-a/ann"}
	say := call("1", "echo", `{"text":"hi"}`)
	first := server()
	r := first.do("POST", fmt.Sprintf(hello, revLegacy), auth...)
	id := r.header.Get("Mcp-Session-Id")
	headers := append([]string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", revLegacy}, auth...)
	if r := first.do("POST", initialized, headers...); r.status != 202 {
		t.Fatalf("initialized: %d %s", r.status, r.raw)
	}

	second := server()
	for name, whose := range map[string]string{"another tenant": "token-b/ann", "another principal": "token-a/bob"} {
		if r := second.do("POST", say, append(headers[:4:4], "Authorization", "Bearer "+whose)...); r.status != 404 {
			t.Errorf("%s has the session: %d %s", name, r.status, r.raw)
		}
	}
	if r := second.do("POST", say, append([]string{"Mcp-Session-Id", id + "x"}, headers[2:]...)...); r.status != 404 {
		t.Errorf("an id that nobody has: %d %s", r.status, r.raw)
	}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if r := second.do("POST", call(strconv.Itoa(i), "echo", `{"text":"hi"}`), headers...); r.status != 200 || !strings.Contains(r.raw, `"text":"hi"`) {
				t.Errorf("a call after the restart: %d %s", r.status, r.raw)
			}
		})
	}
	calls.Wait()
	open := second.Sessions()
	if len(open) != 1 || open[0].ID != id || open[0].Principal != "ann" || open[0].Client == "" || open[0].Client != first.Sessions()[0].Client {
		t.Errorf("after 20 calls at once: %+v", open)
	}
	if r := second.do("POST", fmt.Sprintf(hello, revLegacy), headers...); r.status != 400 {
		t.Errorf("a second handshake: %d %s", r.status, r.raw)
	}

	// A session that one server ends has ended on all servers.
	if r := second.do("DELETE", "", headers...); r.status != 204 {
		t.Fatalf("DELETE: %d %s", r.status, r.raw)
	}
	if r := server().do("POST", say, headers...); r.status != 404 {
		t.Errorf("a session that was deleted: %d %s", r.status, r.raw)
	}
}

// TestSessionsThatDoNotComeBack checks that a kept session is not trusted: it is checked
// like an initialize request of a client. If the book fails, open sessions continue, and a
// request of any other session gets 503 with Retry-After.
func TestSessionsThatDoNotComeBack(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	s := newSite(t, func(c *mcp.Config) { c.Kept = book })
	headers := s.greet()
	if len(book.kept) != 1 {
		t.Fatalf("%d sessions are kept, want 1", len(book.kept))
	}
	for id, kept := range map[string]mcp.KeptSession{
		"s-modern":  {Revision: "2026-07-28", Initialize: []byte(`{}`)},
		"s-unknown": {Revision: "1999-01-01", Initialize: []byte(`{}`)},
		"s-broken":  {Revision: revLegacy, Initialize: []byte(`{`)},
		"s-foreign": {Tenant: "b", Revision: revLegacy, Initialize: []byte(`{}`)},
	} {
		if kept.Tenant == "" {
			kept.Tenant = s.Sessions()[0].Tenant
		}
		kept.ID = id
		book.kept[id] = kept
		if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), "Mcp-Session-Id", id, "Mcp-Protocol-Version", revLegacy); r.status != 404 {
			t.Errorf("%s: %d %s", id, r.status, r.raw)
		}
	}
	large := strings.Replace(fmt.Sprintf(hello, revLegacy), `"clientInfo":{`, `"clientInfo":{"title":"`+strings.Repeat("x", 20<<10)+`",`, 1)
	for what, body := range map[string]string{"an initialize of 20 KiB": large, "a session that is not used": fmt.Sprintf(hello, revLegacy)} {
		r := s.do("POST", body)
		id := r.header.Get("Mcp-Session-Id")
		if body == large {
			s.do("POST", initialized, "Mcp-Session-Id", id, "Mcp-Protocol-Version", revLegacy)
		}
		if r.status != 200 || id == "" || book.kept[id].ID != "" {
			t.Errorf("%s: %d; it is kept: %v", what, r.status, book.kept[id].ID != "")
		}
	}
	book.fail = errors.New("the disk is full")
	if r := s.do("POST", fmt.Sprintf(hello, revLegacy)); r.status != 200 {
		t.Errorf("initialize where nothing can be kept: %d %s", r.status, r.raw)
	}
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), headers...); r.last().text() != "hi" {
		t.Errorf("a call where nothing can be kept: %d %s", r.status, r.raw)
	}
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), "Mcp-Session-Id", "s-none", "Mcp-Protocol-Version", revLegacy); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("a session that cannot be looked up: %d %s", r.status, r.raw)
	}
}

// The settings of a client are restored with its session: the resources that it watches,
// and the level of log messages.
func TestSettingsComeBack(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	server := func() *site { return newSite(t, func(c *mcp.Config) { c.Kept = book }) }
	first := server()
	headers := first.greet()
	for i, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://7"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"note://8"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"note://8"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"warning"}}`,
	} {
		if r := first.do("POST", body, headers...); r.last().Error != nil {
			t.Fatalf("request %d: %s", i, r.raw)
		}
	}
	for range 2 { // the second time, the client has not sent its settings again
		next := server()
		if r := next.do("POST", call("5", "echo", `{"text":"hi"}`), headers...); r.last().text() != "hi" {
			t.Fatalf("the first call: %s", r.raw)
		}
		stream := next.listen(headers...)
		testenv.Until(20*time.Second, func() bool { // the sdk subscribes at the same time as the first call
			next.Updated("local", "note://8")
			next.Updated("local", "note://7")
			return strings.Contains(stream.text(), "note://7")
		})
		if !strings.Contains(stream.text(), "note://7") {
			t.Errorf("it is not told of the resource that it watches: %q", stream.text())
		}
		if strings.Contains(stream.text(), "note://8") {
			t.Errorf("it is told of a resource that it does not watch: %s", stream.text())
		}
		stream.close()
		// after this request, the session is stored with its present settings
		next.do("POST", req("6", "tools/list"), headers...)
		kept := book.kept[headers[1]]
		if !slices.Equal(kept.Subscriptions, []string{"note://7"}) || kept.Level != "warning" {
			t.Errorf("kept: %+v", kept)
		}
	}
}

// A session that was ended to make room for another one is restored when there is room, and
// no request for it fails meanwhile.
func TestSessionsThatMadeRoomComeBack(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	s := newSite(t, func(c *mcp.Config) { c.Kept, c.Limits.Sessions = book, 2 })
	var all [][]string
	for range 6 {
		all = append(all, s.greet())
	}
	for round := range 5 {
		for i, headers := range all {
			if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), headers...); r.last().text() != "hi" {
				t.Errorf("round %d, session %d: %d %s", round, i, r.status, r.raw)
			}
		}
	}
	if open := s.Sessions(); len(open) != 2 {
		t.Errorf("%d sessions are open, want 2", len(open))
	}
}

// While a session ends to make room, a request for it waits and does not open it a second
// time, because its box would have the name of a box that still exists.
func TestSessionThatEndsIsNotOpenedTwice(t *testing.T) {
	book := &shelf{kept: make(map[string]mcp.KeptSession)}
	var mu sync.Mutex
	open, ending, goOn := make(map[string]bool), make(chan struct{}, 10), make(chan struct{})
	s := newSite(t, func(c *mcp.Config) {
		c.Kept, c.Limits.Sessions = book, 1
		c.OnSession = func(_ context.Context, s *mcp.Session) {
			mu.Lock()
			defer mu.Unlock()
			if open[s.ID()] {
				t.Errorf("session %s is open twice", s.ID())
			}
			open[s.ID()] = true
		}
		c.OnSessionEnd = func(s *mcp.Session) {
			ending <- struct{}{}
			<-goOn
			mu.Lock()
			defer mu.Unlock()
			delete(open, s.ID())
		}
	})
	headers := s.greet()
	var clients sync.WaitGroup
	greeted := make(chan struct{})
	clients.Go(func() {
		defer close(greeted)
		s.do("POST", fmt.Sprintf(hello, revLegacy)) // the new session takes the place of the old one
	})
	<-ending
	clients.Go(func() {
		echo := func() reply { return s.do("POST", call("1", "echo", `{"text":"hi"}`), headers...) }
		r := echo()
		for r.status == http.StatusServiceUnavailable && t.Context().Err() == nil {
			<-greeted // until then the new session is in use, and keeps its place
			r = echo()
		}
		if r.last().text() != "hi" {
			t.Errorf("a call to a session that was ending: %d %s", r.status, r.raw)
		}
	})
	testenv.Delay(t.Context(), 50*time.Millisecond) // so that the call arrives too early
	close(goOn)
	clients.Wait()
}

// gatekeeper is a log handler that blocks each record whose message contains a text.
type gatekeeper struct {
	slog.Handler
	text string
	open chan struct{}
}

func (gatekeeper) Enabled(context.Context, slog.Level) bool { return true }

func (g gatekeeper) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, g.text) {
		<-g.open
	}
	return nil
}

// Requests that arrive at the same time for a kept session wait until the session is
// completely restored.
func TestNoSessionComesBackByHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &shelf{kept: map[string]mcp.KeptSession{"s-1": {
			ID: "s-1", Tenant: "a", Revision: revLegacy, Level: "debug",
			Initialize: json.RawMessage(`{"protocolVersion":"` + revLegacy + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`),
		}}}
		_, with := newOffice(t, "tenants: {a: {}}\n")
		gate := gatekeeper{slog.DiscardHandler, "was resumed", make(chan struct{})}
		h := newHandled(t, with, func(c *mcp.Config) { c.Kept, c.Log = book, slog.New(gate) })
		defer h.Shutdown(context.Background())
		answers := make(chan int, 2)
		for id := range 2 {
			go func() { answers <- h.ask(t.Context(), "POST", "a", "s-1", req(fmt.Sprint(id), "tools/list")).Code }()
			synctest.Wait()
			if len(answers) > 0 {
				t.Fatalf("request %d was answered with %d before the session had come back", id, <-answers)
			}
		}
		close(gate.open)
		for range 2 {
			if code := <-answers; code != 200 {
				t.Errorf("answered %d", code)
			}
		}
	})
}
