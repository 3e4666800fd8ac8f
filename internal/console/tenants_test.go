package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox/workspace"
)

// theirs is a tenant whose name is in every text of its things. ours is another tenant.
const (
	ours   = "acme"
	theirs = "zebra"
)

// shared is a server with things of two tenants.
type shared struct {
	approvals, given, questions, cursors map[string]string // ids by tenant; given are approvals that were answered with yes
	versions                             map[string]string // version by approval or question

	mu   sync.Mutex
	done []string // guarded by mu: actions, each with the tenant of its thing
}

func (s *shared) did(what, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, what+" "+tenant)
}

func both[T any](of func(tenant string) T) []T { return []T{of(ours), of(theirs)} }

func tenantIn(id string) string {
	if strings.Contains(id, theirs) {
		return theirs
	}
	return ours
}

// withTenants gives a rig every view, with things of both tenants.
func withTenants(s *shared) func(*rig, *Views) {
	return func(g *rig, v *Views) {
		for _, all := range []*map[string]string{&s.approvals, &s.given, &s.questions, &s.cursors, &s.versions} {
			*all = make(map[string]string)
		}
		full(g, v)
		v.Runs, v.Counts, v.Tools, v.Upstreams = &sharedRuns{s}, sharedCounts{}, &sharedTools{s: s}, &sharedUpstreams{s}
		v.AuditDir, v.SetsDir = s.log(g.t), filepath.Join(g.t.TempDir(), "sets")
		sets, err := workspace.Open(v.SetsDir)
		if err != nil {
			g.t.Fatal(err)
		}
		defer sets.Close()
		for _, tenant := range []string{ours, theirs} {
			base := filepath.Join(g.t.TempDir(), tenant)
			write(g.t, filepath.Join(base, "file"), "before\n")
			l, err := sets.Use("s-"+tenant, tenant, base, workspace.Protect{})
			if err != nil {
				g.t.Fatal(err)
			}
			l.Settle()
			for _, name := range []string{"", "other-"} {
				write(g.t, fmt.Sprintf("/proc/self/fd/%d/upper/%s%s.txt", l.Top.Fd(), name, tenant), tenant+"\n")
			}
			if err := l.Close(); err != nil {
				g.t.Fatal(err)
			}
			ask := func(command string) approval.Approval {
				a, _, err := g.approvals.Ask(g.t.Context(), approval.Request{
					CallID: "c-" + tenant, Facts: policies.Facts{Tenant: tenant, Session: "s-" + tenant, Tool: "Bash", Command: command, Args: map[string]any{"command": command, "why": strings.Repeat("x", 500)}},
					Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule"},
				})
				if err != nil {
					g.t.Fatal(err)
				}
				return a
			}
			a, given := ask("rm "+tenant), ask("ls "+tenant)
			if _, err := g.approvals.Answer(g.t.Context(), given.ID, reply(true)); err != nil {
				g.t.Fatal(err)
			}
			q, err := g.questions.Ask(g.t.Context(), store.Owner{Tenant: tenant, Session: "s-" + tenant}, question.Sheet{Questions: []question.Question{{ID: "q1", Text: "Which of " + tenant + "?", Kind: question.Text}}, Life: time.Hour})
			if err != nil {
				g.t.Fatal(err)
			}
			s.approvals[tenant], s.given[tenant], s.questions[tenant] = a.ID, given.ID, q.ID
			s.versions[a.ID], s.versions[q.ID] = a.Version(), q.Version()
		}
	}
}

// log returns the directory of an audit log with a decision, an outcome and a recording of
// each tenant.
func (s *shared) log(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditFull)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{ours, theirs} {
		text := `{"version":2,"width":80,"height":24}` + "\n" + `[1,"o","` + tenant + `"]` + "\n"
		write(t, filepath.Join(dir, tenant+".cast"), text)
		sum := sha256.Sum256([]byte(text))
		for _, r := range []audit.Record{
			audit.Decision{CallID: "c-" + tenant, Tenant: tenant, Session: "s-" + tenant, Tool: "Bash", Verdict: "allow", Facts: audit.Facts{Command: "ls " + tenant}},
			audit.Outcome{CallID: "c-" + tenant, Tenant: tenant, Tool: "Bash", Cast: &audit.Recorded{File: tenant + ".cast", SHA256: hex.EncodeToString(sum[:])}},
			audit.Session{Event: "end", Tenant: tenant, Session: "s-" + tenant},
		} {
			if err := l.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Append(audit.Login{Event: "console", Principal: theirs}); err != nil { // this record belongs to no tenant
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = audit.ReadBack(t.Context(), dir, audit.Cursor{}, audit.Search{Filter: audit.Filter{Kind: audit.KindDecision}}, func(e audit.Entry, at audit.Cursor) bool {
		s.cursors[e.Tenant] = at.String()
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// sharedRuns are boxes, sessions and tasks of both tenants.
type sharedRuns struct{ s *shared }

func (f *sharedRuns) Boxes() []control.Box {
	return both(func(tenant string) control.Box { return control.Box{ID: "s-" + tenant, Tenant: tenant, Browser: true} })
}

func (f *sharedRuns) KillBox(id, _ string) error {
	f.s.did("kill", tenantIn(id))
	return nil
}

func (f *sharedRuns) Sessions() []control.Session {
	return both(func(tenant string) control.Session {
		return control.Session{SessionInfo: mcp.SessionInfo{ID: "s-" + tenant, Tenant: tenant}}
	})
}

func (f *sharedRuns) EndSession(id, _, _ string) []control.Session {
	f.s.did("end", tenantIn(id))
	return f.Sessions()[:1]
}

func (f *sharedRuns) Jobs() []control.Job {
	return both(func(tenant string) control.Job {
		return control.Job{JobInfo: tools.JobInfo{ID: 1, Session: "s-" + tenant, Tenant: tenant, Command: tenant}}
	})
}

func (f *sharedRuns) EndJob(session string, _ int64, _ string) []control.Job {
	f.s.did("end task", tenantIn(session))
	return f.Jobs()[:1]
}

func (f *sharedRuns) Output(session string, _, _ int64, _ int) (tools.OutputPart, error) {
	text := []byte(tenantIn(session) + "\n")
	return tools.OutputPart{Text: text, Total: int64(len(text)), Next: int64(len(text)), Over: true}, nil
}

// sharedCounts counts a call of each tenant.
type sharedCounts struct{ counts }

func (sharedCounts) Calls(s Scope) (c Calls) {
	c.Minute, c.Allow, c.Ask, c.Deny = []time.Time{time.Now()}, []int{0}, []int{0}, []int{0}
	for i, tenant := range []string{ours, theirs} {
		if s.Sees(tenant) {
			c.Allow[0] += 1 + i
		}
	}
	return c
}

func (sharedCounts) Tenants() []control.Tenant {
	return both(func(tenant string) control.Tenant { return control.Tenant{Name: tenant} })
}

// sharedTools are browsers, todos and plans of both tenants.
type sharedTools struct {
	kit

	s *shared
}

func (f *sharedTools) Seats() []BrowserSeat {
	return both(func(tenant string) BrowserSeat { return BrowserSeat{ID: "b-" + tenant, Tenant: tenant, State: "live"} })
}

func (f *sharedTools) Shot(_ context.Context, id string) ([]byte, error) {
	f.s.did("show", tenantIn(id))
	return sized(1, 1), nil // a picture that cannot be drawn
}

func (f *sharedTools) HoldSeat(_ context.Context, id, _ string) error {
	f.s.did("hold", tenantIn(id))
	return nil
}

func (f *sharedTools) ReleaseSeat(id, _ string) error {
	f.s.did("release", tenantIn(id))
	return nil
}

func (f *sharedTools) TestEngine(context.Context, string) (EngineTest, error) {
	f.s.did("test an engine for", "all")
	return EngineTest{}, nil
}

func (f *sharedTools) Work(_ context.Context, s Scope) (w Work, _ error) {
	for _, tenant := range []string{ours, theirs} {
		if s.Sees(tenant) {
			w.Todos = append(w.Todos, Todo{Tenant: tenant, Title: tenant})
		}
	}
	return w, nil
}

// sharedUpstreams are upstreams that run for both tenants, and definitions that wait.
type sharedUpstreams struct{ s *shared }

func (f *sharedUpstreams) All() []control.Upstreams {
	return []control.Upstreams{
		{Place: "/srv/" + ours, All: both(func(tenant string) control.Upstream {
			return control.Upstream{Name: "files", Tenant: tenant, Stderr: []string{tenant}}
		})},
		{Place: "/srv/" + theirs, All: []control.Upstream{{Name: "own", Tenant: theirs}}, Faults: []string{"the entry of " + theirs}},
	}
}

func (f *sharedUpstreams) Restart(context.Context, string, string) (int, error) {
	f.s.did("restart for", "all")
	return 1, nil
}

func (f *sharedUpstreams) Login(_ context.Context, at LoginTarget, _, _ string) (*UpstreamLogin, error) {
	f.s.did("login", at.Tenant)
	return &UpstreamLogin{Answers: func(url.Values) bool { return true }, Close: func(context.Context) {}, Receive: func(context.Context, url.Values) error {
		f.s.did("logged in", at.Tenant)
		return nil
	}}, nil
}

func (f *sharedUpstreams) Pins(context.Context) ([]Pin, error) {
	return both(func(tenant string) Pin {
		return Pin{Upstream: "files", Tenant: tenant, Name: tenant, Version: "v-" + tenant}
	}), nil
}

func (f *sharedUpstreams) Decide(_ context.Context, _, version string, _ bool, _ string) error {
	f.s.did("decide", tenantIn(version))
	return nil
}

// Routes without things of tenants, and routes that people of some tenants do not have.
var (
	ofNobody = []string{"me", "search", "workers"}
	// routes that answer 409 if the person may not see such a thing
	mayConflict = []string{"upstreams/{name}/pins", "upstreams/login"}
	forAllOnly  = []string{"policy", "policy/explain", "policy/replay", "search/{name}/test", "upstreams/{name}/restart", "workers"}
)

// of returns the path and the body of a request about the things of a tenant.
func (s *shared) of(tenant string, at route, digest string) (path string, body any) {
	path = at.path
	id := "s-" + tenant
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "approvals":
		id = s.approvals[tenant]
		if strings.HasSuffix(path, "/revoke") {
			id = s.given[tenant]
		}
	case "questions":
		id = s.questions[tenant]
	case "casts":
		id = "c-" + tenant
	case "browser":
		id = "b-" + tenant
	case "jobs":
		id = "1"
	}
	name := id
	if strings.HasPrefix(path, "upstreams/") {
		name = "files"
	}
	path = strings.NewReplacer("{id}", id, "{session}", "s-"+tenant, "{name}", name, "{cursor}", s.cursors[tenant]).Replace(path)
	switch {
	case strings.HasSuffix(path, "/diff"):
		path += "?path=" + tenant + ".txt"
	case at.path == "approvals":
		path += "?all=1"
	}
	if at.method != http.MethodPost {
		return path, nil
	}
	return path, map[string]any{
		"approvals/{id}/answer":     map[string]any{"yes": true, "version": s.versions[id]},
		"questions/{id}/answer":     map[string]any{"decline": true, "version": s.versions[id]},
		"upstreams/{name}/pins":     map[string]any{"approve": true, "version": "v-" + tenant},
		"upstreams/{name}/login":    map[string]any{"tenant": tenant, "place": "/srv/" + ours},
		"upstreams/login":           map[string]any{"answer": "code=x"},
		"workspaces/{name}/apply":   map[string]any{"paths": []string{tenant + ".txt"}, "digest": digest},
		"workspaces/{name}/discard": map[string]any{"digest": digest},
		"policy/explain":            map[string]any{"tool": "Bash", "arguments": map[string]any{"command": theirs}, "tenant": theirs},
		"policy/replay":             map[string]any{"policy": "x"},
	}[at.path]
}

// loginFor returns a token of a person who may see some tenants.
func (g *rig) loginFor(role Role, tenants ...string) string {
	g.t.Helper()
	_, code, _ := strings.Cut(first(g.Link("kim", role, tenants...)), "#")
	_, in := g.enter(code)
	return in.Token
}

// A person who may see the things of one tenant cannot read or change anything of another
// tenant, through any route. Every route is tested here. A route without things of tenants
// must be named above.
func TestTenantsOfAllRoutes(t *testing.T) {
	s := &shared{}
	g := start(t, withTenants(s))
	s.tryRoutes(t, g, g.routes(), "")
}

// A front passes on which tenants a person may see, and its workers show only these.
func TestTenantsOfAFleet(t *testing.T) {
	s := &shared{}
	g, f, _ := linked(t, func(g *rig, v *Views) {
		if len(s.approvals) == 0 { // the other worker has the same things, with the same names
			withTenants(s)(g, v)
		}
	})
	part, ok := f.all["w1"].(*Part)
	if !ok {
		t.Fatal("the worker is not a Part")
	}
	var routes []route
	for _, at := range part.console.routes() {
		if at.needs > 0 && !slices.Contains([]string{"logout", "me", "events"}, at.path) {
			routes = append(routes, at)
		}
	}
	s.tryRoutes(t, g, routes, "workers/w1/")
	g, _, _ = linked(t, withTenants(&shared{}))
	whole, some := g.login(Viewer), g.loginFor(Viewer, ours)
	for _, path := range []string{"inbox", "approvals?all=1", "questions", "boxes", "sessions", "jobs", "audit", "audit?tenant=" + theirs} {
		if got := g.send("GET", "api/v1/"+path, whole, nil); !strings.Contains(string(got.body), theirs) {
			t.Errorf("%s has nothing of %s for people of all tenants: %s", path, theirs, got.body)
		}
		if got := g.send("GET", "api/v1/"+path, some, nil); got.status != http.StatusOK || strings.Contains(string(got.body), theirs) {
			t.Errorf("%s shows to people of %s: %d %s", path, ours, got.status, got.body)
		}
	}
	if got := g.send("GET", "api/v1/workers", some, nil); got.status != http.StatusForbidden {
		t.Errorf("the workers: %d", got.status)
	}
	if got := g.send("GET", "api/v1/workers/w1/things", some, nil); got.status != http.StatusForbidden {
		t.Errorf("what changes at a worker: %d %s", got.status, got.body)
	}
}

// tryRoutes tries each route as a person of all tenants, of ours, and of theirs.
func (s *shared) tryRoutes(t *testing.T, g *rig, routes []route, below string) {
	t.Helper()
	foreign, own, whole := g.loginFor(Operator, ours), g.loginFor(Operator, theirs), g.login(Operator)
	digest := func(token string) string {
		var is changesOf
		if got := g.send("GET", "api/v1/"+below+"workspaces/s-"+theirs+"/changes", token, nil); got.status == http.StatusOK {
			got.into(t, &is)
		}
		return is.Digest
	}
	known := digest(whole)
	tried := make(map[string]int)
	for _, at := range routes {
		if at.needs == 0 || slices.Contains([]string{"logout", "events"}, at.path) {
			continue
		}
		path, body := s.of(theirs, at, known)
		if at.method == http.MethodPost && body == nil {
			body = struct{}{}
		}
		path = "api/v1/" + below + path
		s.done = nil
		tried[at.method]++
		got := g.send(at.method, path, foreign, body)
		text := string(got.body)
		if got.status != http.StatusOK { // a refusal may repeat the id from the request
			text = strings.NewReplacer("s-"+theirs, "", "b-"+theirs, "", "c-"+theirs, "").Replace(text)
		}
		if strings.Contains(text, theirs) {
			t.Errorf("%s %s: a person of %s sees %s", at.method, path, ours, got.body)
		}
		if at.method == http.MethodPost || strings.Contains(at.path, "{") {
			if got.status != http.StatusForbidden && got.status != http.StatusNotFound && (got.status != http.StatusConflict || !slices.Contains(mayConflict, at.path)) {
				t.Errorf("%s %s: a person of %s gets %d %s", at.method, path, ours, got.status, got.body)
			}
		}
		if len(s.done) > 0 {
			t.Errorf("%s %s: a person of %s did %q", at.method, path, ours, s.done)
		}
		closed := slices.Contains(forAllOnly, at.path)
		if closed != (got.status == http.StatusForbidden) {
			t.Errorf("%s %s: %d for a person of %s, and it is for all tenants together: %v", at.method, path, got.status, ours, closed)
		}
		if at.method == http.MethodPost {
			continue
		}
		for who, token := range map[string]string{"all": whole, theirs: own} {
			if closed && who == theirs || slices.Contains(ofNobody, at.path) || at.path == "browser/{id}/picture" || at.path == "policy" {
				continue
			}
			if got := g.send(at.method, path, token, nil); got.status != http.StatusOK || !strings.Contains(string(got.body), theirs) {
				t.Errorf("%s %s: a person of %s does not see %s: %d %s", at.method, path, who, theirs, got.status, got.body)
			}
		}
	}
	for _, query := range []string{"audit?q=" + theirs, "audit?tenant=" + theirs, "audit?session=s-" + theirs, "approvals?all=1&tenant=" + theirs, "approvals?all=1&q=" + theirs, "questions?all=1"} {
		if got := g.send("GET", "api/v1/"+below+query, foreign, nil); got.status != http.StatusOK || strings.Contains(string(got.body), theirs) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
		if got := g.send("GET", "api/v1/"+below+query, own, nil); !strings.Contains(string(got.body), theirs) {
			t.Errorf("%s has nothing for a person of %s: %s", query, theirs, got.body)
		}
	}
	// A person of theirs can do what the person of ours could not: so the requests were
	// refused because of the tenant.
	for _, at := range routes {
		if at.method != http.MethodPost || at.needs == 0 || slices.Contains(forAllOnly, at.path) || at.path == "logout" {
			continue
		}
		path, body := s.of(theirs, at, digest(own))
		if body == nil {
			body = struct{}{}
		}
		if got := g.send(at.method, "api/v1/"+below+path, own, body); got.status != http.StatusOK {
			t.Errorf("%s by a person of %s: %d %s", path, theirs, got.status, got.body)
		}
	}
	if tried["GET"] < 12 || tried["POST"] < 8 {
		t.Errorf("tried %v", tried)
	}
}

// A person gets the same answer for a thing of another tenant as for a thing that does not
// exist.
func TestForeignThingsAreUnknown(t *testing.T) {
	s := &shared{}
	g := start(t, withTenants(s))
	token := g.loginFor(Operator, ours)
	for path, ids := range map[string][2]string{
		"approvals/ID": {s.approvals[theirs], "ap-" + strings.Repeat("q", len(s.approvals[theirs])-3)}, "questions/ID": {s.questions[theirs], "q-" + strings.Repeat("q", len(s.questions[theirs])-2)},
		"approvals/ID/records": {s.approvals[theirs], "ap-" + strings.Repeat("q", len(s.approvals[theirs])-3)}, "jobs/ID/1/output": {"s-" + theirs, "s-nosuc"},
		"browser/ID/picture": {"b-" + theirs, "b-nosuc"}, "casts/ID": {"c-" + theirs, "c-nosuc"}, "workspaces/ID/changes": {"s-" + theirs, "s-nosuc"},
	} {
		var said []string
		for _, id := range ids {
			got := g.send("GET", "api/v1/"+strings.Replace(path, "ID", id, 1), token, nil)
			said = append(said, fmt.Sprint(got.status, " ", strings.ReplaceAll(string(got.body), id, "ID")))
		}
		if said[0] != said[1] || !strings.HasPrefix(said[0], "404 ") {
			t.Errorf("%s: %q of somebody else, %q that does not exist", path, said[0], said[1])
		}
	}
}

// The stream of a person of one tenant contains only the events of this tenant.
func TestTenantsOfEvents(t *testing.T) {
	s := &shared{}
	g := start(t, withTenants(s))
	next, _, end := g.events(g.loginFor(Viewer, ours), "")
	defer end()
	if e, _ := next(); e.Kind != "ping" {
		t.Fatalf("a stream begins with %+v", e)
	}
	for kind, tenants := range map[string][]string{"approval": {theirs}, "audit": {theirs, ""}, "policy": {""}, "upstream": {theirs, ""}, "box": {theirs}} {
		for _, tenant := range tenants {
			g.ring.add(thing{kind, "id-of-" + theirs, tenant})
		}
	}
	ask := func(tenant string) approval.Approval {
		a, _, err := g.approvals.Ask(t.Context(), approval.Request{
			CallID: "c-9", Facts: policies.Facts{Tenant: tenant, Session: "s-9", Tool: "Bash", Command: "new", Args: map[string]any{"command": "new"}}, Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	other := ask(theirs)
	g.Look()
	mine := ask(ours)
	g.Look()
	for {
		e, ok := next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		if e.ID == other.ID || strings.Contains(e.ID, theirs) || slices.Contains([]string{"policy", "upstream", "audit"}, e.Kind) {
			t.Errorf("a person of %s gets %+v", ours, e)
		}
		if e.ID == mine.ID {
			return
		}
	}
}

// The tenant of a record decides which streams it wakes: only the streams of that tenant.
func TestTailOfTenants(t *testing.T) {
	dir := (&shared{cursors: make(map[string]string)}).log(t)
	var of tail
	before := of.newest(t.Context(), dir)
	if len(before) != 3 || before[ours] == 0 || before[theirs] <= before[ours] {
		t.Fatalf("got %v", before)
	}
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(audit.Session{Event: "end", Tenant: ours, Session: "s"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	after := of.newest(t.Context(), dir)
	before[ours], before[""] = after[ours], after[""] // the log also records its own start
	if !maps.Equal(before, after) || after[ours] <= after[theirs] {
		t.Errorf("got %v, want %v", after, before)
	}
}

// A person whom the policy names may see the tenants that the policy gives them now. A
// person with an empty scope sees nothing.
func TestTenantsOfKnownPeople(t *testing.T) {
	s := &shared{}
	g := start(t, withTenants(s))
	ann, annToken := known("ann", Operator)
	g.permit(ann)
	_, in := g.enter(annToken)
	boxes := func() (ids []string) {
		var all []control.Box
		g.send("GET", "api/v1/boxes", in.Token, nil).into(t, &all)
		for _, b := range all {
			ids = append(ids, b.Tenant)
		}
		return ids
	}
	for _, tt := range []struct {
		scope Scope
		want  []string
	}{{Everything(), []string{ours, theirs}}, {ScopeOf([]string{theirs}), []string{theirs}}, {ScopeOf([]string{theirs, ours}), []string{ours, theirs}}, {Scope{}, nil}, {ScopeOf([]string{""}), nil}} {
		ann.Scope = tt.scope
		g.permit(ann)
		if got := boxes(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: boxes of %v, want %v", tt.scope, got, tt.want)
		}
	}
	var me struct {
		Views             []string
		Tenants           []string
		Workspace, Policy string
	}
	ann.Scope = ScopeOf([]string{ours})
	g.permit(ann)
	g.send("GET", "api/v1/me", in.Token, nil).into(t, &me)
	if !slices.Equal(me.Tenants, []string{ours}) || slices.Contains(me.Views, "policy") || !slices.Contains(me.Views, "inbox") || me.Workspace+me.Policy != "" {
		t.Errorf("got %+v", me)
	}
}

// The bound of a list of questions counts only the questions that a person may see: many
// questions of other tenants do not push them out of the list.
func TestQuestionsOfOthersTakeNoPlace(t *testing.T) {
	g := start(t)
	ask := func(tenant string, n int) string {
		t.Helper()
		sheet := question.Sheet{Questions: []question.Question{{ID: "q1", Text: fmt.Sprint("Which ", n), Kind: question.Text}}, Life: time.Hour}
		q, err := g.questions.Ask(t.Context(), store.Owner{Tenant: tenant, Session: "s"}, sheet)
		if err != nil {
			t.Fatal(err)
		}
		return q.ID
	}
	own := ask(ours, 0)
	for i := range 112 {
		ask(fmt.Sprint("other-", i/16), i)
	}
	views := g.views.only(ScopeOf([]string{ours}))
	for _, all := range []bool{false, true} {
		list, err := views.People.Questions(t.Context(), all, nil)
		if err != nil || len(list) != 1 || list[0].ID != own {
			t.Errorf("all %v: got %+v, %v, want %s alone", all, list, err, own)
		}
		if list, err := views.People.Questions(t.Context(), all, []string{"other-0"}); err != nil || len(list) != 0 {
			t.Errorf("all %v: somebody else's: %+v, %v", all, list, err)
		}
	}
	if list, err := g.views.People.Questions(t.Context(), false, nil); err != nil || len(list) != 100 {
		t.Errorf("of all tenants: %d, %v", len(list), err)
	}
}
