package mcp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"belljar.dev/mcp"
)

// named sends the handshake of a client that calls itself by the name client.
func (h *handled) named(client string) (id string, w *httptest.ResponseRecorder) {
	w = h.ask(h.t.Context(), "POST", "", "", strings.Replace(fmt.Sprintf(hello, revLegacy), `"name":"test"`, fmt.Sprintf(`"name":%q`, client), 1))
	return w.Header().Get("Mcp-Session-Id"), w
}

// Without tenants, a client that forgets its sessions uses up its own share and not that of
// others. Its session that was idle the longest is ended; if all are in use, the client is
// told when to try again.
func TestSessionsOfOneClient(t *testing.T) {
	for _, greedy := range []string{"greedy", ""} {
		t.Run("named "+greedy, func(t *testing.T) { sessionsOfOneClient(t, greedy) })
	}
}

func sessionsOfOneClient(t *testing.T, greedy string) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t, func(c *mcp.Config) { c.Limits.Sessions, c.Limits.ClientSessions = 5, 3 })
		defer h.Shutdown(context.Background())
		other, w := h.named("other")
		if other == "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var ids []string
		for range 10 {
			id, w := h.named(greedy)
			if id == "" {
				t.Fatalf("greedy: %d %s", w.Code, w.Body)
			}
			synctest.Wait()
			ids = append(ids, id)
		}
		if got := len(h.Sessions()); got != 4 {
			t.Errorf("%d sessions are open, want 4: 3 and another client's", got)
		}
		var streams []context.CancelFunc
		for _, id := range ids[7:] {
			ctx, cancel := context.WithCancel(t.Context())
			streams = append(streams, cancel)
			go h.ask(ctx, "GET", "", id, "")
		}
		synctest.Wait()
		_, w = h.named(greedy)
		if w.Code != 503 || w.Header().Get("Retry-After") != "60" || !strings.Contains(w.Body.String(), `all 3 sessions of clients that call themselves \"`+greedy+`\" are open and in use`) {
			t.Errorf("one too many: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if id, w := h.named("third"); id == "" {
			t.Errorf("another client: %d %s", w.Code, w.Body)
		}
		for _, stop := range streams {
			stop()
		}
		synctest.Wait()
		if id, w := h.named(greedy); id == "" {
			t.Errorf("after its streams have ended: %d %s", w.Code, w.Body)
		}
		if w := h.ask(t.Context(), "POST", "", other, call(h.id(), "echo", `{"text":"x"}`)); w.Code != 200 {
			t.Errorf("the other client's session: %d %s", w.Code, w.Body)
		}
	})
}

// A session that is ended reports the reason to its call and to later requests. Later
// requests of the modern era begin another session.
func TestEndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandled(t)
		defer h.Shutdown(context.Background())
		one, _ := h.named("one")
		two, _ := h.named("two")
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			answer <- h.ask(t.Context(), "POST", "", one, call(h.id(), "hold", `{"text":"x"}`))
		}()
		synctest.Wait()
		all := h.Sessions()
		if len(all) != 2 || all[0].Calls+all[1].Calls != 1 || all[0].Transport != "http" {
			t.Fatalf("sessions: %+v", all)
		}
		ended := h.End(func(s mcp.SessionInfo) bool { return s.ID == one }, "for a reason")
		if len(ended) != 1 || ended[0].ID != one || ended[0].Client != "one" {
			t.Errorf("ended: %+v", ended)
		}
		if w := <-answer; !strings.Contains(w.Body.String(), "was ended: the operator of this server has ended this session, with its box and its background tasks: for a reason") {
			t.Errorf("the call gets %d %s", w.Code, w.Body)
		}
		synctest.Wait()
		if w := h.ask(t.Context(), "POST", "", one, call(h.id(), "echo", `{"text":"x"}`)); w.Code != 404 || !strings.Contains(w.Body.String(), "for a reason; send initialize") {
			t.Errorf("a later request: %d %s", w.Code, w.Body)
		}
		if w := h.ask(t.Context(), "POST", "", "s-NONE", call(h.id(), "echo", `{"text":"x"}`)); w.Code != 404 || !strings.Contains(w.Body.String(), "there is no such session") {
			t.Errorf("a session that never was: %d %s", w.Code, w.Body)
		}
		if w := h.ask(t.Context(), "POST", "", two, call(h.id(), "echo", `{"text":"x"}`)); w.Code != 200 {
			t.Errorf("the other session: %d %s", w.Code, w.Body)
		}
		if got := h.End(func(mcp.SessionInfo) bool { return false }, ""); len(got) > 0 {
			t.Errorf("ended: %+v", got)
		}
	})
}
