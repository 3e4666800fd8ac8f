// Package authtest has an OpenID Provider on this machine, for tests.
package authtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Client and Secret are the id and the secret of the only client that a Provider knows.
const (
	Client = "belljar"
	Secret = "client secret: +&=/"
)

// Provider is an OpenID Provider without a person: it redirects each visitor of its page
// back immediately, with a code. It checks what a provider has to check, and tests can
// change its answers.
type Provider struct {
	*httptest.Server
	Key jose.JSONWebKey // key that signs the ID tokens

	// Change changes the header and the claims of the next ID tokens. Nil changes nothing.
	Change func(header, claims map[string]any)
	// Answer answers a request in place of the provider if it returns true. Nil answers no
	// request.
	Answer func(w http.ResponseWriter, r *http.Request) bool
	// Methods are the methods by which clients may send their secret, for the metadata. If
	// Methods is nil, the metadata do not contain them.
	Methods []string

	t     testing.TB
	mu    sync.Mutex
	codes map[string]url.Values // guarded by mu: queries of the authorization requests, by code
}

// New returns a provider that runs until the end of a test.
func New(t testing.TB) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{t: t, Key: jose.JSONWebKey{Key: key, KeyID: "k1", Algorithm: "ES256", Use: "sig"}, codes: make(map[string]url.Values)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key.Public()}})
	})
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Answer == nil || !p.Answer(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(p.Close)
	return p
}

// Roots returns a pool with the provider's certificate.
func (p *Provider) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Certificate())
	return pool
}

func (p *Provider) send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize?kept=1", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
	}
	if p.Methods != nil {
		m["token_endpoint_auth_methods_supported"] = p.Methods
	}
	p.send(w, m)
}

// authorize redirects a browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("response_type") != "code" || q.Get("client_id") != Client || q.Get("code_challenge_method") != "S256" || q.Get("kept") != "1" || !strings.HasPrefix(q.Get("scope"), "openid") || q.Get("nonce") == "" {
		http.Error(w, "bad request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "session_state": {"x"}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code for an ID token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(why string) {
		w.WriteHeader(http.StatusBadRequest)
		p.send(w, map[string]string{"error": why})
	}
	client, secret, byHeader := r.BasicAuth()
	if byHeader {
		client, _ = url.QueryUnescape(client)
		secret, _ = url.QueryUnescape(secret)
	} else {
		client, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if client != Client || secret != Secret {
		refuse("invalid_client")
		return
	}
	code := r.PostFormValue("code")
	p.mu.Lock()
	asked := p.codes[code]
	delete(p.codes, code)
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if asked == nil || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
		refuse("invalid_grant")
		return
	}
	now := time.Now().Unix()
	header := map[string]any{"alg": "ES256", "kid": p.Key.KeyID, "typ": "JWT"}
	claims := map[string]any{
		"iss": p.URL, "sub": "ann-1", "aud": Client, "exp": now + 300, "iat": now, "nonce": asked.Get("nonce"), "email": "ann@example.com", "groups": []string{"ops"}, "at_hash": "x",
	}
	if p.Change != nil {
		p.Change(header, claims)
	}
	p.send(w, map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 300, "id_token": p.sign(header, claims)})
}

// sign returns a token with any header and claims. It always signs with ES256, also if the
// header names another algorithm.
func (p *Provider) sign(header, claims map[string]any) string {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			p.t.Error(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	input := part(header) + "." + part(claims)
	key, ok := p.Key.Key.(*ecdsa.PrivateKey)
	if !ok {
		p.t.Error("the key of the provider is of another kind")
		return ""
	}
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		p.t.Error(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// Visit requests an address of the provider as a browser does, and returns where the
// provider redirects the browser.
func (p *Provider) Visit(address string) (*url.URL, error) {
	client := p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Location()
}
