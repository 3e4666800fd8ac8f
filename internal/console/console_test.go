package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/console/assets"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
)

// agentToken is the token of a client of the server behind a rig.
const agentToken = "token-of-an-agent"

// rig is a console over a server that has only approvals and questions.
type rig struct {
	*Console
	t         testing.TB
	approvals *approval.Desk
	questions *question.Desk
	at        string // URL for the test's requests, if it differs from the URL of the page
	agents    string // a further token that belongs to an agent

	mu      sync.Mutex
	noted   []Login    // guarded by mu
	decided []Decision // guarded by mu
	people  []Known    // guarded by mu
}

func (g *rig) About() About { return About{Version: "v", PID: 7, Workspace: "/w", Policy: "p.yaml"} }

func (g *rig) Agent(_ context.Context, token string) bool {
	return token == agentToken || token == g.agents && token != ""
}

func (g *rig) Decided(d Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.decided = append(g.decided, d)
}

func (g *rig) Known(context.Context) []Known {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.people)
}

func (g *rig) Noted(l Login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noted = append(g.noted, l)
}

func (g *rig) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	return g.approvals.List(ctx, all)
}

func (g *rig) History(ctx context.Context, f approval.Filter) ([]approval.Approval, error) {
	return g.approvals.History(ctx, f)
}

func (g *rig) Approval(ctx context.Context, id string) (approval.Approval, error) {
	return g.approvals.Get(ctx, id)
}

func (g *rig) Arguments(_ context.Context, id string, from, most int) (approval.Part, error) {
	return g.approvals.Arguments(id, from, most)
}

func (g *rig) Approve(ctx context.Context, id string, said approval.Reply) (approval.Approval, error) {
	return g.approvals.Answer(ctx, id, said)
}

func (g *rig) Revoke(ctx context.Context, id, by string) (approval.Approval, error) {
	return g.approvals.Revoke(ctx, id, by, Via)
}

func (g *rig) Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error) {
	return g.questions.ListOf(ctx, all, tenants)
}

func (g *rig) Question(ctx context.Context, id string) (question.Asked, error) {
	return g.questions.Get(ctx, id)
}

func (g *rig) Answer(ctx context.Context, id string, said question.Reply) (question.Asked, error) {
	return g.questions.Answer(ctx, id, said)
}

func (g *rig) Command(text string) string { return text }

// start serves a console until the end of the test. change may change its views.
func start(t testing.TB, change ...func(*rig, *Views)) *rig {
	t.Helper()
	return startRemote(t, Remote{}, change...)
}

// startRemote is start for a console with settings for other machines.
func startRemote(t testing.TB, remote Remote, change ...func(*rig, *Views)) *rig {
	t.Helper()
	c, err := Open(t.Context(), Config{Addr: "127.0.0.1:0", Remote: remote, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kept := store.New("")
	t.Cleanup(func() { kept.Close() })
	cfg := store.Config{Store: kept, Place: "/w"}
	g := &rig{Console: c, t: t, approvals: approval.New(approval.Config{Config: cfg}), questions: question.New(cfg)}
	v := Views{Server: g, People: g}
	for _, f := range change {
		f(g, &v)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	ready := make(chan struct{})
	serving.Go(func() {
		g.mount(v)
		close(ready)
		if err := g.serve(ctx); err != nil {
			t.Error(err)
		}
	})
	<-ready
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return g
}

// ask creates an approval for a command.
func (g *rig) ask(command string) approval.Approval {
	g.t.Helper()
	a, _, err := g.approvals.Ask(g.t.Context(), approval.Request{
		CallID: "c-1", Principal: "tenant a", Facts: policies.Facts{Tenant: "a", Session: "s-1", Tool: "Bash", Command: command, Args: map[string]any{"command": command}},
		Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule", Reason: "why"},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return a
}

// login returns a token of a person with a role.
func (g *rig) login(role Role) string {
	g.t.Helper()
	_, code, _ := strings.Cut(first(g.Link("ann (uid 7)", role)), "#")
	var got loggedIn
	if a := g.send("POST", "api/v1/login", "", map[string]string{"code": code}); a.status != http.StatusOK || json.Unmarshal(a.body, &got) != nil {
		g.t.Fatalf("login: %d %s", a.status, a.body)
	}
	return got.Token
}

func first(link string, _ time.Time) string { return link }

// answered is an answer to a request, with its body.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body of an answer, whose status must be a success.
func (a answered) into(t testing.TB, v any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("got %d: %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// send sends a request with a token. It has a JSON body if body is not nil.
func (g *rig) send(method, path, token string, body any, headers ...string) answered {
	g.t.Helper()
	text := ""
	if body != nil {
		made, err := json.Marshal(body)
		if err != nil {
			g.t.Fatal(err)
		}
		text = string(made)
	}
	return g.sendText(method, path, token, text, headers...)
}

// sendText is send with a body as text. An empty text sends no body.
func (g *rig) sendText(method, path, token, body string, headers ...string) answered {
	g.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, cmp.Or(g.at, g.URL())+path, in)
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answered{resp.StatusCode, resp.Header, text}
}

// endless are the routes whose answers do not end on their own.
var endless = []string{"events"}

// filled returns the path of a route with name in place of each wildcard.
func filled(path, name string) string {
	for _, wildcard := range []string{"{id}", "{session}", "{name}", "{cursor}"} {
		path = strings.ReplaceAll(path, wildcard, name)
	}
	return path
}

// routes returns the routes that a console has.
func (c *Console) routes() (all []route) {
	c.each(func(at *route) { all = append(all, *at) })
	return all
}

// Each route may be used only with the roles in the table, and agents may use none: WC4,
// WC-A16, WC-A17.
func TestRolesOfAllRoutes(t *testing.T) {
	g := start(t, full)
	tokens := map[Role]string{0: "", Viewer: g.login(Viewer), Approver: g.login(Approver), Operator: g.login(Operator)}
	seen := 0
	for _, r := range g.routes() {
		if slices.Contains(endless, r.path) || r.path == "logout" || r.needs == 0 {
			continue
		}
		seen++
		if (r.needs == Viewer) != (r.method == "GET" || slices.Contains(asksOnly, r.path)) {
			t.Errorf("%s %s is for a %s: reading is for viewers, and what changes something is not", r.method, r.path, r.needs)
		}
		var body any
		if r.method == "POST" {
			body = struct{}{}
		}
		try := func(who, token string, want func(status int) bool) {
			if got := g.send(r.method, "api/v1/"+filled(r.path, "1"), token, body); !want(got.status) {
				t.Errorf("%s %s by %s: got %d %s", r.method, r.path, who, got.status, got.body)
			}
		}
		for role, token := range tokens {
			try(role.String(), token, func(status int) bool {
				switch {
				case role == 0:
					return status == http.StatusUnauthorized
				case role < r.needs:
					return status == http.StatusForbidden
				}
				return status != http.StatusUnauthorized && status != http.StatusForbidden
			})
		}
		try("an agent", agentToken, func(status int) bool { return status == http.StatusForbidden })
		try("a stranger", "guessed", func(status int) bool { return status == http.StatusUnauthorized })
	}
	if seen < 8 {
		t.Errorf("%d routes were tried", seen)
	}
	if len(g.noted) < seen {
		t.Errorf("%d refusals of an agent were noted, want %d", len(g.noted), seen)
	}
}

// Every answer has the security headers, and no answer sets a cookie: WC5.
func TestHeadersOfAllAnswers(t *testing.T) {
	g := start(t, full)
	token := g.login(Operator)
	paths := map[string]string{"": "GET", "nosuch": "GET", "assets/nosuch": "GET", "api/v1/nosuch": "GET", "api/v1/../../x": "GET"}
	for _, r := range g.routes() {
		if r.path != "logout" {
			paths["api/v1/"+filled(r.path, "1")] = r.method
		}
	}
	check := func(what string, got answered) {
		t.Helper()
		for name, want := range map[string]string{
			"Content-Security-Policy": assets.ContentSecurityPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY", "Set-Cookie": "",
		} {
			if is := got.header.Get(name); is != want {
				t.Errorf("%s: %s is %q, want %q", what, name, is, want)
			}
		}
		if strings.HasPrefix(got.header.Get("Content-Type"), "application/json") && got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the answer may be kept", what)
		}
	}
	for path, method := range paths {
		if slices.Contains(endless, strings.TrimPrefix(path, "api/v1/")) {
			check(path+" without a token", g.send(method, path, "", nil))
			continue
		}
		for _, one := range []string{"", token, agentToken} {
			check(method+" /"+path, g.send(method, path, one, nil))
		}
		check("of another host: "+path, g.send(method, path, token, nil, "Host", "evil.example:8931"))
		check("of another page: "+path, g.send(method, path, token, nil, "Origin", "http://127.0.0.1:1"))
	}
}

// A request must name this machine as its host, and must come from a page of the console or
// from no page: WC-A11 to WC-A13.
func TestHostAndOrigin(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(g.URL(), "http://"), "/"))
	own := "http://127.0.0.1:" + port
	for _, tt := range []struct {
		token   string
		headers []string
		want    int
	}{
		{token, nil, 200},
		{"", nil, 401},
		{token, []string{"Origin", own}, 200},
		{token, []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{token, []string{"Sec-Fetch-Site", "same-site"}, 403}, // another port of this host
		{token, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{token, []string{"Origin", "http://127.0.0.1:1"}, 403},
		{token, []string{"Origin", "http://localhost:" + port}, 403},
		{token, []string{"Origin", "https://evil.example"}, 403},
		{token, []string{"Origin", "null"}, 403},
		{token, []string{"Host", "localhost:" + port}, 200},
		{token, []string{"Host", "evil.example:" + port}, 403},
		{token, []string{"Host", "127.0.0.1.evil.example"}, 403},
		{token, []string{"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port}, 403},
	} {
		if got := g.send("GET", "api/v1/me", tt.token, nil, tt.headers...); got.status != tt.want {
			t.Errorf("%q: got %d %s, want %d", tt.headers, got.status, got.body, tt.want)
		}
	}
}

// A request must have the right form and size: WC-A10, WC-A23.
func TestForms(t *testing.T) {
	g := start(t)
	token, a := g.login(Operator), g.ask("rm x")
	path := "api/v1/approvals/" + a.ID + "/answer"
	for _, tt := range []struct {
		kind, body string
		want       int
	}{
		{"text/plain", `{"yes":true,"version":"x"}`, 415},
		{"application/x-www-form-urlencoded", `yes=true`, 415},
		{"", `{}`, 415},
		{"application/json", `{"yes":true,`, 400},
		{"application/json", `{"yes":true}{"yes":true}`, 400},
		{"application/json", `{"yes":true,"versio":"x"}`, 400},
		{"application/json", `{"yes":true}`, 400}, // the version is missing
		{"application/json", `{"yes":true,"version":"x","scope":"for ever"}`, 400},
		{"application/json", `{"note":"` + strings.Repeat("x", maxBody) + `"}`, 413},
		{"application/json", strings.Repeat("[", maxBody-1), 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", tt.kind)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%q %.40q: got %d %s, want %d", tt.kind, tt.body, resp.StatusCode, text, tt.want)
		}
	}
	if got := g.send("GET", "api/v1/me", token, nil, "Cookie", strings.Repeat("x=y; ", 13<<10)); got.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers of 64 KiB: got %d", got.status)
	}
	if got := g.send("GET", "api/v1/me", token, nil); got.status != 200 {
		t.Errorf("after them: got %d", got.status)
	}
	for _, path := range []string{"assets/../../etc/passwd", "assets/%2e%2e/%2e%2e/etc/passwd", "api/v1/approvals/../../x", "assets/x%00.js"} {
		if got := g.send("GET", path, token, nil); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	if got, err := g.approvals.Get(t.Context(), a.ID); err != nil || got.State != approval.Pending {
		t.Errorf("the approval is %s, %v", got.State, err)
	}
}

// If a GET route takes a name, a name that does not exist gets the status 404: WC-A23.
func TestNamesOfNothing(t *testing.T) {
	g := start(t, full, func(_ *rig, v *Views) { v.SetsDir = filepath.Join(t.TempDir(), "sets") })
	token, tried := g.login(Operator), 0
	for _, r := range g.routes() {
		if r.method != "GET" || !strings.Contains(r.path, "{") {
			continue
		}
		tried++
		for _, name := range []string{"%00", "a%00", "a%2fb", "..%2f..%2fa", "%2fetc%2fpasswd", "a%5cb", "%ff", strings.Repeat("a", 5000)} {
			path := filled(r.path, name)
			if got := g.send("GET", "api/v1/"+path+"?path=x", token, nil); got.status != http.StatusNotFound {
				t.Errorf("%.100s: %d %.300s", path, got.status, got.body)
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d routes were tried", tried)
	}
}

// The first answer counts, whoever gives it. A later answer gets a conflict, even if it is
// equal. An answer is for the version of the question that was read: WC14, WC-A18, WC-A19.
func TestAnswers(t *testing.T) {
	g := start(t)
	token := g.login(Approver)
	a := g.ask("rm x")
	var box inbox
	g.send("GET", "api/v1/inbox", token, nil).into(t, &box)
	if len(box.Approvals) != 1 || box.Approvals[0].ID != a.ID || box.Approvals[0].Version == "" || box.Approvals[0].Command != "belljar approve yes "+a.ID {
		t.Fatalf("inbox: %+v", box)
	}
	path, version := "api/v1/approvals/"+a.ID+"/", box.Approvals[0].Version
	if got := g.send("POST", path+"answer", token, map[string]any{"yes": true, "version": g.ask("rm y").Version()}); got.status != http.StatusConflict {
		t.Errorf("an answer to another question: got %d %s", got.status, got.body)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := make(map[int]int)
	for range 8 {
		wg.Go(func() {
			got := g.send("POST", path+"answer", token, map[string]any{"yes": true, "version": version, "note": "fine"})
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
		})
	}
	wg.Wait()
	if statuses[200] != 1 || statuses[409] != 7 {
		t.Errorf("eight equal answers: %v, want one that counts", statuses)
	}
	var now waiting
	g.send("GET", "api/v1/approvals/"+a.ID, token, nil).into(t, &now)
	if now.State != approval.Approved || now.By != "ann (uid 7)" || now.Via != Via || now.Note != "fine" {
		t.Errorf("got %+v", now)
	}
	g.send("POST", path+"revoke", token, struct{}{}).into(t, &now)
	if now.State != approval.Revoked {
		t.Errorf("revoked: got %s", now.State)
	}
	if got := g.send("GET", "api/v1/approvals/ap-nosuch", token, nil); got.status != http.StatusNotFound {
		t.Errorf("an approval that does not exist: got %d %s", got.status, got.body)
	}
	sheet, err := question.Parse(`{"questions":[{"text":"Which?","options":["A","B"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	q, err := g.questions.Ask(t.Context(), store.Owner{Tenant: "a", Session: "s-1"}, sheet)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string][]string{sheet.Questions[0].ID: {"A"}}
	for i, want := range []int{409, 200, 409} {
		said := map[string]any{"words": words, "version": q.Version()}
		if i == 0 {
			said["version"] = "other"
		}
		if got := g.send("POST", "api/v1/questions/"+q.ID+"/answer", token, said); got.status != want {
			t.Errorf("answer %d: got %d %s, want %d", i, got.status, got.body, want)
		}
	}
}

// At an address where a console is not allowed, nothing is opened: WC1, WC-A30.
func TestAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		"0.0.0.0:0":             "it needs TLS (--console-cert and --console-key); and the name by which browsers know it",
		":0":                    "people in the policy",
		"192.0.2.1:0":           "it needs TLS",
		"8931":                  "want HOST:PORT",
		"evil.example:0":        "want an address of this machine",
		taken.Addr().String():   "the port is in use by process ",
		"127.0.0.1:not-a-port1": "listen on",
	} {
		c, err := Open(t.Context(), Config{Addr: addr, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
}

// asksOnly are the POST routes that change nothing.
var asksOnly = []string{"policy/explain", "policy/replay", "logout"}

func itoa(n int64) string { return fmt.Sprint(n) }

func reply(yes bool) approval.Reply { return approval.Reply{Yes: yes, By: "ann", Via: Via} }
