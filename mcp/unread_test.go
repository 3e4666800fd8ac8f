package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stall has a client leave more unread than waits for it without holding others up.
func (c *sock) stall() {
	for i := range 4 {
		c.send(call(fmt.Sprint(100+i), "big", `{"bytes":400000}`))
	}
	synctest.Wait()
}

// A client that does not read costs others nothing: their notifications do not wait for
// it, and are not lost.
func TestUnreadWebSocketStallsNobody(t *testing.T) {
	const other = "Authorization: Bearer token-b"
	subscribe := `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"note://7"}}`
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	for name, tell := range map[string]func(h *handled){
		"notifications/resources/updated": func(h *handled) {
			h.Updated("a", "note://7")
			synctest.Wait() // that of a is on its way
			h.Updated("b", "note://7")
		},
		"notifications/prompts/list_changed": func(h *handled) { h.PromptsChanged() },
	} {
		bubble(t, func(h *handled, open func(...string) *sock) {
			subscribed := func(lines ...string) *sock {
				c := open(lines...).greet()
				c.send(subscribe)
				c.next()
				return c
			}
			// It is not known which client is notified first.
			unread := []*sock{subscribed()}
			reads := subscribed(offersMCP, other)
			unread = append(unread, subscribed())
			for _, c := range unread {
				c.stall()
			}
			began := time.Now()
			tell(h)
			a := reads.next()
			if after := time.Since(began); a.Method != name || after > time.Second {
				t.Errorf("after %v came %.200s, want %s at once", after, a.raw, name)
			}
			for _, c := range append(unread, reads) {
				c.conn.Close()
			}
		}, with)
	}
}

// Nor does a stream of the modern era that is not read.
func TestUnreadListenerStallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
		h := newHandled(t, with)
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		listen := func(tenant string) *page {
			w := newPage()
			r := request(ctx, "POST", "/mcp", modern(`"l"`, "subscriptions/listen", `"notifications":{"resourceSubscriptions":["note://7"]},`))
			r.Header.Set("Authorization", "Bearer token-"+tenant)
			setHeaders(r, modernHeaders("subscriptions/listen", "")...)
			serving.Go(func() { h.handler.ServeHTTP(w, r) })
			synctest.Wait()
			if !strings.Contains(w.text(), "acknowledged") {
				t.Fatalf("%s: %d %s", tenant, w.status, w.text())
			}
			return w
		}
		const updated = "notifications/resources/updated"
		unread, reads := listen("a"), listen("b")
		unread.stall()
		for range 3 {
			h.Updated("a", "note://7")
			synctest.Wait()
		}
		h.Updated("b", "note://7")
		synctest.Wait()
		if !strings.Contains(reads.text(), updated) {
			t.Errorf("a client waits for one that does not read; it got %q", reads.text())
		}
		unread.resume()
		synctest.Wait()
		if n := strings.Count(unread.text(), updated); n != 3 {
			t.Errorf("the client that goes on got %d notifications, want 3", n)
		}
		cancel()
		serving.Wait()
		h.Shutdown(context.Background())
	})
}

// A handshake that a message of the modern era asks for again and again counts like any
// other request: only the one of a legacy client needs no turn.
func TestModernInitializeHasARate(t *testing.T) {
	_, with := newOffice(t, "tenants: {a: {limit: {calls: 1/h, burst: 4}}}\n")
	s := newSite(t, with, withSockets)
	c := s.socket("Authorization: Bearer token-a").greet()
	refused := 0
	for i := range 20 {
		c.send(modern(fmt.Sprint(i), "initialize", ""))
		if a := c.next(); strings.Contains(a.raw, "too many requests") {
			refused++
		}
	}
	if refused < 16 {
		t.Errorf("%d of 20 requests were refused for their rate, want at least 16", refused)
	}
}
