package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/store"
)

// network is a transport with a handler for each host. Only its own client reaches the
// handlers.
type network map[string]http.Handler // handlers by scheme and host

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	h := n[r.URL.Scheme+"://"+r.URL.Host]
	if h == nil {
		return nil, fmt.Errorf("the test has no host %s", r.URL.Host)
	}
	body := io.Reader(http.NoBody)
	if r.Body != nil {
		body = r.Body
	}
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), body)
	in.Header = r.Header.Clone()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, in)
	return rec.Result(), nil
}

func (n network) client() *http.Client { return &http.Client{Transport: n} }

const (
	serverURL = "https://mcp.example/team/mcp"
	issuerURL = "https://login.example"
)

// object is a JSON object.
type object = map[string]any

// world contains a server, its authorization server, and a person with a browser. Tests
// change it before they use it.
type world struct {
	network
	server    *stubServer
	issuer    *stubIssuer
	challenge string // challenge of the server
	resource  object // metadata of the server
	metadata  object // metadata of the authorization server
	documents map[string]http.HandlerFunc
}

func newWorld() *world {
	w := &world{
		challenge: `Bearer realm="x", resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/team/mcp", scope="files:read"`,
		resource:  object{"resource": serverURL, "authorization_servers": []string{issuerURL}, "scopes_supported": []string{"all"}},
		metadata: object{
			"issuer": issuerURL, "authorization_endpoint": issuerURL + "/authorize", "token_endpoint": issuerURL + "/token",
			"registration_endpoint": issuerURL + "/register", "response_types_supported": []string{"code"},
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		},
	}
	w.issuer = &stubIssuer{
		iss: []string{issuerURL}, codes: map[string]url.Values{}, refresh: map[string]int{}, families: map[int]bool{}, access: map[string]int{},
		clients: map[string]string{}, life: 3600,
	}
	w.server = &stubServer{world: w}
	w.documents = map[string]http.HandlerFunc{
		"https://mcp.example/.well-known/oauth-protected-resource/team/mcp": w.serve(&w.resource),
		"https://login.example/.well-known/oauth-authorization-server":      w.serve(&w.metadata),
	}
	w.network = network{"https://mcp.example": w.server, "https://login.example": http.HandlerFunc(w.login)}
	return w
}

// serve returns a handler that answers with the document as it is at that time.
func (w *world) serve(what *object) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { reply(rw, http.StatusOK, *what) }
}

func reply(rw http.ResponseWriter, status int, what object) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(what)
}

// document serves one of the documents of a host. It returns false if the host has no such
// document.
func (w *world) document(rw http.ResponseWriter, r *http.Request) bool {
	h := w.documents[r.URL.Scheme+"://"+r.URL.Host+r.URL.Path]
	if h != nil {
		h(rw, r)
	}
	return h != nil
}

func (w *world) login(rw http.ResponseWriter, r *http.Request) {
	switch {
	case w.document(rw, r):
	case r.URL.Path == "/authorize":
		w.issuer.authorize(rw, r)
	case r.URL.Path == "/token":
		w.issuer.token(rw, r)
	case r.URL.Path == "/register":
		w.issuer.register(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

// stubServer is the MCP server. It accepts the tokens that the authorization server has
// issued.
type stubServer struct {
	world *world
	open  bool // the server needs no login
	never bool // the server refuses all tokens

	mu   sync.Mutex
	seen []string // Authorization headers of the requests
	body []string
}

func (s *stubServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if s.world.document(rw, r) {
		return
	}
	if r.URL.Path != "/team/mcp" {
		http.NotFound(rw, r)
		return
	}
	text, _ := io.ReadAll(r.Body)
	token := r.Header.Get("Authorization")
	s.mu.Lock()
	s.seen, s.body = append(s.seen, token), append(s.body, string(text))
	s.mu.Unlock()
	if !s.open && (s.never || !s.world.issuer.good(strings.TrimPrefix(token, "Bearer "))) {
		if s.world.challenge != "" {
			rw.Header().Set("Www-Authenticate", s.world.challenge)
		}
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(rw, "hello")
}

func (s *stubServer) tokens() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// stubIssuer is an authorization server that follows the specifications: a code or a
// refresh token can be used once, by one client, and the reuse of a refresh token ends the
// login.
type stubIssuer struct {
	iss      []string // values of iss in answers
	extra    url.Values
	life     int // life of tokens in seconds; 0: not stated
	noRotate bool
	basic    bool
	hold     chan struct{} // if not nil, renewals wait for it
	holding  chan struct{} // gets a value when a renewal waits
	status   int           // status of responses of /token, unless 0

	mu       sync.Mutex
	n        int
	codes    map[string]url.Values // authorization requests by their codes
	refresh  map[string]int        // login of each refresh token; negative once the token was used
	access   map[string]int
	families map[int]bool // whether each login is still valid
	clients  map[string]string
	forms    []url.Values
	fresh    int // number of renewals
}

func (i *stubIssuer) good(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.families[i.access[token]]
}

// revoke makes the present access tokens invalid.
func (i *stubIssuer) revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
}

func (i *stubIssuer) renewals() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fresh
}

func (i *stubIssuer) last() url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.forms[len(i.forms)-1]
}

// code issues a code for an authorization request.
func (i *stubIssuer) code(q url.Values) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	code := fmt.Sprintf("CODE%d", i.n)
	i.codes[code] = q
	return code
}

func (i *stubIssuer) authorize(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := url.Values{"state": {q.Get("state")}, "code": {i.code(q)}, "iss": i.iss}
	maps.Copy(back, i.extra)
	http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (i *stubIssuer) register(rw http.ResponseWriter, r *http.Request) {
	var asked object
	err := json.NewDecoder(r.Body).Decode(&asked)
	kind := "native" // the redirect is on this machine (OpenID Connect Registration 1.0, 2)
	if strings.HasPrefix(fmt.Sprint(asked["redirect_uris"]), "[https://") {
		kind = "web"
	}
	if err != nil || asked["application_type"] != kind {
		reply(rw, http.StatusBadRequest, object{"error": "invalid_client_metadata"})
		return
	}
	i.mu.Lock()
	i.clients["dynamic"] = ""
	i.mu.Unlock()
	asked["client_id"] = "dynamic"
	reply(rw, http.StatusCreated, asked)
}

func (i *stubIssuer) token(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	f := r.PostForm
	if f.Get("grant_type") == "refresh_token" && i.hold != nil {
		i.holding <- struct{}{}
		<-i.hold
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forms = append(i.forms, f)
	if i.status != 0 {
		rw.WriteHeader(i.status)
		return
	}
	id, secret := f.Get("client_id"), f.Get("client_secret")
	if i.basic {
		id, secret, _ = r.BasicAuth()
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	if want, known := i.clients[id]; !known || want != secret {
		reply(rw, http.StatusUnauthorized, object{"error": "invalid_client"})
		return
	}
	family := 0
	switch f.Get("grant_type") {
	case "authorization_code":
		q, known := i.codes[f.Get("code")]
		delete(i.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !known || q.Get("client_id") != id || q.Get("redirect_uri") != f.Get("redirect_uri") || q.Get("resource") != f.Get("resource") ||
			q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			reply(rw, http.StatusBadRequest, object{"error": "invalid_grant", "error_description": "EVIL TEXT"})
			return
		}
		i.n++
		family = i.n
		i.families[family] = true
	case "refresh_token":
		old, known := i.refresh[f.Get("refresh_token")]
		if !known {
			reply(rw, http.StatusBadRequest, object{"error": "invalid_grant"})
			return
		}
		if old < 0 { // the refresh token was used before
			i.families[-old] = false
		}
		if old < 0 || !i.families[old] {
			reply(rw, http.StatusBadRequest, object{"error": "invalid_grant"})
			return
		}
		i.fresh++
		family = old
		if !i.noRotate {
			i.refresh[f.Get("refresh_token")] = -old
		}
	}
	i.n++
	access, refresh := fmt.Sprintf("ACCESS%d", i.n), fmt.Sprintf("REFRESH%d", i.n)
	out := object{"access_token": access, "token_type": "bearer"}
	i.access[access] = family
	if !i.noRotate || f.Get("grant_type") != "refresh_token" {
		out["refresh_token"] = refresh
		i.refresh[refresh] = family
	}
	if i.life > 0 {
		out["expires_in"] = i.life
	}
	reply(rw, http.StatusOK, out)
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// openBook returns the book of a directory, or a book in memory if dir is empty.
func openBook(t testing.TB, dir string, c *clock) *Book {
	t.Helper()
	kept := store.New(dir)
	t.Cleanup(func() {
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewBook(dir, store.Config{Store: kept, Now: c.Now})
}

var github = Server{Tenant: "a", Name: "github", URL: serverURL}

// config returns the configuration of a login in a world. Its person follows the
// authorization server's redirect.
func (w *world) config(t *testing.T, b *Book) Config {
	return Config{Client: w.client(), Book: b, Server: github, Open: func(to string) { w.person(t, to, nil) }}
}

// person logs in, and returns the status of the last page. change changes the answer as an
// attacker could; it may be nil.
func (w *world) person(t *testing.T, to string, change func(answer *url.URL)) int {
	t.Helper()
	answer := w.answer(t, to)
	if answer == nil {
		return 0
	}
	if change != nil {
		change(answer)
	}
	status, _ := visit(t, http.MethodGet, answer, "")
	return status
}

// answer returns the URL to which the authorization server redirects the browser of a
// person who has logged in; nil after an error of the test.
func (w *world) answer(t *testing.T, to string) *url.URL {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, to, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	resp, err := w.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	answer, err := resp.Location()
	if err != nil {
		t.Errorf("the authorization server answers with %v: %v", resp.Status, err)
		return nil
	}
	return answer
}

// visit makes a request to the listener.
func visit(t *testing.T, method string, to *url.URL, host string) (status int, shown string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, to.String(), nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, fmt.Sprint(resp.Header, string(text))
}

// loggedIn returns a world in which the person has logged in, and a Source of that login.
func loggedIn(t *testing.T, b *Book, change func(*world)) (*world, *Source) {
	t.Helper()
	w := newWorld()
	if change != nil {
		change(w)
	}
	if err := Login(t.Context(), w.config(t, b)); err != nil {
		t.Fatal(err)
	}
	return w, w.source(t, b)
}

func (w *world) source(t *testing.T, b *Book) *Source {
	t.Helper()
	s, err := NewSource(SourceConfig{Client: w.client(), Book: b, Server: github})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call makes a call to the server.
func call(ctx context.Context, s *Source) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, serverURL, strings.NewReader("CALL"))
	if err != nil {
		return "", err
	}
	resp, err := s.HTTPClient().Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(text)), err
}
