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

// stall makes a client leave more unread bytes than the server queues for it.
func (c *sock) stall() {
	for i := range 4 {
		c.send(call(fmt.Sprint(100+i), "big", `{"bytes":400000}`))
	}
	synctest.Wait()
}

// A client that does not read does not delay others: their notifications do not wait for
// it, and are not lost.
func TestUnreadWebSocketStallsNobody(t *testing.T) {
	const other = "Authorization: Bearer token-b"
	subscribe := `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"note://7"}}`
	_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
	for name, tell := range map[string]func(h *handled){
		"notifications/resources/updated": func(h *handled) {
			h.Updated("a", "note://7")
			synctest.Wait() // the notification of a is being sent
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
			// The order in which clients are notified is not known.
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

// An unread stream of the modern era does not delay other clients either.
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

// A modern message that sends the handshake repeatedly counts like any other request: only
// the handshake of a legacy client needs no turn.
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
