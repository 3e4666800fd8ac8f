package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

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

// A session goes on at the next server, by its first request, as the client that it was; for
// its owner alone, and until it is ended.
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

	// Who ends it ends it for good.
	if r := second.do("DELETE", "", headers...); r.status != 204 {
		t.Fatalf("DELETE: %d %s", r.status, r.raw)
	}
	if r := server().do("POST", say, headers...); r.status != 404 {
		t.Errorf("a session that was deleted: %d %s", r.status, r.raw)
	}
}

// What is kept is checked like what a client sends, and a book that fails loses no call.
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
	if r := s.do("POST", large); r.status != 200 || book.kept[r.header.Get("Mcp-Session-Id")].ID != "" {
		t.Errorf("an initialize of 20 KiB: %d; it is kept: %v", r.status, book.kept[r.header.Get("Mcp-Session-Id")].ID != "")
	}
	book.fail = errors.New("the disk is full")
	if r := s.do("POST", fmt.Sprintf(hello, revLegacy)); r.status != 200 {
		t.Errorf("initialize where nothing can be kept: %d %s", r.status, r.raw)
	}
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), headers...); r.last().text() != "hi" {
		t.Errorf("a call where nothing can be kept: %d %s", r.status, r.raw)
	}
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), "Mcp-Session-Id", "s-none", "Mcp-Protocol-Version", revLegacy); r.status != 404 && r.status != 503 {
		t.Errorf("a session that cannot be looked up: %d %s", r.status, r.raw)
	}
}
