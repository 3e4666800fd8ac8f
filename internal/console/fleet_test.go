package console

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// parts are the workers of a fleet, in this process.
type parts struct {
	all map[string]http.Handler

	mu   sync.Mutex
	away []string // guarded by mu: names of workers that do not answer
}

func (f *parts) Linked() (names []string) {
	for name := range f.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *parts) Workers() []Worker {
	all := []Worker{}
	for _, name := range f.Linked() {
		all = append(all, Worker{Name: name, Version: "v", State: "ready", Places: 2})
	}
	return all
}

func (f *parts) Ask(r *http.Request, worker string) (*http.Response, error) {
	f.mu.Lock()
	gone := slices.Contains(f.away, worker)
	f.mu.Unlock()
	if gone || f.all[worker] == nil {
		return nil, errors.New("it is gone")
	}
	w := httptest.NewRecorder()
	f.all[worker].ServeHTTP(w, r)
	return w.Result(), nil
}

// worker starts a server that has a part for fronts.
func worker(t testing.TB) *rig {
	t.Helper()
	kept := store.New("")
	t.Cleanup(func() { kept.Close() })
	cfg := store.Config{Store: kept, Place: "/w"}
	return &rig{t: t, approvals: approval.New(approval.Config{Config: cfg}), questions: question.New(cfg)}
}

// linked starts the console of a front with two workers.
func linked(t testing.TB, change ...func(*rig, *Views)) (g *rig, f *parts, workers map[string]*rig) {
	t.Helper()
	f, workers = &parts{all: make(map[string]http.Handler)}, make(map[string]*rig)
	for _, name := range []string{"w1", "w2"} {
		one := worker(t)
		v := Views{Server: one, People: one, Runs: &runs{output: []byte("out of " + name + "\n")}, AuditDir: logged(t, 4), Upstreams: &others{}}
		for _, c := range change {
			c(one, &v)
		}
		part, err := NewPart(v)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		var running sync.WaitGroup
		running.Go(func() { part.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
		})
		f.all[name], workers[name] = part, one
	}
	return start(t, func(_ *rig, v *Views) { v.People, v.Fleet, v.Policy = nil, f, held{policies.Default()} }), f, workers
}

// A list at a front contains what all workers have, each element with the name of its
// worker, and the answer names the workers that are missing.
func TestListsOfAFleet(t *testing.T) {
	g, f, workers := linked(t)
	// this worker uses the name of another worker
	f.all["w3"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, []map[string]string{{"id": "box", "worker": "w1"}})
	})
	f.all["w4"] = http.NotFoundHandler() // this worker has no part
	f.all["w5"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, []any{nil}) })
	f.all["w6"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, []string{strings.Repeat("x", maxTogether)})
	})
	f.away = []string{"w2"}
	token := g.login(Viewer)
	var boxes []struct{ ID, Worker string }
	got := g.send("GET", "api/v1/boxes", token, nil)
	got.into(t, &boxes)
	if is := fmt.Sprint(boxes); is != "[{s-1 w1} {box w3}]" {
		t.Errorf("got %s", is)
	}
	if is := strings.Join(got.header.Values(missingHeader), " "); is != "w2 w4 w6 w5" {
		t.Errorf("the list says that it lacks %q", is)
	}
	f.mu.Lock()
	f.away = nil
	f.mu.Unlock()
	for _, name := range []string{"w3", "w4", "w5", "w6"} {
		delete(f.all, name)
	}
	first, second := workers["w1"].ask("ls one"), workers["w2"].ask("ls two")
	var in struct {
		Approvals []struct{ ID, Worker, Version string }
	}
	got = g.send("GET", "api/v1/inbox", token, nil)
	got.into(t, &in)
	if is := fmt.Sprintf("%d %s %v %s %v", len(in.Approvals), in.Approvals[0].Worker, in.Approvals[0].ID == second.ID, in.Approvals[1].Worker, in.Approvals[1].ID == first.ID); is != "2 w2 true w1 true" || got.header.Get(missingHeader) != "" {
		t.Errorf("got %s; missing %q", is, got.header.Get(missingHeader))
	}
	for _, path := range []string{"sessions", "jobs", "questions", "approvals?all=1", "audit", "workers"} {
		if got := g.send("GET", "api/v1/"+path, token, nil); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	answer := map[string]any{"yes": true, "version": in.Approvals[0].Version}
	if got := g.send("POST", "api/v1/workers/w2/approvals/"+second.ID+"/answer", g.login(Approver), answer); got.status != http.StatusOK {
		t.Fatalf("yes: %d %s", got.status, got.body)
	}
	if a, err := workers["w2"].approvals.Get(t.Context(), second.ID); err != nil || a.State != approval.Approved || a.By != "ann (uid 7)" || a.Via != Via {
		t.Errorf("after the yes: %+v, %v", a, err)
	}
	if got := g.send("GET", "api/v1/workers/w1/approvals/"+second.ID, token, nil); got.status != http.StatusNotFound {
		t.Errorf("the question of another worker: %d %s", got.status, got.body)
	}
}

// The role of a person decides what they may do at a worker. Both the front and the worker
// check the role: WC4, WC-A16, WC-A17.
func TestRolesOfAFleet(t *testing.T) {
	g, f, _ := linked(t)
	tokens := map[Role]string{0: "", Viewer: g.login(Viewer), Approver: g.login(Approver), Operator: g.login(Operator)}
	part, ok := f.all["w1"].(*Part)
	if !ok {
		t.Fatal("the worker is not a Part")
	}
	tried := 0
	for _, at := range part.console.routes() {
		if at.needs == 0 || slices.Contains([]string{"logout", "me", "events"}, at.path) {
			continue
		}
		tried++
		var body any
		if at.method == http.MethodPost {
			body = struct{}{}
		}
		path := "api/v1/workers/w1/" + filled(at.path, "1")
		for role, token := range tokens {
			got := g.send(at.method, path, token, body).status
			refused := got == http.StatusForbidden || got == http.StatusUnauthorized
			if refused != (role < at.needs) {
				t.Errorf("%s %s by %s: %d", at.method, path, role, got)
			}
		}
		if got := g.send(at.method, path, agentToken, body).status; got != http.StatusForbidden {
			t.Errorf("%s %s by an agent: %d", at.method, path, got)
		}
		// The worker checks the person itself, and does not rely on the front.
		for text, want := range map[string]int{
			"": 401, "x": 401, `{"name":"ann"}`: 401, `{"role":"operator"}`: 401, `{"name":"ann","role":"king"}`: 401, `{"name":"ann","role":"viewer"}`: 403,
			`{"name":"ann","role_for_tenants":"operator"}`: 401, `{"name":"ann","role":"operator","tenants":["a"]}`: 401, `{"name":"ann","role":"operator","role_for_tenants":"operator","tenants":["a"]}`: 401,
		} {
			if want == 403 && at.needs == Viewer {
				continue
			}
			r := httptest.NewRequestWithContext(t.Context(), at.method, "/"+api+filled(at.path, "1"), strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(PersonHeader, base64.RawURLEncoding.EncodeToString([]byte(text)))
			w := httptest.NewRecorder()
			if part.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s %s for %q: %d %s", at.method, at.path, text, w.Code, w.Body)
			}
		}
	}
	if tried < 15 {
		t.Errorf("%d routes were tried", tried)
	}
	for _, path := range []string{"login", "logout", "me", "events", "../../x", "%2e%2e/%2e%2e/link/state", ""} {
		if got := g.send("GET", "api/v1/workers/w1/"+path, tokens[Operator], nil).status; got == http.StatusOK {
			t.Errorf("%q at a worker: %d", path, got)
		}
	}
	if got := g.send("GET", "api/v1/workers/w9/boxes", tokens[Viewer], nil).status; got != http.StatusNotFound {
		t.Errorf("a worker that does not exist: %d", got)
	}
}

// The logs of all workers are read as one log, page by page, without gaps and without
// repetitions.
func TestAuditOfAFleet(t *testing.T) {
	g, f, _ := linked(t)
	token := g.login(Viewer)
	type page struct {
		Records []struct {
			Worker, Cursor string
			Seq            uint64
		}
		Next  string
		Chain chainIs
	}
	count := make(map[string]int)
	seen, last := make(map[string]bool), make(map[string]uint64)
	for next, first := "", true; first || next != ""; first = false {
		var p page
		g.send("GET", "api/v1/audit?limit=2&before="+strings.ReplaceAll(strings.ReplaceAll(next, "&", "%26"), "=", "%3D"), token, nil).into(t, &p)
		for _, r := range p.Records {
			if seen[r.Worker+r.Cursor] || last[r.Worker] > 0 && r.Seq != last[r.Worker]-1 {
				t.Fatalf("%+v comes twice, or behind %d", r, last[r.Worker])
			}
			seen[r.Worker+r.Cursor], last[r.Worker] = true, r.Seq
			count[r.Worker]++
		}
		if next = p.Next; len(seen) > 100 {
			t.Fatal("it does not end")
		}
	}
	if count["w1"] != count["w2"] || count["w1"] < 4 || last["w1"] != 1 || last["w2"] != 1 {
		t.Errorf("records of each worker: %v, up to %v", count, last)
	}
	f.mu.Lock()
	f.away = []string{"w2"}
	f.mu.Unlock()
	var p page
	if g.send("GET", "api/v1/audit", token, nil).into(t, &p); p.Chain.State != "unknown" {
		t.Errorf("the log of a worker is missing, and the state of all is %+v", p.Chain)
	}
	for _, text := range []string{"x", "w1=x", "%25"} {
		if got := g.send("GET", "api/v1/audit?before="+text, token, nil); got.status != http.StatusBadRequest {
			t.Errorf("before=%s: %d", text, got.status)
		}
	}
}

// The state of several logs is the worst of their states, whatever a worker says.
func TestChainOfAFleet(t *testing.T) {
	for text, want := range map[string]string{
		"ok": "ok", "ok ": "ok", "ok unknown ok": "unknown", "unknown broken ok": "broken", "broken unknown": "broken", "ok fine": "unknown", "fine broken": "broken", "broken fine ok": "broken",
	} {
		is := chainIs{State: "ok"}
		for i, state := range strings.Fields(text) {
			is = is.with(fmt.Sprint("w", i), chainIs{State: state})
		}
		if is.State != want {
			t.Errorf("%s: %s, want %s", text, is.State, want)
		}
	}
}

// A change at a worker is an event at the front.
func TestEventsOfAFleet(t *testing.T) {
	g, _, workers := linked(t)
	next, _, end := g.events(g.login(Viewer), "")
	defer end()
	if e, ok := next(); !ok || e.Kind != "ping" {
		t.Fatal(e, ok)
	}
	a := workers["w2"].ask("ls")
	for {
		e, ok := next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		if e.Kind == "approval" && e.ID == "w2 "+a.ID {
			return
		}
	}
}

// The lists of a worker cost a front little, whatever they contain. A long list is read up
// to a bound, and the answer names the worker. A list with an element that is not an object
// is left out, and the answer names its worker.
func TestHostileListsOfWorkers(t *testing.T) {
	g, f, _ := linked(t)
	many := "[" + strings.Repeat("{},", 1<<19-1) + "{}]"
	wide := `[{"a":0` + strings.Repeat(`,"b":0`, mostMembers) + "}]"
	for name, text := range map[string]string{"w3": many, "w4": wide, "w5": `["x"]`, "w6": `[{},null]`} {
		f.all[name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := text
			switch {
			case strings.Contains(r.URL.Path, "inbox"):
				body = `{"approvals":` + text + `}`
			case strings.Contains(r.URL.Path, "audit"):
				body = `{"records":` + text + `}`
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
	}
	token := g.login(Viewer)
	for _, path := range []string{"boxes", "sessions", "jobs", "questions", "approvals?all=1", "inbox", "audit"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := g.send("GET", "api/v1/"+path, token, nil)
		runtime.ReadMemStats(&after)
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %.200s", path, got.status, got.body)
		}
		missing := strings.Join(got.header.Values(missingHeader), " ")
		if !strings.Contains(missing, "w3") || !strings.Contains(missing, "w5") || !strings.Contains(missing, "w6") || strings.Contains(missing, "w1") {
			t.Errorf("%s: it names %q as missing", path, missing)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 50<<20 {
			t.Errorf("%s: %d bytes were needed for %d", path, n, len(many))
		}
	}
	fleetThings(t.Context(), &Views{Fleet: f}, func(thing, any) {})
}
