package console

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"belljar.dev/internal/people/approval"
)

// stream opens a stream of events.
func (g *rig) events(token, query string) (next func() (event, bool), status int, end func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL()+"api/v1/events"+query, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (e event, ok bool) {
			if !lines.Scan() {
				return e, false
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				g.t.Fatalf("%v: %s", err, lines.Text())
			}
			return e, true
		}, resp.StatusCode, func() {
			cancel()
			resp.Body.Close()
		}
}

// until reads events until one of a kind with an id arrives.
func until(t *testing.T, next func() (event, bool), kind, id string) event {
	t.Helper()
	for range mostRead {
		e, ok := next()
		if !ok {
			t.Fatalf("the stream ended before %s %s", kind, id)
		}
		if e.Kind == kind && e.ID == id {
			return e
		}
	}
	t.Fatalf("%d events came before %s %s", mostRead, kind, id)
	return event{}
}

// mostRead is the maximum number of events that a test reads; it is much larger than the
// ring.
const mostRead = 10 * ringSize

// A change becomes an event, for open streams and for clients that reconnect: WC9.
func TestEvents(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	next, _, end := g.events(token, "")
	if e, _ := next(); e.Kind != "ping" || e.Seq == 0 {
		t.Fatalf("a stream begins with %+v", e)
	}
	a := g.ask("rm x")
	g.Look()
	seen := until(t, next, "approval", a.ID)
	end()
	b := g.ask("rm y")
	g.Look()
	next, _, end = g.events(token, "?after="+itoa(seen.Seq))
	back := until(t, next, "approval", b.ID)
	if _, err := g.approvals.Answer(t.Context(), b.ID, reply(true)); err != nil {
		t.Fatal(err)
	}
	g.Look()
	if e := until(t, next, "approval", b.ID); e.Seq <= back.Seq {
		t.Errorf("%d follows %d", e.Seq, back.Seq)
	}
	end()
	for _, after := range []string{"0", "1", "9223372036854775807"} { // numbers of an earlier run, or of no run
		next, _, end = g.events(token, "?after="+after)
		if e := until(t, next, "reset", ""); e.Seq < back.Seq {
			t.Errorf("the stream goes on behind %d", e.Seq)
		}
		end()
	}
	if got := g.send("GET", "api/v1/events?after=x", token, nil); got.status != http.StatusBadRequest {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// slowPeople lists approvals only when a test allows it.
type slowPeople struct {
	*rig
	now chan struct{}
}

func (s slowPeople) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	<-s.now
	return s.rig.Approvals(ctx, all)
}

// A page continues after the last event that the route me reports. me reports no number
// until every later change becomes an event.
func TestEventsBehindMe(t *testing.T) {
	now := make(chan struct{})
	g := start(t, func(g *rig, v *Views) { v.People = slowPeople{g, now} })
	token := g.login(Viewer)
	var is me
	if g.send("GET", "api/v1/me", token, nil).into(t, &is); is.Seq != 0 {
		t.Errorf("event %d before the server was looked at", is.Seq)
	}
	close(now)
	next, _, end := g.events(token, "")
	defer end()
	first, _ := next()
	if g.send("GET", "api/v1/me", token, nil).into(t, &is); is.Seq != first.Seq || is.Seq == 0 {
		t.Errorf("event %d, and the stream begins at %d", is.Seq, first.Seq)
	}
}

// A token can have sixteen streams, and its streams end with the token: WC9, WC-A27.
func TestStreamsAreBounded(t *testing.T) {
	g := start(t)
	token, other := g.login(Viewer), g.login(Viewer)
	var nexts []func() (event, bool)
	for range maxStreams {
		next, status, end := g.events(token, "")
		t.Cleanup(end)
		if status != http.StatusOK {
			t.Fatal(status)
		}
		nexts = append(nexts, next)
	}
	_, status, end := g.events(token, "") // the body is not read, because without the bound it would never end
	if end(); status != http.StatusTooManyRequests {
		t.Errorf("one more: got %d", status)
	}
	_, status, end = g.events(other, "")
	if end(); status != http.StatusOK {
		t.Errorf("another token: got %d", status)
	}
	if got := g.send("POST", "api/v1/logout", token, nil); got.status != http.StatusNoContent {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	g.ring.add(thing{kind: "box", id: "x"}) // the streams end at the next event or ping
	for _, next := range nexts {
		pings := 0 // the first line is a ping; a stream that has not ended gets another one after 15 seconds
		for e, ok := next(); ok; e, ok = next() {
			if e.Kind == "ping" {
				pings++
			}
			if pings > 1 || e.Kind == "box" {
				t.Fatal("a stream of a token that has ended goes on")
			}
		}
	}
}
