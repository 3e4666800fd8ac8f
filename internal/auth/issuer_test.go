package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"belljar.dev/policies"
)

const ours = "https://belljar.example/mcp"

// stand is an issuer on this machine, whose answers a test can change.
type stand struct {
	*httptest.Server
	t        testing.TB
	fetches  atomic.Int64 // number of requests for keys
	requests atomic.Int64 // number of requests for any path

	mu       sync.Mutex
	keys     func(http.ResponseWriter) // guarded by mu
	metadata func(http.ResponseWriter) // guarded by mu
}

func newStand(t testing.TB) *stand {
	s := &stand{t: t}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.mu.Lock()
		keys, metadata := s.keys, s.metadata
		s.mu.Unlock()
		switch r.URL.Path {
		case "/keys":
			s.fetches.Add(1)
			keys(rw)
		case "/.well-known/openid-configuration":
			metadata(rw)
		default:
			http.NotFound(rw, r)
		}
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	s.names(s.URL)
	return s
}

// names makes the stand serve metadata that name an issuer.
func (s *stand) names(issuer string) {
	text, _ := json.Marshal(map[string]string{"issuer": issuer, "jwks_uri": s.URL + "/keys"})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata = func(rw http.ResponseWriter) { rw.Write(text) }
}

// answers makes the stand serve a text as its set of keys.
func (s *stand) answers(text string) {
	s.does(func(rw http.ResponseWriter) { rw.Write([]byte(text)) })
}

func (s *stand) does(keys func(http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// has makes the stand serve the public parts of keys as its set of keys.
func (s *stand) has(keys ...jose.JSONWebKey) {
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
	}
	text, err := json.Marshal(set)
	if err != nil {
		s.t.Fatal(err)
	}
	s.answers(string(text))
}

func (s *stand) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

// ecKey returns a new P-256 key of an issuer. theRSAKey is made only once, because RSA keys
// take long to make.
func ecKey(t testing.TB, kid string) jose.JSONWebKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: kid}
}

var theRSAKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// sign returns a token with any header and claims. alg is the algorithm of the signature,
// which may differ from the header.
func sign(t testing.TB, key any, header map[string]any, payload string) string {
	t.Helper()
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	input := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	return input + "." + base64.RawURLEncoding.EncodeToString(signature(t, key, input))
}

// scene is an Authenticator with one issuer.
type scene struct {
	*Authenticator
	*clock
	stand *stand
	key   jose.JSONWebKey
}

// newScene returns a scene. issuer is added to the policy's entry of the issuer, and more
// is added to the policy below auth.
func newScene(t testing.TB, issuer, more string) *scene {
	t.Helper()
	s := &scene{stand: newStand(t), clock: &clock{now: time.Now()}, key: ecKey(t, "k1")}
	s.stand.has(s.key)
	p, err := policies.Parse("policy.yaml", []byte(fmt.Sprintf(`version: 1
profiles: {p: {}}
tenants: {a: {}, b: {}}
auth:
  issuers: [{url: %q, addresses: 127.0.0.0/8, tenant_of: {claim: org, map: {acme: a, beta: b}}%s}]
%s`, s.stand.URL, issuer, more)))
	if err != nil {
		t.Fatal(err)
	}
	s.Authenticator = New(Config{
		Known: func(tenant string) bool { _, known := p.Tenant(tenant); return known },
		Roots: s.stand.roots(), Log: slog.New(slog.DiscardHandler), Now: s.Now,
	})
	t.Cleanup(s.Close)
	s.SetResource(ours)
	s.Trust(p)
	return s
}

// claims returns the claims of a good token after some changes; the value nil removes a
// claim.
func (s *scene) claims(changed ...any) string {
	all := map[string]any{
		"iss": s.stand.URL, "sub": "ann", "aud": ours, "org": "acme",
		"exp": s.now.Unix() + 300, "iat": s.now.Unix(), "nbf": s.now.Unix(),
	}
	change(all, changed)
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var accessHeader = map[string]any{"alg": "ES256", "kid": "k1", "typ": "at+jwt"}

// token returns a token of the issuer with some claims changed.
func (s *scene) token(changed ...any) string {
	return sign(s.stand.t, s.key.Key, accessHeader, s.claims(changed...))
}

// with returns accessHeader with some members changed.
func with(changed ...any) map[string]any {
	all := maps.Clone(accessHeader)
	change(all, changed)
	return all
}

// change sets members to values; the value nil removes a member.
func change(all map[string]any, namesAndValues []any) {
	for pair := range slices.Chunk(namesAndValues, 2) {
		name := fmt.Sprint(pair[0])
		if all[name] = pair[1]; pair[1] == nil {
			delete(all, name)
		}
	}
}

func reasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return Reason(fmt.Sprint(err))
}

func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
