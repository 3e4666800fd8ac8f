package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/auth/authtest"
)

const back = "https://belljar.example/login"

// atProvider returns a Provider for an OpenID Provider on this machine.
func atProvider(t *testing.T) (*Provider, *authtest.Provider) {
	t.Helper()
	far := authtest.New(t)
	p := NewProvider(ProviderConfig{
		Issuer: far.URL, Client: authtest.Client, Scopes: []string{"openid", "groups"}, Algorithms: []string{"ES256"}, Roots: far.Roots(),
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	t.Cleanup(p.Close)
	return p, far
}

// visit begins a login, and returns it with the code that the provider sent back.
func visit(t *testing.T, p *Provider, far *authtest.Provider) (v PendingLogin, code string) {
	t.Helper()
	v, err := p.Begin(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	to, err := far.Visit(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(to.String(), back+"?") || to.Query().Get("state") != v.State {
		t.Fatalf("the browser is sent to %s", to)
	}
	return v, to.Query().Get("code")
}

// A login ends with the claims of the provider, with each method of sending the client's
// secret. A code works once, and only for the login that it was made for.
func TestProvider(t *testing.T) {
	for _, methods := range [][]string{nil, {"client_secret_basic"}, {"client_secret_post"}, {"private_key_jwt", "client_secret_post"}} {
		p, far := atProvider(t)
		far.Methods = methods
		v, code := visit(t, p, far)
		claims, err := p.Finish(t.Context(), v, code, authtest.Secret)
		if err != nil || claims["sub"] != "ann-1" || claims["email"] != "ann@example.com" {
			t.Fatalf("%v: %v, %v", methods, claims, err)
		}
		if _, err := p.Finish(t.Context(), v, code, authtest.Secret); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("a code that was used: %v", err)
		}
		v, code = visit(t, p, far)
		other, _ := visit(t, p, far)
		if _, err := p.Finish(t.Context(), other, code, authtest.Secret); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("with the verifier of another login: %v", err)
		}
		v, code = visit(t, p, far)
		if _, err := p.Finish(t.Context(), v, code, "guessed"); err == nil || !strings.Contains(err.Error(), "invalid_client") {
			t.Errorf("with another secret: %v", err)
		}
		v.Issuer = "https://other.example"
		if _, err := p.Finish(t.Context(), v, code, authtest.Secret); err == nil || !strings.Contains(err.Error(), "another provider") {
			t.Errorf("a login that began elsewhere: %v", err)
		}
	}
	p, far := atProvider(t)
	a, _ := visit(t, p, far)
	b, _ := visit(t, p, far)
	if a.State == b.State || a.Nonce == b.Nonce || a.Verifier == b.Verifier || len(a.Verifier) < 43 || strings.Contains(a.URL, a.Verifier) {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// An ID token is accepted only if the provider made it for this client and this login, and
// if it is valid now.
func TestIDTokens(t *testing.T) {
	now := time.Now().Unix()
	for _, tt := range []struct {
		name  string
		part  string // "header" or "claims"
		value any    // nil removes the member
		want  string // part of the error; empty if the token is accepted
	}{
		{"iss", "claims", "https://evil.example", "(issuer)"},
		{"aud", "claims", "another", "(audience)"},
		{"aud", "claims", nil, "(audience)"},
		{"aud", "claims", []string{"another"}, "(audience)"},
		{"aud", "claims", []string{authtest.Client}, ""},
		{"aud", "claims", []string{authtest.Client, "another"}, "azp"},
		{"aud", "claims", map[string]any{authtest.Client: 1}, "(audience)"},
		{"azp", "claims", "another", "azp"},
		{"azp", "claims", authtest.Client, ""},
		{"nonce", "claims", "another", "nonce"},
		{"nonce", "claims", nil, "nonce"},
		{"nonce", "claims", 7, "nonce"},
		{"exp", "claims", now - 120, "(expired)"},
		{"exp", "claims", nil, "expires"},
		{"exp", "claims", "tomorrow", "expires"},
		{"iat", "claims", now + 600, "iat"},
		{"iat", "claims", nil, "iat"},
		{"nbf", "claims", now + 600, "nbf"},
		{"nbf", "claims", now, ""},
		{"sub", "claims", nil, "subject"},
		{"sub", "claims", "ann\u202e", "subject"},
		{"sub", "claims", strings.Repeat("a", 300), "subject"},
		{"alg", "header", "none", "(algorithm)"},
		{"alg", "header", "HS256", "(algorithm)"},
		{"alg", "header", "RS256", "(algorithm)"},
		{"typ", "header", "at+jwt", "(type)"},
		{"typ", "header", nil, ""},
		{"kid", "header", "k2", "(key)"},
		{"crit", "header", []string{"exp"}, "(malformed)"},
		// a key in the token itself is not a key of the provider
		{"jwk", "header", map[string]string{"kty": "oct"}, "(signature)"},
	} {
		p, far := atProvider(t)
		far.Change = func(header, claims map[string]any) {
			all := map[string]map[string]any{"header": header, "claims": claims}[tt.part]
			if all[tt.name] = tt.value; tt.value == nil {
				delete(all, tt.name)
			}
		}
		v, code := visit(t, p, far)
		claims, err := p.Finish(t.Context(), v, code, authtest.Secret)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || claims != nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of the %s is %v: got %v, want %q", tt.name, tt.part, tt.value, err, tt.want)
		}
	}
	p, far := atProvider(t)
	v, code := visit(t, p, far)
	known := far.Key
	if _, err := p.Finish(t.Context(), v, code, authtest.Secret); err != nil {
		t.Fatal(err)
	}
	v, code = visit(t, p, far)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	far.Key.Key = other
	if _, err := p.Finish(t.Context(), v, code, authtest.Secret); err == nil || !strings.Contains(err.Error(), "(signature)") {
		t.Errorf("signed by another key of the same id: %v", err)
	}
	far.Key = known
}

// The answers of a provider are bounded, and redirects are not followed.
func TestProviderIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		at     string
		answer func(w http.ResponseWriter, r *http.Request, far *authtest.Provider)
	}{
		"metadata that are large": {"openid-configuration", func(w http.ResponseWriter, r *http.Request, far *authtest.Provider) {
			metadataText("", "/authorize?kept=1", "/token")(w, r, far)
			fmt.Fprint(w, strings.Repeat(" ", maxDocument)) // without these spaces, the metadata would be accepted
		}},
		"metadata of another issuer":   {"openid-configuration", metadataText("https://evil.example", "/authorize", "/token")},
		"an authorization endpoint":    {"openid-configuration", metadataText("", "http://127.0.0.1/authorize", "/token")},
		"a script as endpoint":         {"openid-configuration", metadataText("", "javascript:alert(1)", "/token")},
		"a token endpoint without TLS": {"openid-configuration", metadataText("", "/authorize", "http://127.0.0.1/token")},
		"a token endpoint with a name": {"openid-configuration", metadataText("", "/authorize", "https://u:p@127.0.0.1/token")},
		"metadata that lead elsewhere": {"openid-configuration", func(w http.ResponseWriter, r *http.Request, far *authtest.Provider) {
			http.Redirect(w, r, far.URL+"/other", http.StatusFound)
		}},
		"a large answer with a token": {"token", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) {
			fmt.Fprintf(w, `{"id_token":"x","y":"%s"}`, strings.Repeat("y", maxDocument))
		}},
		"a token twice": {"token", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) {
			fmt.Fprint(w, `{"id_token":"x","id_token":"y"}`)
		}},
		"no token": {"token", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) {
			fmt.Fprint(w, `{"access_token":"x"}`)
		}},
		"a token endpoint that leads": {"token", func(w http.ResponseWriter, r *http.Request, far *authtest.Provider) {
			http.Redirect(w, r, far.URL+"/other", http.StatusTemporaryRedirect)
		}},
		"an error with a long text": {"token", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":"%s"}`, strings.Repeat("e", 9000))
		}},
		"keys that are not there": {"keys", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) { w.WriteHeader(500) }},
		"keys of which one is private": {"keys", func(w http.ResponseWriter, _ *http.Request, _ *authtest.Provider) {
			fmt.Fprint(w, `{"keys":[{"kty":"oct","k":"x"}]}`)
		}},
	} {
		p, far := atProvider(t)
		elsewhere := false
		far.Answer = func(w http.ResponseWriter, r *http.Request) bool {
			elsewhere = elsewhere || r.URL.Path == "/other"
			if !strings.HasSuffix(r.URL.Path, tt.at) {
				return false
			}
			tt.answer(w, r, far)
			return true
		}
		v, err := p.Begin(t.Context(), back)
		if err == nil {
			var to *url.URL
			if to, err = far.Visit(v.URL); err != nil {
				t.Fatal(name, err)
			}
			_, err = p.Finish(t.Context(), v, to.Query().Get("code"), authtest.Secret)
		}
		if err == nil || len(err.Error()) > 1000 || elsewhere || strings.Contains(err.Error(), authtest.Secret) {
			t.Errorf("%s: %v (led elsewhere: %v)", name, err, elsewhere)
		}
	}
	p, far := atProvider(t)
	strict := NewProvider(ProviderConfig{Issuer: far.URL, Client: authtest.Client, Algorithms: []string{"ES256"}, Roots: far.Roots()})
	t.Cleanup(strict.Close)
	if _, err := strict.Begin(t.Context(), back); err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("an address that the policy does not list: %v", err)
	}
	for _, code := range []string{"", strings.Repeat("x", maxCode+1)} {
		v, _ := visit(t, p, far)
		if _, err := p.Finish(t.Context(), v, code, authtest.Secret); err == nil || !strings.Contains(err.Error(), "no code") {
			t.Errorf("a code of %d bytes: %v", len(code), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, code := visit(t, p, far)
	if _, err := p.Finish(ctx, v, code, authtest.Secret); err == nil {
		t.Error("a request that has ended goes on")
	}
}

// metadataText returns an answer with metadata of a provider. An argument that is empty or
// a path is completed with the provider's own URL.
func metadataText(issuer, begin, token string) func(http.ResponseWriter, *http.Request, *authtest.Provider) {
	return func(w http.ResponseWriter, _ *http.Request, far *authtest.Provider) {
		all := []string{issuer, begin, token}
		for i, one := range all {
			if one == "" || strings.HasPrefix(one, "/") {
				all[i] = far.URL + one
			}
		}
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q}`, all[0], all[1], all[2], far.URL+"/keys")
	}
}

// The request contains the client, the scopes and the URL to return to, and nothing secret.
func TestAuthorizationRequest(t *testing.T) {
	p, far := atProvider(t)
	v, err := p.Begin(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(v.URL)
	if err != nil || !strings.HasPrefix(v.URL, far.URL+"/authorize?") {
		t.Fatal(v.URL, err)
	}
	var names []string
	for name := range u.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	if is, want := strings.Join(names, " "), "client_id code_challenge code_challenge_method kept nonce redirect_uri response_type scope state"; is != want || u.Query().Get("scope") != "openid groups" {
		t.Errorf("got %s (%s), want %s", is, u.Query().Get("scope"), want)
	}
}

// Anybody can begin a login. Therefore, if the provider does not answer, it is not asked
// again for endpointsGap, and its known metadata stay in use.
func TestProviderThatIsDown(t *testing.T) {
	p, far := atProvider(t)
	now, asked, down := time.Now(), 0, true
	p.cfg.Now = func() time.Time { return now }
	far.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			asked++
		}
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down
	}
	begin := func(wantAsked int, fails bool) {
		t.Helper()
		_, err := p.Begin(t.Context(), back)
		if asked != wantAsked || (err != nil) != fails || fails && !strings.Contains(err.Error(), "status 503") {
			t.Errorf("asked %d times, want %d: %v", asked, wantAsked, err)
		}
	}
	begin(1, true)
	begin(1, true)
	now, down = now.Add(endpointsGap), false
	begin(2, false)
	now = now.Add(endpointsFor - 1)
	begin(2, false)
	now, down = now.Add(1), true
	begin(3, false)
	begin(3, false)
	now = now.Add(maxStale)
	begin(4, true)
}

// Only one fetch runs at a time, and a person who leaves does not end it for others.
func TestOneFetchOfMetadata(t *testing.T) {
	p, far := atProvider(t)
	came, answer := make(chan struct{}), make(chan struct{})
	far.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			close(came) // panics at a second fetch
			<-answer
		}
		return false
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := p.endpoints(ctx); err != nil {
			t.Error(err)
		}
	}()
	<-came
	leave()
	if _, err := p.Begin(t.Context(), back); !errors.Is(err, errFetching) {
		t.Errorf("while it is fetched: %v", err)
	}
	close(answer)
	<-done
	if _, err := p.Begin(t.Context(), back); err != nil {
		t.Error(err)
	}
}

// silent is a transport whose requests to the provider end only one second after they are
// cancelled.
type silent struct {
	at      string // end of the path of the request that is not answered
	waiting chan struct{}
	ended   atomic.Bool
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if !strings.HasSuffix(r.URL.Path, s.at) {
		fmt.Fprint(rec, `{"issuer":"https://login.example","authorization_endpoint":"https://login.example/authorize","token_endpoint":"https://login.example/token"}`)
		return rec.Result(), nil
	}
	close(s.waiting)
	<-r.Context().Done()
	time.Sleep(time.Second)
	s.ended.Store(true)
	return nil, r.Context().Err()
}

// Close ends a fetch of the metadata and an exchange of a code, also if the person who
// waits for them stays, and returns after both have ended. No request begins afterwards.
func TestCloseEndsRequests(t *testing.T) {
	for _, at := range []string{"openid-configuration", "/token"} {
		synctest.Test(t, func(t *testing.T) {
			s := &silent{at: at, waiting: make(chan struct{})}
			p := NewProvider(ProviderConfig{Issuer: "https://login.example", Client: "belljar", Algorithms: []string{"ES256"}})
			p.fetch.client.Transport, p.fetch.client.Timeout = s, 0
			ended := make(chan error, 1)
			go func() {
				v, err := p.Begin(context.WithoutCancel(t.Context()), back)
				if err == nil {
					_, err = p.Finish(context.WithoutCancel(t.Context()), v, "code", "secret")
				}
				ended <- err
			}()
			<-s.waiting
			began := time.Now()
			p.Close()
			if !s.ended.Load() || time.Since(began) > 2*time.Second {
				t.Errorf("%s: Close returns after %v; the request has ended: %v", at, time.Since(began), s.ended.Load())
			}
			if err := <-ended; !errors.Is(err, ErrClosed) {
				t.Errorf("%s: the caller gets %v, want ErrClosed", at, err)
			}
			p.Close()
			if _, err := p.Begin(t.Context(), back); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: a login that begins afterwards: %v", at, err)
			}
			v := PendingLogin{Issuer: "https://login.example"}
			if _, err := p.Finish(t.Context(), v, "code", "secret"); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: a login that comes back afterwards: %v", at, err)
			}
		})
	}
}

// endless is a document without an end, and counts the bytes that are read.
type endless int

func (n *endless) Read(p []byte) (int, error) {
	if *n > 8*maxDocument {
		return 0, io.EOF
	}
	*n += endless(len(p))
	return len(p), nil
}

// From a document that is too large, only as much is read as shows that it is too large.
func TestReadBounded(t *testing.T) {
	var from endless
	// a buffer may read more than maxDocument at a time
	if _, err := readBounded(&from); err == nil || from > 2*maxDocument {
		t.Errorf("%d bytes were read, and the error is %v", from, err)
	}
}
