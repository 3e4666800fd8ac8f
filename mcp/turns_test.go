package mcp_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp"
)

// A session may end while its requests wait for their turn among those of its tenant. None
// of them keeps a turn that others of the tenant, and in the end of all tenants, wait for.
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
			case <-time.After(time.Hour): // of the bubble
				t.Errorf("%s that waited when its session ended keeps its turn", name)
				h.End(func(mcp.SessionInfo) bool { return true }, "")
				<-answers
			}
		})
	}
}
