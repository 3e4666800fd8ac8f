package mcp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// A session may end while its requests wait for their turn among the requests of its
// tenant. None of these requests keeps its turn: the tenant's other requests, and finally
// those of all tenants, would wait for it.
func TestEndedSessionsKeepNoTurns(t *testing.T) {
	for name, waiting := range map[string]string{
		"a call":               call("1", "echo", `{"text":"hi"}`),
		"a request of the sdk": req("1", "resources/list"),
		"another one":          req("1", "tools/list"),
	} {
		synctest.Test(t, func(t *testing.T) {
			_, with := newOffice(t, "tenants: {a: {limit: {in_flight: 1}}}\n")
			h := newHandled(t, with)
			defer h.Shutdown(context.Background())
			answers := make(chan *httptest.ResponseRecorder, 3)
			ask := func(session, body string) {
				go func() { answers <- h.ask(t.Context(), "POST", "a", session, body) }()
				synctest.Wait()
			}
			busy, _ := h.begin("a")
			ended, _ := h.begin("a")
			ask(busy, call("1", "hang", `{}`))
			ask(ended, waiting)
			if w := h.ask(t.Context(), "DELETE", "a", ended, ""); w.Code != 204 {
				t.Fatalf("DELETE: %d %s", w.Code, w.Body)
			}
			<-answers
			close(h.free)
			<-answers
			synctest.Wait()
			ask(busy, req("2", "tools/list"))
			select {
			case <-answers:
			case <-time.After(time.Hour): // an hour on the bubble's clock
				t.Errorf("%s that waited when its session ended keeps its turn", name)
				h.End(func(mcp.SessionInfo) bool { return true }, "")
				<-answers
			}
		})
	}
}

// crowd contains clients of a tenant, over every transport. They do random things that
// clients do, and may disconnect at any time.
type crowd struct {
	*handled
	r        *rand.Rand
	open     func(lines ...string) *sock
	web, sse []string // ids of sessions
	sockets  []*sock
	ends     []context.CancelFunc
	asking   sync.WaitGroup
}

// body returns a message that is answered immediately, or waits, or is not valid.
func (c *crowd) body() string {
	id := c.id()
	if c.r.IntN(8) == 0 { // the request to cancel is an earlier one
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.r.IntN(c.asked+1))
	}
	return pick(c.r, []string{
		call(id, "hang", `{}`), call(id, "hang", `{}`), call(id, "echo", `{"text":"hi"}`), call(id, "echo", `{}`), call(id, "nosuch", `{}`),
		req(id, "tools/list"), req(id, "resources/list"), req(id, "prompts/list"), req(id, "nosuch"), req(id, "ping"),
		modern(id, "tools/call", `"name":"hang","arguments":{},`), modern(id, "resources/list", ""), modern(id, "initialize", ""),
		modern(id, "subscriptions/listen", `"notifications":{"promptsListChanged":true},`),
	})
}

func pick[T any](r *rand.Rand, all []T) (one T) {
	if len(all) > 0 {
		one = all[r.IntN(len(all))]
	}
	return one
}

// request sends a request that may be cancelled at any time.
func (c *crowd) request(method, path, session, body string) *page {
	ctx, cut := context.WithCancel(context.Background())
	c.ends = append(c.ends, cut)
	w, r := newPage(), request(ctx, method, path, body)
	r.Header.Set("Authorization", "Bearer token-a")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if m := parse(c.t, body); strings.Contains(body, "2026-07-28") {
		setHeaders(r, modernHeaders(m.Method, "")...)
		if strings.Contains(body, `"hang"`) {
			r.Header.Set("Mcp-Name", "hang")
		}
	}
	c.asking.Go(func() { c.handler.ServeHTTP(w, r) })
	return w
}

// step does one random thing that a client may do.
func (c *crowd) step() {
	switch c.r.IntN(16) {
	case 0, 1:
		w := c.request("POST", "/mcp", "", fmt.Sprintf(hello, revLegacy))
		synctest.Wait()
		c.web = append(c.web, w.header.Get("Mcp-Session-Id"))
	case 2:
		w := c.request("GET", "/sse", "", "{}")
		synctest.Wait()
		if _, id, found := strings.Cut(w.text(), "sessionId="); found {
			id, _, _ = strings.Cut(id, "\n")
			c.sse = append(c.sse, id)
			c.request("POST", "/messages?sessionId="+id, "", fmt.Sprintf(hello, revSSE))
		}
	case 3:
		s := c.open()
		c.sockets = append(c.sockets, s)
		c.asking.Go(func() {
			for {
				if _, err := s.read(); err != nil {
					return
				}
			}
		})
		s.send(fmt.Sprintf(hello, revLegacy), initialized)
	case 4, 5, 6:
		c.request("POST", "/mcp", pick(c.r, c.web), c.body())
	case 7, 8:
		c.request("POST", "/messages?sessionId="+pick(c.r, c.sse), "", c.body())
	case 9, 10:
		if s := pick(c.r, c.sockets); s != nil {
			s.send(c.body())
		}
	case 11:
		c.request("POST", "/mcp", "", c.body())
	case 12:
		c.request(pick(c.r, []string{"GET", "DELETE"}), "/mcp", pick(c.r, c.web), "{}")
	case 13:
		if cut := pick(c.r, c.ends); cut != nil {
			cut()
		}
	case 14:
		if s := pick(c.r, c.sockets); s != nil {
			s.conn.Close()
		}
	default:
		if all := c.Sessions(); len(all) > 0 {
			one := pick(c.r, all).ID
			c.asking.Go(func() { c.End(func(i mcp.SessionInfo) bool { return i.ID == one }, "") })
		}
	}
	if c.r.IntN(2) == 0 {
		synctest.Wait()
	}
	if c.r.IntN(10) == 0 {
		time.Sleep(time.Duration(c.r.IntN(300)) * time.Second) // on the bubble's clock
	}
}

// Whatever the clients of a tenant do, and however they disconnect: in the end the tenant
// uses none of its quotas, and as many requests as before can run at the same time.
func TestNothingOfATenantIsLeft(t *testing.T) {
	n, r := testenv.Cases(t, 40)
	for range n {
		_, with := newOffice(t, "tenants: {a: {limit: {in_flight: 2, sessions: 6, streams: 3}}, b: {}}\n")
		shared := mcp.NewShared(3)
		bubble(t, func(h *handled, open func(...string) *sock) {
			c := &crowd{handled: h, r: r, open: open}
			for range 60 {
				c.step()
			}
			for _, cut := range c.ends {
				cut()
			}
			for _, s := range c.sockets {
				s.conn.Close()
			}
			h.End(func(mcp.SessionInfo) bool { return true }, "")
			c.asking.Wait()
			h.End(func(mcp.SessionInfo) bool { return true }, "") // ends sessions that clients resumed meanwhile
			time.Sleep(time.Hour)
			synctest.Wait()
			if used := shared.Used("a"); used != (mcp.TenantUsage{}) {
				t.Errorf("at the end the tenant uses %+v", used)
			}
			id, _ := h.begin("b")
			for range 3 {
				c.asking.Go(func() { h.ask(context.Background(), "POST", "b", id, call(h.id(), "hang", `{}`)) })
				synctest.Wait()
			}
			for _, s := range h.Sessions() {
				if s.Tenant == "b" && s.Calls != 3 {
					t.Errorf("of 3 requests that may run at once, another tenant has %d", s.Calls)
				}
			}
			h.End(func(mcp.SessionInfo) bool { return true }, "")
			c.asking.Wait()
		}, with, withSSE, func(c *mcp.Config) {
			c.Shared, c.Limits.Idle = shared, 5*time.Minute
			if r.IntN(2) == 0 { // in half of the cases, sessions are kept and can be resumed
				c.Kept = &shelf{kept: make(map[string]mcp.KeptSession)}
			}
		})
		if t.Failed() {
			return
		}
	}
}
