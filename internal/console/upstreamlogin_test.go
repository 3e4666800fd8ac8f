package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/store"
	"belljar.dev/mcp/upstream/login"
)

// remoteServer is a server that requires a login, together with its own authorization
// server.
type remoteServer struct {
	*httptest.Server

	mu        sync.Mutex
	challenge string   // guarded by mu: PKCE challenge of the code that was issued
	redirects []string // guarded by mu: URLs to which browsers were redirected
	tokens    []string // guarded by mu: Authorization headers of requests
}

func newRemoteServer(t testing.TB) *remoteServer {
	s := &remoteServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *remoteServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, what map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		answer(http.StatusOK, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}})
	case "/.well-known/oauth-authorization-server":
		answer(http.StatusOK, map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": s.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/register":
		answer(http.StatusCreated, map[string]any{"client_id": "a-client", "token_endpoint_auth_method": "none"})
	case "/authorize":
		q := r.URL.Query()
		s.challenge = q.Get("code_challenge")
		s.redirects = append(s.redirects, q.Get("redirect_uri"))
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"a-code"}, "state": {q.Get("state")}, "iss": {s.URL}}.Encode(), http.StatusFound)
	case "/token":
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if r.FormValue("code") != "a-code" || base64.RawURLEncoding.EncodeToString(sum[:]) != s.challenge {
			answer(http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		answer(http.StatusOK, map[string]any{"access_token": "a-token", "token_type": "Bearer", "expires_in": 3600})
	case "/mcp":
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
	default:
		http.NotFound(w, r)
	}
}

// wanting is an upstream that requires a login.
type wanting struct {
	others
	far  *remoteServer
	name string
	book *login.Book

	mu     sync.Mutex
	closed int            // guarded by mu: number of begun logins that are closed
	shown  *UpstreamLogin // guarded by mu: login to return in place of a real one; nil for a real login
}

// withRemote gives a rig an upstream that requires a login.
func withRemote(t testing.TB, name string) (*wanting, func(*rig, *Views)) {
	kept := store.New("")
	t.Cleanup(func() { kept.Close() })
	w := &wanting{far: newRemoteServer(t), name: name, book: login.NewBook("", store.Config{Store: kept})}
	return w, func(_ *rig, v *Views) { v.Upstreams = w }
}

// client returns the HTTP client for the requests of logins.
func (w *wanting) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func (w *wanting) server(tenant string) login.Server {
	return login.Server{Tenant: tenant, Name: w.name, URL: w.far.URL + "/mcp"}
}

func (w *wanting) All() []control.Upstreams {
	return []control.Upstreams{{Place: "/w", All: []control.Upstream{{
		Name: w.name, Tenant: ours, State: "failed", Reason: "the server wants a login: run `belljar upstream login`", NeedsLogin: true, File: "/w/.mcp.json", Line: 7, Trusted: true,
	}}}}
}

func (w *wanting) Login(ctx context.Context, at LoginTarget, _, redirect string) (*UpstreamLogin, error) {
	w.mu.Lock()
	shown := w.shown
	w.mu.Unlock()
	if shown != nil {
		return shown, nil
	}
	if at.Name != w.name || at.Place != "/w" {
		return nil, errors.New("no such server")
	}
	fl, err := login.StartFlow(ctx, login.Config{Client: w.client(), Book: w.book, Server: w.server(at.Tenant), Redirect: redirect})
	if err != nil {
		return nil, err
	}
	return &UpstreamLogin{URL: fl.URL(), Server: fl.Resource(), Issuer: fl.Issuer(), Answers: fl.Answers, Receive: fl.Receive, Close: func(ctx context.Context) {
		fl.Close(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed++
	}}, nil
}

// token returns the Authorization header that the server receives with a request of a
// tenant.
func (w *wanting) token(t testing.TB, tenant string) string {
	t.Helper()
	source, err := login.NewSource(login.SourceConfig{Client: w.client(), Book: w.book, Server: w.server(tenant)})
	if err != nil {
		t.Fatal(err)
	}
	is, err := source.Token(t.Context())
	if errors.Is(err, login.ErrNone) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	h := make(http.Header)
	is.SetHeader(h)
	return h.Get("Authorization")
}

// begins starts a login, and returns the answer of the authorization server.
func (g *rig) begins(token, name, tenant string) (answer string) {
	g.t.Helper()
	var is struct{ URL, Server, Issuer string }
	g.send("POST", "api/v1/upstreams/"+url.PathEscape(name)+"/login", token, map[string]string{"tenant": tenant, "place": "/w"}).into(g.t, &is)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, is.URL, http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil || !strings.HasPrefix(to.String(), g.URL()+upstreamLoginPath+"?") || !strings.HasSuffix(is.Server, "/mcp") || is.Issuer == "" {
		g.t.Fatalf("the browser is sent to %v, %v; %+v", to, err, is)
	}
	return to.RawQuery
}

// A login at an upstream is ended once, only by the person who began it, and only with the
// answer to it. It is for a tenant that the person may see.
func TestUpstreamLogin(t *testing.T) {
	w, with := withRemote(t, "far")
	g := start(t, with)
	token, other := g.login(Operator), g.login(Operator)
	finish := func(token, answer string, want int) {
		t.Helper()
		if got := g.send("POST", "api/v1/upstreams/login", token, map[string]string{"answer": answer}); got.status != want {
			t.Errorf("%.60s: got %d %s, want %d", answer, got.status, got.body, want)
		}
	}
	finish(token, "code=a-code&state=x", 409)
	answer := g.begins(token, "far", ours)
	finish(other, answer, 409)
	finish(token, answer+"&x="+strings.Repeat("x", maxLoginAnswer), 400)
	finish(token, "%zz", 400)
	if got := w.token(t, ours); got != "" {
		t.Errorf("before the end of the login: %q", got)
	}
	finish(token, answer, 200)
	if got := w.token(t, ours); got != "Bearer a-token" || w.token(t, "another") != "" {
		t.Errorf("after the login: %q", got)
	}
	finish(token, answer, 409)
	if err := w.book.Forget(t.Context(), w.server(ours)); err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"state=", "state=x"}, {"code=", "code=x"}, {"iss=", "iss=x"}, {"state=", "state=a&state="}, {"code=", "code=a&code="}} {
		answer, want := g.begins(token, "far", ours), 502
		if change[0] == "state=" {
			want = 409
		}
		finish(token, strings.Replace(answer, change[0], change[1], 1), want)
		if got := w.token(t, ours); got != "" {
			t.Errorf("an answer with %s: %q", change[1], got)
		}
	}
	before := g.begins(token, "far", ours)
	answer = g.begins(token, "far", ours)
	for _, guess := range []string{before, "x", "state=x&error=access_denied", ""} {
		finish(token, guess, 409) // any web page can make the console's page send this, so the login stays
	}
	finish(token, answer, 200)
	if err := w.book.Forget(t.Context(), w.server(ours)); err != nil {
		t.Fatal(err)
	}
	if got := g.send("POST", "api/v1/upstreams/nosuch/login", token, map[string]string{"place": "/w"}); got.status != 502 {
		t.Errorf("a server that does not exist: %d %s", got.status, got.body)
	}
	_, code, _ := strings.Cut(first(g.Link("bob", Operator, "another")), "#")
	var in loggedIn
	g.send("POST", "api/v1/login", "", map[string]string{"code": code}).into(t, &in)
	if got := g.send("POST", "api/v1/upstreams/far/login", in.Token, map[string]string{"tenant": ours, "place": "/w"}); got.status != 404 {
		t.Errorf("for a tenant of somebody else: %d %s", got.status, got.body)
	}
	finish(in.Token, g.begins(in.Token, "far", "another"), 200)
	own := NewToken() // this person's tenants are changed in the policy during a login
	may := func(tenant string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.people = []Known{{Name: "kim", Role: Operator, Scope: ScopeOf([]string{tenant}), Sum: sha256.Sum256([]byte(own))}}
	}
	may(ours)
	g.send("POST", "api/v1/login", "", map[string]string{"code": own}).into(t, &in)
	answer = g.begins(in.Token, "far", ours)
	may("another")
	finish(in.Token, answer, 403)
	g.send("POST", "api/v1/login", "", map[string]string{"code": own}).into(t, &in)
	g.begins(in.Token, "far", "another")
	g.send("POST", "api/v1/logout", in.Token, struct{}{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := len(w.far.redirects) - w.closed; left != 0 {
		t.Errorf("%d logins are not closed", left)
	}
}

// A login at an upstream ends with the token of its person, also if that token is removed
// to make room for a new one. The logins of other tokens continue.
func TestUpstreamLoginEndsWithItsToken(t *testing.T) {
	w, with := withRemote(t, "far")
	g := start(t, with)
	oldest, other := g.login(Operator), g.login(Operator)
	g.begins(oldest, "far", ours)
	answer := g.begins(other, "far", ours)
	for range maxTokens - 1 {
		g.login(Viewer)
	}
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed != 1 {
		t.Errorf("%d logins are closed, want that of the token that made room", closed)
	}
	if got := g.send("POST", "api/v1/upstreams/login", other, map[string]string{"answer": answer}); got.status != 200 {
		t.Errorf("the login of another token: %d %s", got.status, got.body)
	}
}

// While a person logs in at an upstream, a page of another origin may lead a browser to the
// path that ends the login.
func TestLandingOfUpstreamLogins(t *testing.T) {
	_, with := withRemote(t, "far")
	g := start(t, with)
	led := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	try := func(path string, want int) {
		t.Helper()
		if got := g.send("GET", path, "", nil, led...); got.status != want {
			t.Errorf("/%s: got %d, want %d", path, got.status, want)
		}
	}
	try(upstreamLoginPath, 403)
	token := g.login(Operator)
	answer := g.begins(token, "far", ours)
	try(upstreamLoginPath+"?"+answer, 200)
	try("", 403)
	try("login", 403)
	g.send("POST", "api/v1/upstreams/login", token, map[string]string{"answer": answer})
	try(upstreamLoginPath, 403)
}

// A login that is not ended is closed after ten minutes, and when the token of its person
// ends. A new login closes the earlier one of the same token. When the console ends, all
// logins are closed, and close waits for those that are being closed. No login begins
// afterwards.
func TestUpstreamLoginsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all upstreamLogins
		var mu sync.Mutex
		var closed []string
		add := func(who Person, name string, takes time.Duration) error {
			return all.add(t.Context(), who, &pendingUpstreamLogin{UpstreamLogin: &UpstreamLogin{Close: func(context.Context) {
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				closed = append(closed, name)
			}}})
		}
		is := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(closed) // two of them end at the same time, in any order
			if !slices.Equal(closed, want) {
				t.Errorf("%s: closed are %q, want %q", when, closed, want)
			}
		}
		of := func(sum byte, valid time.Duration) Person {
			return Person{sum: sha256sum{sum}, Until: time.Now().Add(valid)}
		}
		if err := errors.Join(add(of(1, tokenLife), "a", 0), add(of(2, tokenLife), "b", 0), add(of(1, tokenLife), "c", 0), add(of(3, time.Minute), "short", 0)); err != nil {
			t.Fatal(err)
		}
		is("a second one of a person", "a")
		time.Sleep(time.Minute)
		is("after the token", "a", "short")
		time.Sleep(upstreamLoginLife)
		is("after ten minutes", "a", "b", "c", "short")
		if _, err := all.take(sha256sum{1}, nil); all.pending() || !errors.Is(err, errNoUpstreamLogin) {
			t.Errorf("a login is there after its time: %v", err)
		}
		if err := errors.Join(add(of(1, time.Minute), "slow", time.Second), add(of(2, tokenLife), "d", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait() // a timer is closing the slow login now
		all.close(t.Context())
		is("at the end", "a", "b", "c", "d", "short", "slow")
		if add(of(1, tokenLife), "e", 0) == nil {
			t.Error("a login begins after the end")
		}
		is("afterwards", "a", "b", "c", "d", "e", "short", "slow")
	})
}
