package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/auth/authtest"
)

// provided is the provider of a rig: a real OpenID Provider, and the people that a policy
// admits.
type provided struct {
	*auth.Provider

	far *authtest.Provider

	mu      sync.Mutex
	name    string          // guarded by mu: name of the person; empty for ann@example.com
	gone    bool            // guarded by mu: whether the policy has no provider any more
	role    map[string]Role // guarded by mu: role by group
	tenants []string        // guarded by mu: tenants whose things the person may see
}

func (p *provided) Host() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return ""
	}
	return strings.TrimPrefix(p.far.URL, "https://")
}

func (p *provided) Begin(ctx context.Context, back string) (PendingLogin, error) {
	v, err := p.Provider.Begin(ctx, back)
	if err != nil {
		return PendingLogin{}, err
	}
	kept, err := json.Marshal(v)
	return PendingLogin{v.URL, v.State, kept}, err
}

func (p *provided) Finish(ctx context.Context, kept []byte, code string) (map[string]any, error) {
	var v auth.PendingLogin
	if err := json.Unmarshal(kept, &v); err != nil {
		return nil, err
	}
	return p.Provider.Finish(ctx, v, code, authtest.Secret)
}

func (p *provided) Admits(claims map[string]any) (Known, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	groups, _ := claims["groups"].([]any)
	for _, group := range groups {
		name, _ := group.(string)
		if role, ok := p.role[name]; ok && !p.gone {
			return Known{Name: p.far.URL + "|ann-1 (" + cmp.Or(p.name, "ann@example.com") + ")", Role: role, Scope: ScopeOf(p.tenants)}, true
		}
	}
	return Known{}, false
}

// withProvider gives a rig a provider, which is a separate server.
func withProvider(t testing.TB) (*provided, func(*rig, *Views)) {
	far := authtest.New(t)
	p := &provided{far: far, role: map[string]Role{"ops": Operator}, tenants: []string{ours}, Provider: auth.NewProvider(auth.ProviderConfig{
		Issuer: far.URL, Client: authtest.Client, Scopes: []string{"openid"}, Algorithms: []string{"ES256"}, Roots: far.Roots(), Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})}
	t.Cleanup(p.Close)
	return p, func(_ *rig, v *Views) { v.Provider = p }
}

// begun is the answer to the beginning of a login.
type begun struct{ URL, Pending string }

// goes begins a login, and returns from the provider with the data that end the login.
func (g *rig) goes(p *provided) map[string]string {
	g.t.Helper()
	var b begun
	g.send("POST", "api/v1/login/begin", "", struct{}{}).into(g.t, &b)
	to, err := p.far.Visit(b.URL)
	if err != nil {
		g.t.Fatal(err)
	}
	if at := g.URL() + "login?"; !strings.HasPrefix(to.String(), at) {
		g.t.Fatalf("the browser is sent to %s, want %s", to, at)
	}
	return map[string]string{"pending": b.Pending, "state": to.Query().Get("state"), "code": to.Query().Get("code")}
}

// A person logs in at a provider. At each request the policy decides from the claims what
// the person is. A login is only for the tab in which it began.
func TestLoginAtAProvider(t *testing.T) {
	p, with := withProvider(t)
	g := start(t, full, with)
	var ways struct{ Provider string }
	if g.send("GET", "api/v1/login", "", nil).into(t, &ways); ways.Provider != p.Host() {
		t.Errorf("got %+v", ways)
	}
	login := func(said map[string]string) (int, loggedIn) {
		got := g.send("POST", "api/v1/login", "", said)
		var in loggedIn
		if got.status == http.StatusOK {
			got.into(t, &in)
		}
		return got.status, in
	}
	said := g.goes(p)
	status, in := login(said)
	if status != http.StatusOK || in.Person != p.far.URL+"|ann-1 (ann@example.com)" || in.Role != "operator" {
		t.Fatalf("got %d %+v", status, in)
	}
	if status, _ := login(said); status != http.StatusUnauthorized {
		t.Errorf("a login that has ended: %d", status)
	}
	one, other := g.goes(p), g.goes(p)
	for name, said := range map[string]map[string]string{
		"the login of another tab": {"pending": other["pending"], "state": one["state"], "code": one["code"]},
		"no login":                 {"pending": "-", "state": one["state"], "code": one["code"]},
		"a login of nobody":        {"pending": base64.RawURLEncoding.EncodeToString(make([]byte, 100)), "state": one["state"], "code": one["code"]},
		"no state":                 {"pending": one["pending"], "code": one["code"]},
		"another state":            {"pending": one["pending"], "state": "x", "code": one["code"]},
	} {
		if status, _ := login(said); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
	if strings.Contains(one["pending"], one["state"]) {
		t.Error("the login is not encrypted")
	}
	if status, _ := login(map[string]string{"pending": other["pending"], "state": other["state"], "code": one["code"]}); status != http.StatusBadGateway {
		t.Errorf("the code of another login: %d", status)
	}
	end := func() int { return g.send("POST", "api/v1/sessions/nosuch/end", in.Token, struct{}{}).status }
	sees := func(want ...string) {
		t.Helper()
		var me struct{ Tenants []string }
		if g.send("GET", "api/v1/me", in.Token, nil).into(t, &me); !slices.Equal(me.Tenants, want) {
			t.Errorf("somebody of %v sees %v", want, me.Tenants)
		}
	}
	sees(ours)
	if got := end(); got != http.StatusNotFound {
		t.Errorf("an operator: %d", got)
	}
	p.mu.Lock()
	p.role, p.tenants = map[string]Role{"ops": Viewer}, []string{"another"}
	p.mu.Unlock()
	sees("another")
	if got := end(); got != http.StatusForbidden {
		t.Errorf("an operator who is a viewer now: %d", got)
	}
	p.mu.Lock()
	p.role = nil
	p.mu.Unlock()
	if got := g.send("GET", "api/v1/me", in.Token, nil); got.status != http.StatusUnauthorized {
		t.Errorf("somebody whom the policy does not let in any more: %d", got.status)
	}
	if status, _ := login(g.goes(p)); status != http.StatusForbidden {
		t.Errorf("a login of somebody whom the policy does not let in: %d", status)
	}
	g.mu.Lock()
	if last := g.noted[len(g.noted)-1]; last.Event != "refused" || last.Person != p.far.URL+"|ann-1" || last.Role != 0 || !strings.Contains(last.Reason, "the policy") {
		t.Errorf("of somebody whom the policy does not let in, this is noted: %+v", last)
	}
	g.mu.Unlock()
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	if got := g.send("POST", "api/v1/login/begin", "", struct{}{}); got.status != http.StatusNotFound {
		t.Errorf("without a provider: %d %s", got.status, got.body)
	}
	for _, l := range g.noted {
		if strings.Contains(l.Reason, said["code"]) || strings.Contains(l.Reason, authtest.Secret) {
			t.Errorf("a secret is written down: %+v", l)
		}
	}
}

// A login that takes longer than ten minutes must begin again. The number of requests that
// wait for the provider at the same time is bounded.
func TestLoginsAreBounded(t *testing.T) {
	p, with := withProvider(t)
	g := start(t, full, with)
	said := g.goes(p)
	text, err := base64.RawURLEncoding.DecodeString(said["pending"])
	if err != nil {
		t.Fatal(err)
	}
	var is sealed
	if text, err = g.seal.Open(nil, nil, text, nil); err != nil || json.Unmarshal(text, &is) != nil {
		t.Fatal(err)
	}
	if left := time.Until(is.Until); left > pendingLoginLife || left < pendingLoginLife/2 {
		t.Errorf("a login may take %s", left)
	}
	is.Until = time.Now()
	if text, err = json.Marshal(is); err != nil {
		t.Fatal(err)
	}
	late := base64.RawURLEncoding.EncodeToString(g.seal.Seal(nil, nil, text, nil))
	if got := g.send("POST", "api/v1/login", "", map[string]string{"pending": late, "state": said["state"], "code": said["code"]}); got.status != http.StatusUnauthorized {
		t.Errorf("too late: %d %s", got.status, got.body)
	}
	for range maxProviderRequests {
		g.providerSlots <- struct{}{}
	}
	if got := g.send("POST", "api/v1/login/begin", "", struct{}{}); got.status != http.StatusTooManyRequests {
		t.Errorf("one more that begins: %d %s", got.status, got.body)
	}
	if got := g.send("POST", "api/v1/login", "", said); got.status != http.StatusTooManyRequests {
		t.Errorf("one more that comes back: %d %s", got.status, got.body)
	}
	for range maxProviderRequests {
		<-g.providerSlots
	}
	if got := g.send("POST", "api/v1/login", "", said); got.status != http.StatusOK {
		t.Errorf("then: %d %s", got.status, got.body)
	}
}

// A login can be ended once, and a client has few attempts that fail: each attempt sends
// the server's secret and uses a slot. Ended logins and failed attempts are not forgotten
// to make room, and a client does not reduce the attempts of others.
func TestEndsOfLoginsAreBounded(t *testing.T) {
	p, with := withProvider(t)
	var asked atomic.Int32
	p.far.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			asked.Add(1)
		}
		return false
	}
	g := start(t, full, with)
	login := func(said map[string]string, from string) int {
		return g.send("POST", "api/v1/login", "", said, "X-Forwarded-For", from).status
	}
	said := g.goes(p)
	code := said["code"]
	said["code"] = "junk"
	if got := login(said, "192.0.2.1"); got != http.StatusBadGateway || asked.Load() != 1 {
		t.Errorf("a junk code: %d, and %d requests", got, asked.Load())
	}
	said["code"] = code
	if got := login(said, "192.0.2.1"); got != http.StatusUnauthorized || asked.Load() != 1 {
		t.Errorf("a second end of a login: %d, and %d requests", got, asked.Load())
	}
	for range maxTries { // these logins succeed, so they do not count
		if got := login(g.goes(p), "192.0.2.1"); got != http.StatusOK {
			t.Fatalf("a login: %d", got)
		}
	}
	for i := range maxTries {
		said := g.goes(p)
		said["code"] = "junk"
		want := http.StatusBadGateway
		if i == maxTries-1 { // one attempt has failed before
			want = http.StatusTooManyRequests
		}
		if got := login(said, "192.0.2.1"); got != want {
			t.Errorf("junk %d: %d, want %d", i, got, want)
		}
	}
	if got := login(g.goes(p), "192.0.2.1"); got != http.StatusTooManyRequests {
		t.Errorf("a client that had too many tries: %d", got)
	}
	if got := login(g.goes(p), "192.0.2.2"); got != http.StatusOK {
		t.Errorf("another one: %d", got)
	}
}

// An ended login is remembered as long as it could be used again. If too many are
// remembered, none of them is forgotten, and further logins are refused.
func TestEndedLoginsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all tries
		from := func(i int) netip.Prefix {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		}
		for i := range maxEnded {
			if err := all.take(fmt.Sprint(i), from(i)); err != nil {
				t.Fatal(i, err)
			}
		}
		if err := all.take("new", from(maxEnded)); err == nil || len(all.all) != maxEnded {
			t.Errorf("one more: %v, and %d are kept", err, len(all.all))
		}
		if err := all.take("0", from(0)); !errors.Is(err, errNotPending) {
			t.Errorf("the first one again: %v", err)
		}
		time.Sleep(pendingLoginLife)
		if err := all.take("new", from(0)); err != nil || len(all.all) != 1 {
			t.Errorf("later: %v, and %d are kept", err, len(all.all))
		}
	})
}

// A client with IPv6 has many addresses, and counts as one client. Only a proxy on this
// machine may name the client that it sends a request for.
func TestClientOf(t *testing.T) {
	for _, tt := range [][3]string{
		{"192.0.2.1:5", "", "192.0.2.1/32"},
		{"192.0.2.1:5", "198.51.100.1", "192.0.2.1/32"},
		{"127.0.0.1:5", "203.0.113.9, 198.51.100.1", "198.51.100.1/32"},
		{"[::1]:5", "2001:db8::1:2:3:4", "2001:db8::/64"},
		{"[2001:db8::1]:5", "", "2001:db8::/64"},
		{"127.0.0.1:5", "unknown", "127.0.0.1/32"},
		{"@", "", "::/64"},
	} {
		r := &http.Request{RemoteAddr: tt[0], Header: http.Header{}}
		if tt[1] != "" {
			r.Header.Set("X-Forwarded-For", tt[1])
		}
		if got := clientOf(r).String(); got != tt[2] {
			t.Errorf("%q: got %s", tt, got)
		}
	}
}

// A person who changes their name at the provider does not get more logins: a further login
// ends their own oldest one, and nobody else's.
func TestLoginsAreOfAPersonAndNotOfAName(t *testing.T) {
	p, with := withProvider(t)
	g := start(t, full, with)
	var tokens []string
	for i := range maxOwn + 1 {
		p.mu.Lock()
		p.name = fmt.Sprintf("ann %d", i)
		p.mu.Unlock()
		var in loggedIn
		g.send("POST", "api/v1/login", "", g.goes(p)).into(t, &in)
		tokens = append(tokens, in.Token)
	}
	for i, token := range tokens {
		if _, ok := g.access.holder(token); ok != (i > 0) {
			t.Errorf("login %d of %d by new names: holds is %v", i, len(tokens), ok)
		}
	}
}

// A page of another origin may lead a browser to the path that ends a login, to no other
// path, and only if there is a provider.
func TestLanding(t *testing.T) {
	p, with := withProvider(t)
	g := startRemote(t, Remote{URL: "https://h.example/console/"}, full, with)
	g.at = "http://" + g.front.Addr() + "/"
	led := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	try := func(what, method, path string, want int, heads ...string) {
		t.Helper()
		if got := g.send(method, path, "", nil, heads...); got.status != want {
			t.Errorf("%s: %s /%s %q: %d, want %d", what, method, path, heads, got.status, want)
		}
	}
	query := "?" + url.Values{"code": {"x"}, "state": {"y"}}.Encode()
	try("led back", "GET", "login"+query, 200, led...)
	try("led back at the prefix", "GET", "console/login"+query, 200, led...)
	try("to the page", "GET", "", 403, led...)
	try("to data", "GET", "api/v1/login", 403, led...)
	try("to act", "POST", "login", 403, led...)
	try("into a frame", "GET", "login", 403, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe")
	try("by a script", "GET", "login", 403, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty")
	try("as a script", "GET", "login", 403, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script")
	try("with an origin", "GET", "login", 403, append(led, "Origin", "https://evil.example")...)
	try("by another name", "GET", "login", 403, append(led, "Host", "evil.example")...)
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	try("without a provider", "GET", "login", 403, led...)
}
