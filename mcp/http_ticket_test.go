package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"belljar.dev/mcp"
)

// ticketOf checks the answer to a request for a ticket, and returns the ticket's subprotocol.
func ticketOf(t testing.TB, status int, raw string) string {
	t.Helper()
	var a struct {
		Ticket, Protocol string
		ExpiresIn        int `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(raw), &a); err != nil || status != 200 || a.Ticket == "" || a.Protocol != "mcp.ticket."+a.Ticket || a.ExpiresIn != 30 {
		t.Fatalf("a ticket: %d %s, %v", status, raw, err)
	}
	return a.Protocol
}

// ticket gets a ticket, and returns its subprotocol.
func (s *site) ticket(body string, headers ...string) string {
	s.t.Helper()
	r := s.path("/mcp/ticket").do("POST", body, headers...)
	if r.header.Get("Cache-Control") != "no-store" {
		s.t.Errorf("a ticket may be kept: %v", r.header)
	}
	return ticketOf(s.t, r.status, r.raw)
}

// Pages from which tests use the site. Both are pages of the site's own server, under two
// names.
const (
	ownPage   = "Origin: http://localhost"
	otherPage = "Origin: http://127.0.0.1"
)

// show requests a WebSocket with the subprotocols that it offers. code is the close code if
// the server closes the WebSocket immediately, and otherwise zero.
func (s *site) show(offers string, lines ...string) (status, code int, c *sock) {
	s.t.Helper()
	request := handshake("/mcp", append(lines, "Sec-WebSocket-Protocol: "+offers)...)
	for _, line := range lines {
		if line == otherPage {
			request = strings.Replace(request, "Host: localhost", "Host: 127.0.0.1", 1)
		}
	}
	c, res := ask(s.t, s.dial(), request)
	if res.StatusCode != 101 {
		return res.StatusCode, 0, nil
	}
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "mcp" {
		s.t.Errorf("the subprotocol is %q", got)
	}
	c.send(req(`"who"`, "ping"))
	if _, err := c.read(); err != nil {
		at, _ := errors.AsType[closed](err)
		return 101, at.code, nil
	}
	return 101, 0, c
}

// TestAttacksOnTickets contains what others may try with a ticket that they have seen.
func TestAttacksOnTickets(t *testing.T) {
	o, with := newOffice(t, twoScopes)
	var mu sync.Mutex
	var log bytes.Buffer
	s := newSite(t, with, withSockets, withSSE, func(c *mcp.Config) {
		c.Log = slog.New(slog.NewTextHandler(locked{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	const bearer = "Authorization: Bearer token-a/ann"
	ann := []string{"Authorization", "Bearer token-a/ann"}
	fromPage := append(ann, "Origin", "http://localhost", "Host", "localhost")
	var tickets []string
	get := func() string {
		tickets = append(tickets, s.ticket("", fromPage...))
		return "mcp, " + tickets[len(tickets)-1]
	}
	used := get()
	if status, code, c := s.show(used, ownPage); status != 101 || code != 0 {
		t.Fatalf("a good ticket: %d %d", status, code)
	} else if c.greet(); s.Sessions()[0].Principal != "ann" || s.Sessions()[0].Tenant != "a" {
		t.Errorf("the session is %+v", s.Sessions()[0])
	}
	wrongPage := get()
	for _, tt := range []struct {
		name, offers string
		lines        []string
		status, code int
	}{
		{"a ticket that was used", used, []string{ownPage}, 101, 4001},
		{"a ticket of another page", wrongPage, []string{otherPage}, 101, 4001},
		{"a ticket that another page has shown", wrongPage, []string{ownPage}, 101, 4001},
		{"a ticket of a page, shown by a program", get(), nil, 101, 4001},
		{"a ticket of a program, shown by a page", "mcp, " + s.ticket("", ann...), []string{ownPage}, 101, 4001},
		{"a guessed ticket", "mcp, mcp.ticket." + strings.Repeat("A", 26), []string{ownPage}, 101, 4001},
		{"no ticket", "mcp, mcp.ticket.", []string{ownPage}, 101, 4001},
		{"a ticket of another place", "mcp, " + s.path("/w/site").ticket("", fromPage...), []string{ownPage}, 101, 4001},
		{"a ticket of a foreign page", get(), []string{"Origin: https://evil.example"}, 403, 0},
		{"a ticket alone", strings.TrimPrefix(get(), "mcp, "), []string{ownPage}, 401, 0},
		{"two tickets", get() + ", " + strings.TrimPrefix(get(), "mcp, "), []string{ownPage}, 401, 0},
		{"a ticket and a token", get(), []string{ownPage, bearer}, 400, 0},
		{"a token as a ticket", "mcp, token-a/ann", []string{ownPage}, 401, 0},
		{"a token as a ticket, beside a token", "mcp, SECRET", []string{ownPage, bearer}, 400, 0},
		{"a ticket and a token in a cookie", get(), []string{ownPage, "Cookie: access_token=token-a"}, 400, 0},
	} {
		if status, code, c := s.show(tt.offers, tt.lines...); status != tt.status || code != tt.code || c != nil {
			t.Errorf("%s: got %d %d, want %d %d", tt.name, status, code, tt.status, tt.code)
		}
	}
	for path, request := range map[string]string{
		"an older transport": handshake("/sse", ownPage, "Accept: text/event-stream", "Sec-WebSocket-Protocol: "+get()),
		"a message":          strings.Replace(handshake("/mcp", ownPage, "Sec-WebSocket-Protocol: "+get()), "GET", "POST", 1),
		"a further ticket":   strings.Replace(handshake("/mcp/ticket", ownPage, "Sec-WebSocket-Protocol: "+get()), "GET", "POST", 1),
	} {
		if _, res := ask(t, s.dial(), request); res.StatusCode != 401 {
			t.Errorf("a ticket is good for %s: %s", path, res.Status)
		}
	}
	// Only the latest 16 tickets of a principal are valid. A ticket of a revoked token is
	// not valid.
	first := get()
	for range 16 {
		get()
	}
	if _, code, _ := s.show(first, ownPage); code != 4001 {
		t.Errorf("the oldest of 17 tickets: %d", code)
	}
	if _, code, _ := s.show(get(), ownPage); code != 0 {
		t.Errorf("the newest of 18 tickets: %d", code)
	}
	narrow := "mcp, " + s.ticket("", "Authorization", "Bearer token-a/bob@read")
	_, _, c := s.show(narrow)
	c.greet()
	c.send(req("1", "tools/list"))
	if n := strings.Count(c.next().raw, `"inputSchema"`); n != 1 {
		t.Errorf("a ticket for a token that is good for one tool lists %d", n)
	}
	revoked := get()
	o.revoked.Store("token-a/ann", true)
	if _, code, _ := s.show(revoked, ownPage); code != 4001 {
		t.Errorf("a ticket for a token that was revoked: %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, ticket := range append(tickets, "SECRET", "token-a") {
		if strings.Contains(log.String(), strings.TrimPrefix(ticket, "mcp.ticket.")) {
			t.Errorf("the log has %s:\n%s", ticket, &log)
		}
	}
}

// Each row of the table shows who gets a ticket, and for which page.
func TestTickets(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {}, b: {limit: {calls: 1/h, burst: 3}}}\n")
	s := newSite(t, with, withSockets)
	ann := []string{"Authorization", "Bearer token-a/ann"}
	for _, tt := range []struct {
		name, method, body string
		headers            []string
		status             int
	}{
		{"a program", "POST", "", ann, 200},
		{"a program for a page", "POST", `{"origin":"http://localhost"}`, ann, 200},
		{"a page", "POST", "", append(ann, "Origin", "http://localhost", "Host", "localhost"), 200},
		{"a page for itself", "POST", `{"origin":"http://localhost"}`, append(ann, "Origin", "http://localhost", "Host", "localhost"), 200},
		{"a page for another one", "POST", `{"origin":"http://127.0.0.1"}`, append(ann, "Origin", "http://localhost", "Host", "localhost"), 403},
		{"a foreign page", "POST", "", append(ann, "Origin", "https://evil.example"), 403},
		{"nobody", "POST", "", nil, 401},
		{"a bad token", "POST", "", []string{"Authorization", "Bearer token-c"}, 401},
		{"not an origin", "POST", `{"origin":"localhost"}`, ann, 400},
		{"an origin that is not a text", "POST", `{"origin":7}`, ann, 400},
		{"not JSON", "POST", `origin`, ann, 400},
		{"a form", "POST", `{"origin":"http://localhost"}`, append(ann, "Content-Type", "text/plain"), 415},
		{"1 MiB and a byte", "POST", strings.Repeat(" ", 1<<20+1), ann, 413},
		{"another method", "GET", "", ann, 405},
	} {
		if r := s.path("/mcp/ticket").do(tt.method, tt.body, tt.headers...); r.status != tt.status {
			t.Errorf("%s: got %d %s, want %d", tt.name, r.status, r.raw, tt.status)
		}
	}
	if _, code, c := s.show("mcp, "+s.ticket(`{"origin":"http://localhost"}`, ann...), ownPage); code != 0 || c == nil {
		t.Errorf("a ticket that a program got for a page: %d", code)
	}
	got := 0
	for range 5 {
		if s.path("/mcp/ticket").do("POST", "", "Authorization", "Bearer token-b").status == 200 {
			got++
		}
	}
	if got != 3 {
		t.Errorf("a tenant with a burst of 3 got %d tickets", got)
	}
	off := newSite(t, with)
	if r := off.path("/mcp/ticket").do("POST", "", ann...); r.status != 404 || !strings.Contains(r.raw, "--websocket") {
		t.Errorf("without WebSockets: %d %s", r.status, r.raw)
	}
	free := newSite(t, withSockets)
	if _, code, c := free.show("mcp, " + free.ticket("")); code != 0 || c == nil {
		t.Errorf("without tenants: %d", code)
	}
}

// The number of a tenant's tickets is limited, however many principals the tenant has. The
// tickets of other tenants stay valid.
func TestTicketsAreBounded(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {limit: {calls: 1000/s, burst: 5000}}, b: {}}\n")
	s := newSite(t, with, withSockets)
	kept := s.ticket("", "Authorization", "Bearer token-b/zoe")
	refused := 0
	for i := range 1024/16 + 1 {
		for range 16 {
			r := s.path("/mcp/ticket").do("POST", "", "Authorization", fmt.Sprintf("Bearer token-a/p%d", i))
			if r.status == 429 && r.header.Get("Retry-After") == "30" {
				refused++
			}
		}
	}
	if refused != 16 {
		t.Errorf("%d tickets beyond 1,024 were refused, want 16", refused)
	}
	if _, code, c := s.show("mcp, " + kept); code != 0 || c == nil {
		t.Errorf("another tenant's ticket: %d", code)
	}
}

// A client without a ticket and without a login cannot fill the log.
func TestRefusedTicketsDoNotFillTheLog(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	_, with := newOffice(t, "tenants: {a: {}}\n")
	s := newSite(t, with, withSockets, func(c *mcp.Config) { c.Log = slog.New(slog.NewTextHandler(locked{&mu, &log}, nil)) })
	for range 5 {
		c, res := ask(t, s.dial(), handshake("/mcp", "Sec-WebSocket-Protocol: mcp, mcp.ticket.none"))
		if res.StatusCode != 101 {
			t.Fatal(res.Status)
		}
		c.conn.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if log.Len() > 0 {
		t.Errorf("it logged %s", log.String())
	}
}
