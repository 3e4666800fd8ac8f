package mcp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// handled is a toy with its handler, without a network.
type handled struct {
	*toy
	t       *testing.T
	handler http.Handler
	asked   int // number of requests so far
}

func newHandled(t *testing.T, change ...func(*mcp.Config)) *handled {
	ty := newToy(t, change...)
	return &handled{toy: ty, t: t, handler: ty.Handler()}
}

// ask makes a request of a tenant, in a session if session is not empty.
func (h *handled) ask(ctx context.Context, method, tenant, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if tenant != "" {
		r.Header.Set("Authorization", "Bearer token-"+tenant)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Mcp-Protocol-Version", revLegacy)
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	return w
}

// id returns the id of the next request.
func (h *handled) id() string {
	h.asked++
	return fmt.Sprint(h.asked)
}

// begin begins a session; its id is empty if the server refuses it.
func (h *handled) begin(tenant string) (id string, w *httptest.ResponseRecorder) {
	w = h.ask(h.t.Context(), "POST", tenant, "", fmt.Sprintf(hello, revLegacy))
	return w.Header().Get("Mcp-Session-Id"), w
}

// A tenant that begins as many sessions as it can does not keep another tenant out.
func TestTenantSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
		h := newHandled(t, with)
		defer h.Shutdown(context.Background())
		for range 300 {
			if id, w := h.begin("b"); id == "" {
				t.Fatalf("b, alone: %d %s", w.Code, w.Body)
			}
			synctest.Wait()
		}
		if got := len(h.ended); got != 300-64 {
			t.Errorf("%d sessions of b ended, want all but 64", got)
		}
		for i := range 64 {
			if id, w := h.begin("a"); id == "" {
				t.Fatalf("session %d of a: %d %s", i+1, w.Code, w.Body)
			}
		}
		synctest.Wait()
		if got := len(h.ended); got != 300-64 {
			t.Errorf("a's sessions ended %d of b", got-(300-64))
		}
	})
}

// A tenant whose calls use all the bytes that it may have in flight does not keep another
// tenant out.
func TestTenantBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
		h := newHandled(t, with, func(c *mcp.Config) { c.Limits.QueueBytes = 4 << 10 })
		defer h.Shutdown(context.Background())
		text := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 3<<10))
		answers := make(chan *httptest.ResponseRecorder, 3)
		for range 3 {
			session, _ := h.begin("b")
			body := call(h.id(), "hold", text)
			go func() { answers <- h.ask(t.Context(), "POST", "b", session, body) }()
			synctest.Wait()
		}
		if w := <-answers; w.Code != 429 || !strings.Contains(w.Body.String(), "bytes_in_flight") {
			t.Errorf("a third call of b: %d %s", w.Code, w.Body)
		}
		session, _ := h.begin("a")
		if w := h.ask(t.Context(), "POST", "a", session, call(h.id(), "echo", text)); w.Code != 200 {
			t.Errorf("a call of a: %d %s", w.Code, w.Body)
		}
		close(h.free)
	})
}

// The rate of a tenant's requests also limits how often it begins sessions, and how often
// it names sessions that are not open, because these cost more than most requests.
func TestSessionsHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, with := newOffice(t, "tenants: {a: {}, b: {limit: {calls: 1/h, burst: 5}}}\n")
		book := &shelf{kept: make(map[string]mcp.KeptSession)}
		h := newHandled(t, with, withSSE, func(c *mcp.Config) { c.Kept = book })
		defer h.Shutdown(context.Background())
		for i := range 5 {
			if i%2 == 0 {
				if id, w := h.begin("b"); id == "" {
					t.Fatalf("initialize %d: %d %s", i, w.Code, w.Body)
				}
			} else if w := h.ask(t.Context(), "GET", "b", "s-NOSUCH", ""); w.Code != 404 {
				t.Fatalf("a session that does not exist: %d %s", w.Code, w.Body)
			}
		}
		if id, w := h.begin("b"); id != "" || w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("then initialize: %d %s", w.Code, w.Body)
		}
		// The status is not 404, after which a client would give up its session.
		if w := h.ask(t.Context(), "GET", "b", "s-NOSUCH", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("then a session that is not open: %d %s", w.Code, w.Body)
		}
		open := len(h.Sessions())
		r, w := request(t.Context(), "GET", "/sse"), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer token-b")
		h.handler.ServeHTTP(w, r)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || len(h.Sessions()) != open {
			t.Errorf("then a stream of the older transport: %d %s, and %d sessions more", w.Code, w.Body, len(h.Sessions())-open)
		}
		if id, w := h.begin("a"); id == "" {
			t.Errorf("the other tenant: %d %s", w.Code, w.Body)
		}
	})
}

// slow is a body that sends one byte, and nothing more until its client disconnects.
type slow struct {
	sent bool
	gone chan struct{}
}

func (b *slow) Read(p []byte) (int, error) {
	if !b.sent {
		b.sent = true
		return copy(p, "{"), nil
	}
	<-b.gone
	return 0, io.ErrUnexpectedEOF
}

// The bodies that a tenant sends slowly have one limit together, whether or not they state
// their length. The other tenant is served.
func TestBodiesThatTakeTheirTime(t *testing.T) {
	for _, length := range []int64{1 << 10, -1} {
		synctest.Test(t, func(t *testing.T) {
			_, with := newOffice(t, "tenants: {a: {}, b: {}}\n")
			h := newHandled(t, with, func(c *mcp.Config) { c.Limits.QueueBytes, c.Limits.Line = 4<<10, 1<<10 })
			handler, most := h.Handler(), 2*4
			answers, gone := make(chan *httptest.ResponseRecorder, 100), make(chan struct{})
			for range most + 3 {
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/", &slow{gone: gone})
				r.ContentLength, r.Host = length, "localhost"
				r.Header.Set("Authorization", "Bearer token-b")
				go func() {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, r)
					answers <- w
				}()
			}
			synctest.Wait()
			if n := len(answers); n != 3 {
				t.Errorf("length %d: %d bodies were refused, want 3", length, n)
			}
			for len(answers) > 0 {
				if w := <-answers; w.Code != 429 || !strings.Contains(w.Body.String(), "bytes_in_flight") || w.Header().Get("Retry-After") == "" {
					t.Errorf("length %d: %d %s", length, w.Code, w.Body)
				}
			}
			session, _ := h.begin("a")
			if w := h.ask(t.Context(), "POST", "a", session, call(h.id(), "echo", `{"text":"hi"}`)); w.Code != 200 {
				t.Errorf("a call of a: %d %s", w.Code, w.Body)
			}
			close(gone)
			for range most {
				<-answers
			}
			session, _ = h.begin("b")
			if w := h.ask(t.Context(), "POST", "b", session, call(h.id(), "echo", `{"text":"hi"}`)); w.Code != 200 {
				t.Errorf("b, when they are gone: %d %s", w.Code, w.Body)
			}
			h.Shutdown(context.Background())
		})
	}
}

// used is a session in the model of TestSessionShares.
type used struct {
	id   string
	ends []func() // each ends one request in the session
}

// TestSessionShares lets tenants open, use and leave sessions at random. A tenant with
// fewer sessions than its share is never refused a session. No session ends that is in use
// or belongs to another tenant. A tenant that has its share gets a new session in place of
// the one that was idle the longest, and is refused if none is idle.
func TestSessionShares(t *testing.T) {
	n, r := testenv.Cases(t, 40)
	var opened, replaced, refused int
	for range n {
		synctest.Test(t, func(t *testing.T) {
			share := 1 + r.IntN(4)
			tenants := []string{"a", "b", "c"}
			named := func(*mcp.Config) {}
			if r.IntN(4) == 0 {
				tenants = []string{""}
			} else {
				_, named = newOffice(t, "tenants: {a: {}, b: {}, c: {}}\n")
			}
			h := newHandled(t, named, func(c *mcp.Config) {
				c.Limits.Sessions, c.Limits.TenantSessions = 1, share
				if tenants[0] == "" {
					c.Limits.Sessions, c.Limits.TenantSessions = share, 1
				}
			})
			defer h.Shutdown(context.Background())
			open := map[string][]*used{} // sorted by their last use, the latest last
			for range 30 {
				who := tenants[r.IntN(len(tenants))]
				mine := open[who]
				var s *used
				if len(mine) > 0 {
					s = mine[r.IntN(len(mine))]
				}
				switch what := r.IntN(10); {
				case s == nil || what < 4:
					id, w := h.begin(who)
					synctest.Wait()
					idle := slices.IndexFunc(mine, func(s *used) bool { return len(s.ends) == 0 })
					switch {
					case len(mine) < share:
						opened++
					case idle >= 0:
						replaced++
						if w := h.ask(t.Context(), "POST", who, mine[idle].id, req(h.id(), "ping")); w.Code != 404 {
							t.Errorf("the session that was idle the longest is answered %d %s", w.Code, w.Body)
						}
						mine = slices.Delete(mine, idle, idle+1)
					default:
						refused++
						if w.Code != 503 || !strings.Contains(w.Body.String(), "in use") || w.Header().Get("Retry-After") == "" {
							t.Fatalf("tenant %q with all of its %d sessions in use: %d %s", who, share, w.Code, w.Body)
						}
						continue
					}
					if id == "" {
						t.Fatalf("tenant %q with %d of %d sessions: %d %s", who, len(open[who]), share, w.Code, w.Body)
					}
					open[who] = append(mine, &used{id: id})
				case what == 4:
					for _, end := range s.ends {
						end()
					}
					synctest.Wait()
					h.ask(t.Context(), "DELETE", who, s.id, "")
					synctest.Wait()
					open[who] = slices.DeleteFunc(mine, func(o *used) bool { return o == s })
				case what == 5 && len(s.ends) > 0:
					s.ends[0]()
					synctest.Wait()
					s.ends = s.ends[1:]
					open[who] = append(slices.DeleteFunc(mine, func(o *used) bool { return o == s }), s)
				case what < 8:
					h.busy(r, who, s)
				default:
					if w := h.ask(t.Context(), "POST", who, s.id, req(h.id(), "ping")); w.Code != 200 {
						t.Errorf("a session that is open is answered %d %s", w.Code, w.Body)
					}
					open[who] = append(slices.DeleteFunc(mine, func(o *used) bool { return o == s }), s)
				}
			}
			for who, all := range open {
				for _, s := range all {
					if w := h.ask(t.Context(), "POST", who, s.id, req(h.id(), "ping")); w.Code != 200 {
						t.Errorf("at the end a session of %q is answered %d %s", who, w.Code, w.Body)
					}
					for _, end := range s.ends {
						end()
					}
				}
			}
			synctest.Wait()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d sessions within a share, %d in place of an idle one, %d refused", opened, replaced, refused)
}

// busy starts something that keeps a session in use: a stream, a call, or a call whose
// client was cut off. A session has only one stream at a time.
func (h *handled) busy(r *rand.Rand, tenant string, s *used) {
	ctx, cancel := context.WithCancel(h.t.Context())
	over := make(chan struct{})
	begin := func(method, body string) {
		go func() {
			defer close(over)
			h.ask(ctx, method, tenant, s.id, body)
		}()
		synctest.Wait()
		if ended(over) {
			h.t.Errorf("a %s in a session that is open ended at once", method)
		}
	}
	if r.IntN(3) == 0 && len(s.ends) == 0 {
		begin("GET", "")
		s.ends = append(s.ends, func() { cancel(); <-over })
		return
	}
	id := h.id()
	begin("POST", call(id, "hang", `{}`))
	if r.IntN(2) == 0 {
		cancel()
		<-over
	}
	s.ends = append(s.ends, func() {
		h.ask(h.t.Context(), "POST", tenant, s.id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
		synctest.Wait()
		cancel()
		<-over
	})
}

func ended(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
