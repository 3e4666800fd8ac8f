package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// office is a gate with real policies. The token of a tenant is "token-" and the tenant's
// name, then "/" and the name of a principal, if any, then "@" and the scopes of the token,
// if any.
type office struct {
	now     atomic.Pointer[policies.Policy]
	revoked sync.Map // tokens that are revoked
}

func (o *office) Decide(f policies.Facts) policies.Decision { return o.now.Load().Decide(f) }
func (o *office) Hidden(f policies.Facts) bool              { return o.now.Load().HiddenFrom(f) }

func (o *office) Named() bool { return len(o.now.Load().Tenants()) > 0 }

func (o *office) Authenticate(_ context.Context, token string) (mcp.Identity, error) {
	name, ok := strings.CutPrefix(token, "token-")
	name, scopes, narrow := strings.Cut(name, "@")
	name, principal, _ := strings.Cut(name, "/")
	principal, _, _ = strings.Cut(principal, "#") // the number only tells the tokens of one principal apart
	if _, known := o.now.Load().Tenant(name); !ok || !known {
		return mcp.Identity{}, errors.New("nobody's")
	}
	if !o.Holds(mcp.Identity{Tenant: name, Credential: token}) {
		return mcp.Identity{}, errors.New("revoked")
	}
	id := mcp.Identity{Tenant: name, Principal: principal, Credential: token}
	if narrow {
		id.Scopes = strings.Fields(scopes)
	}
	return id, nil
}

func (o *office) Holds(id mcp.Identity) bool {
	_, known := o.now.Load().Tenant(id.Tenant)
	_, revoked := o.revoked.Load(id.Credential)
	return known && !revoked
}

func (o *office) Missing(id mcp.Identity, tool, profile string) []string {
	return o.now.Load().Login().MissingScopes(id.Tenant, id.Scopes, tool, profile)
}

func (o *office) Challenge(_ context.Context, err error) string {
	if scopes, ok := errors.AsType[*mcp.ScopeError](err); ok {
		return `Bearer realm="belljar", error="insufficient_scope", scope="` + strings.Join(scopes.Scopes, " ") + `"`
	}
	if errors.Is(err, mcp.ErrNoToken) {
		return `Bearer realm="belljar"`
	}
	return `Bearer realm="belljar", error="invalid_token"`
}

func (o *office) Limits(tenant string) (mcp.TenantLimits, bool) {
	t, ok := o.now.Load().Tenant(tenant)
	return mcp.TenantLimits{Rate: t.Rate, Burst: t.Burst, InFlight: t.InFlight}, ok
}

func (o *office) set(t testing.TB, text string) {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: allow}\nprofiles: {p: {}}\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	o.now.Store(p)
}

func newOffice(t testing.TB, text string) (*office, func(*mcp.Config)) {
	o := &office{}
	o.set(t, text)
	return o, func(c *mcp.Config) { c.Gate, c.Auth = o, o }
}

const twoTenants = "tenants: {a: {}, b: {limit: {calls: 1/h, burst: 5}}}\n"

// W23: Several clients share a server, and each sees only its own data.
func TestTenantsOverHTTP(t *testing.T) {
	o, with := newOffice(t, twoTenants)
	s := newSite(t, with)
	greeting := fmt.Sprintf(hello, revLegacy)
	for _, tt := range []struct {
		name    string
		headers []string
		want    string
	}{
		{"none", nil, `Bearer realm="belljar"`},
		{"unknown", []string{"Authorization", "Bearer token-c"}, `Bearer realm="belljar", error="invalid_token"`},
		{"empty", []string{"Authorization", "Bearer "}, `Bearer realm="belljar", error="invalid_token"`},
		{"scheme", []string{"Authorization", "Basic token-a"}, `Bearer realm="belljar", error="invalid_token"`},
		{"bare", []string{"Authorization", "token-a"}, `Bearer realm="belljar", error="invalid_token"`},
		{"two tokens in one", []string{"Authorization", "Bearer token-a, Bearer token-b"}, `Bearer realm="belljar", error="invalid_token"`},
		{"behind another scheme", []string{"Authorization", "Basic x, Bearer token-a"}, `Bearer realm="belljar", error="invalid_token"`},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			r := s.do(method, greeting, tt.headers...)
			if got := r.header.Get("WWW-Authenticate"); r.status != 401 || got != tt.want || strings.Contains(r.raw, "token-") {
				t.Errorf("%s %s: %d %q %s; want 401 %q", tt.name, method, r.status, got, r.raw, tt.want)
			}
		}
	}
	for _, second := range []string{"Bearer token-b", "Bearer token-a"} {
		twice := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(greeting))
		twice.Header["Authorization"] = []string{"Bearer token-a", second}
		twice.Header.Set("Content-Type", "application/json")
		twice.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, twice); w.Code != http.StatusUnauthorized {
			t.Errorf("two headers: %d %s", w.Code, w.Body)
		}
	}
	// The scheme may be in any case and may have any number of spaces after it (RFC 9110,
	// 11.1; RFC 6750, 2.1).
	for _, value := range []string{"Bearer token-a", "BEARER token-a", "bearer  token-a"} {
		if r := s.do("POST", greeting, "Authorization", value); r.status != 200 {
			t.Errorf("%q: %d %s", value, r.status, r.raw)
		}
	}
	open := func(tenant string) []string {
		auth := []string{"Authorization", "bearer token-" + tenant}
		r := s.do("POST", greeting, auth...)
		if r.status != 200 {
			t.Fatalf("initialize of %s: %d %s", tenant, r.status, r.raw)
		}
		return append(auth, "Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy)
	}
	a, b := open("a"), open("b")
	if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), a...); r.last().text() != "hi" {
		t.Errorf("a call of a: %d %s", r.status, r.raw)
	}
	// For another tenant the session does not exist.
	stolen := append([]string{"Authorization", "Bearer token-b"}, a[2:]...)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if r := s.do(method, call("2", "echo", `{"text":"hi"}`), stolen...); r.status != 404 {
			t.Errorf("%s in a's session by b: %d %s", method, r.status, r.raw)
		}
	}
	// b may send five requests, and begins two sessions with the first two. All its
	// sessions share this limit.
	other := open("b")
	for i := range 3 {
		if r := s.do("POST", call("3", "echo", `{"text":"hi"}`), b...); r.last().text() != "hi" {
			t.Errorf("call %d of b: %d %s", i, r.status, r.raw)
		}
	}
	if r := s.do("POST", call("4", "echo", `{"text":"hi"}`), other...); r.status != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("a sixth request of b: %d %s", r.status, r.raw)
	}
	// The policy raises b's limit.
	o.set(t, strings.Replace(twoTenants, "1/h", "1000/s", 1))
	s.Reloaded()
	r := s.do("POST", call("5", "echo", `{"text":"hi"}`), other...)
	// the first token of the new rate comes after a millisecond
	for r.status == 429 && strings.Contains(r.raw, "1000 per second") {
		r = s.do("POST", call("5", "echo", `{"text":"hi"}`), other...)
	}
	if r.last().text() != "hi" {
		t.Errorf("with another limit: %d %s", r.status, r.raw)
	}
	// Modern requests of a tenant share a session.
	modernly := append(modernHeaders("tools/call", "echo"), a[:2]...)
	if r := s.do("POST", modern("6", "tools/call", `"name":"echo","arguments":{"text":"hi"},`), modernly...); !strings.Contains(r.raw, `"text":"hi"`) {
		t.Errorf("a modern call: %d %s", r.status, r.raw)
	}
	// A tenant that was removed is refused, also in the session that it had.
	o.set(t, "tenants: {b: {}}\n")
	s.Reloaded()
	if r := s.do("POST", call("7", "echo", `{"text":"hi"}`), a...); r.status != 401 {
		t.Errorf("a tenant that is gone: %d %s", r.status, r.raw)
	}
}

// For another principal of the same tenant the session does not exist either. The same
// principal keeps it with each new token.
func TestPrincipalsOverHTTP(t *testing.T) {
	_, with := newOffice(t, twoTenants)
	s := newSite(t, with)
	login := func(token string) []string { return []string{"Authorization", "Bearer token-" + token} }
	r := s.do("POST", fmt.Sprintf(hello, revLegacy), login("a/ann#0")...)
	if r.status != 200 {
		t.Fatalf("initialize: %d %s", r.status, r.raw)
	}
	session := []string{"Mcp-Session-Id", r.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", revLegacy}
	for i := range 100 {
		token := append(login(fmt.Sprintf("a/ann#%d", i)), session...)
		if r := s.do("POST", call("1", "echo", `{"text":"hi"}`), token...); r.last().text() != "hi" {
			t.Fatalf("a call with token %d of ann: %d %s", i, r.status, r.raw)
		}
	}
	for _, other := range []string{"a/bob", "a", "b/ann"} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if r := s.do(method, call("2", "echo", `{"text":"hi"}`), append(login(other), session...)...); r.status != 404 {
				t.Errorf("%s in the session of a/ann by %s: %d %s", method, other, r.status, r.raw)
			}
		}
	}
	if r := s.do("POST", call("3", "echo", `{"text":"hi"}`), append(login("a/ann#9"), session...)...); r.last().text() != "hi" {
		t.Errorf("afterwards: %d %s", r.status, r.raw)
	}
}

// Modern requests share a session only with requests of the same principal. The number of
// such sessions of a tenant is bounded.
func TestModernPrincipals(t *testing.T) {
	_, with := newOffice(t, twoTenants)
	s := newSite(t, with, func(c *mcp.Config) { c.Limits.TenantSessions = 2 })
	say := func(token string) {
		t.Helper()
		headers := append(modernHeaders("tools/call", "echo"), "Authorization", "Bearer token-"+token)
		if r := s.do("POST", modern("1", "tools/call", `"name":"echo","arguments":{"text":"hi"},`), headers...); !strings.Contains(r.raw, `"text":"hi"`) {
			t.Fatalf("a call of %s: %d %s", token, r.status, r.raw)
		}
	}
	whose := func() (all []string) {
		for _, info := range s.Sessions() {
			all = append(all, info.Tenant+"/"+info.Principal)
		}
		slices.Sort(all)
		return all
	}
	say("a/ann")
	say("a/bob")
	say("a/ann#2")
	say("b/cat")
	if got, want := whose(), []string{"a/ann", "a/bob", "b/cat"}; !slices.Equal(got, want) {
		t.Errorf("sessions of %v, want %v", got, want)
	}
	say("a/dan") // replaces the session of bob, which was idle longer than that of ann
	if got, want := whose(), []string{"a/ann", "a/dan", "b/cat"}; !slices.Equal(got, want) {
		t.Errorf("then sessions of %v, want %v", got, want)
	}
}

// oneSession is an office whose tenants may have one session each.
type oneSession struct{ *office }

func (o oneSession) Limits(tenant string) (mcp.TenantLimits, bool) {
	l, ok := o.office.Limits(tenant)
	l.Sessions = 1
	return l, ok
}

// A principal for whom there is no room gets the quota of its own tenant in the error.
func TestModernPrincipalsHaveTheQuota(t *testing.T) {
	o, _ := newOffice(t, twoTenants)
	s := newSite(t, func(c *mcp.Config) { c.Gate, c.Auth = o, oneSession{o} })
	of := func(tool, token string) []string {
		return append(modernHeaders("tools/call", tool), "Authorization", "Bearer token-"+token)
	}
	answered := make(chan reply)
	go func() {
		answered <- s.do("POST", modern("1", "tools/call", `"name":"hang","arguments":{},`), of("hang", "a/ann")...)
	}()
	<-s.running
	r := s.do("POST", modern("2", "tools/call", `"name":"echo","arguments":{"text":"hi"},`), of("echo", "a/bob")...)
	if want := "all 1 sessions of tenant a (quota sessions) are in use"; r.status != 503 || !strings.Contains(r.raw, want) {
		t.Errorf("got %d %s, want %q", r.status, r.raw, want)
	}
	close(s.free)
	<-answered
}

// A login that cannot be checked is not a failed login: the client must not throw its token
// away.
func TestLoginUnavailable(t *testing.T) {
	o, _ := newOffice(t, twoTenants)
	s := newSite(t, func(c *mcp.Config) { c.Gate, c.Auth = o, unavailable{o} })
	r := s.do("POST", fmt.Sprintf(hello, revLegacy), "Authorization", "Bearer token-a")
	if r.status != 503 || r.header.Get("Retry-After") == "" || r.header.Get("WWW-Authenticate") != "" {
		t.Errorf("got %d %v %s", r.status, r.header, r.raw)
	}
}

type unavailable struct{ *office }

func (unavailable) Authenticate(context.Context, string) (mcp.Identity, error) {
	return mcp.Identity{}, fmt.Errorf("%w: no keys", mcp.ErrUnavailable)
}

func TestHiddenTools(t *testing.T) {
	const denies = `tenants: {a: {}, b: {}}
rules:
  - {id: no-echo, match: {tool: [echo, fail]}, decision: deny, reason: We are silent., instead: hang}
  - {id: no-big, match: {tool: big, profile: p}, decision: deny}
`
	o, with := newOffice(t, denies)
	ty := newToy(t, with, func(c *mcp.Config) { c.Tenant = "a" })
	c := ty.connect(t)
	c.greet(revLegacy)
	listed := func(a answer) (names string) {
		for _, name := range []string{"echo", "fail", "big", "hang"} {
			if strings.Contains(a.raw, `"name":"`+name+`"`) {
				names += name + " "
			}
		}
		return names
	}
	c.send(req("1", "tools/list"))
	if got := listed(c.next()); got != "big hang " {
		t.Errorf("the legacy list has %s", got)
	}
	m := ty.connect(t)
	m.send(modern("1", "tools/list", ``))
	if got := listed(m.next()); got != "big hang " {
		t.Errorf("the modern list has %s", got)
	}
	// A call of the hidden tool is denied like any other denied call, whatever its
	// arguments.
	for _, args := range []string{`{"text":"hi"}`, `{}`, `{"nosuch":1}`} {
		c.send(call("2", "echo", args))
		if a := c.next(); !strings.HasPrefix(a.text(), "DENIED by policy rule no-echo (policy.yaml:6). Nothing was run.") {
			t.Errorf("a call of a hidden tool with %s: %s", args, a.raw)
		}
	}
	c.send(call("3", "ecko", `{}`))
	if a := c.next(); a.Error == nil || strings.Contains(a.raw, "echo") || !strings.Contains(a.raw, "hang") {
		t.Errorf("an unknown tool: %s", a.raw)
	}
	// If a policy hides other tools, clients are notified to list them again: the legacy
	// client without a request, and the modern client that listens.
	m.send(modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
	if a := m.next(); a.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("listen: %s", a.raw)
	}
	o.set(t, denies+"tests: []\n")
	ty.Reloaded() // hides the same tools
	o.set(t, strings.Replace(denies, "[echo, fail]", "fail", 1))
	ty.Reloaded()
	if a := c.next(); a.Method != "notifications/tools/list_changed" {
		t.Errorf("the legacy client is told %s", a.raw)
	}
	if a := m.next(); a.Method != "notifications/tools/list_changed" || !strings.Contains(a.raw, `"io.modelcontextprotocol/subscriptionId":"l"`) {
		t.Errorf("the modern client is told %s", a.raw)
	}
	c.send(req("4", "tools/list"))
	if a := c.next(); listed(a) != "echo big hang " { // no second notification came before it
		t.Errorf("the list has %s", a.raw)
	}
}

// A session's own layer holds for that session alone.
func TestSessionNarrows(t *testing.T) {
	_, with := newOffice(t, "")
	ty := newToy(t, with)
	one, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	says := func(s *mcp.Session, args string) string {
		r, err := ty.Call(t.Context(), s, "echo", []byte(args))
		if err != nil {
			t.Fatal(err)
		}
		return r.Content[0].Text
	}
	l, err := policies.ParseLayer(policies.LayerSession, "plan", []byte("version: 1\nrules:\n  - {id: plan-only, match: {tool: echo}, decision: deny, reason: You are planning.}\n"), policies.Default())
	if err != nil {
		t.Fatal(err)
	}
	one.Narrow(l)
	if got := says(one, `{"text":"hi"}`); !strings.HasPrefix(got, "DENIED by policy rule plan-only (plan:3).") {
		t.Errorf("the session that plans: %s", got)
	}
	if got := says(two, `{"text":"hi"}`); got != "hi" {
		t.Errorf("the other session: %s", got)
	}
	one.Narrow(nil)
	if got := says(one, `{"text":"hi"}`); got != "hi" {
		t.Errorf("afterwards: %s", got)
	}
}

// A rule's limit holds for all sessions of a tenant, and says when to retry.
func TestRuleLimits(t *testing.T) {
	_, with := newOffice(t, "rules:\n  - {id: few, match: {tool: echo}, decision: allow, limit: {calls: 2/h}}\n  - {id: one, match: {tool: hang}, decision: allow, limit: {concurrent: 1}}\n")
	audit := &witness{}
	ty := newToy(t, with, structured, func(c *mcp.Config) { c.Audit = audit })
	c := ty.connect(t)
	c.greet(revLegacy)
	c.send(call("1", "echo", `{"text":"hi"}`), call("2", "echo", `{"text":"hi"}`))
	c.next()
	c.next()
	other := ty.connect(t)
	other.greet(revLegacy)
	other.send(call("3", "echo", `{"text":"hi"}`))
	if a := other.next(); !strings.HasPrefix(a.text(), "DENIED by policy rule few (policy.yaml:5). Nothing was run.") || !strings.Contains(a.text(), "Retry in 30 min") || !strings.Contains(a.raw, `"isError":true`) || !strings.Contains(a.raw, `"retry":"after:1800s"`) {
		t.Errorf("a third call: %s", a.raw)
	}
	if got := audit.verdicts(); !strings.HasSuffix(got, "allow deny") {
		t.Errorf("written down: %s", got)
	}
	c.send(call("4", "hang", `{}`))
	<-ty.running
	c.send(call("5", "hang", `{}`))
	if a := c.next(); !strings.Contains(a.text(), "The rule lets 1 of your calls run at the same time") {
		t.Errorf("a second at once: %s", a.raw)
	}
	close(ty.free)
	c.next()
	c.send(call("6", "hang", `{}`))
	if a := c.next(); a.text() != "free" {
		t.Errorf("after the first has ended: %s", a.raw)
	}
}

// witness keeps the verdicts that it gets.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) Decided(_ context.Context, d mcp.Decided) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, d.Decision.Verdict.String())
	return nil
}

func (w *witness) Finished(mcp.Finished) {}

func (w *witness) verdicts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, " ")
}
