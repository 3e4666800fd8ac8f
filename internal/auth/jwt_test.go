package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// signature returns the signature of the first two parts of a token.
func signature(t testing.TB, key any, input string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(input))
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out
	case *rsa.PrivateKey:
		out, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return out
	case []byte:
		h := hmac.New(sha256.New, key)
		h.Write([]byte(input))
		return h.Sum(nil)
	default:
		return nil // a token without a signature
	}
}

func TestTokensOfIssuers(t *testing.T) {
	s := newScene(t, ", algorithms: [ES256, RS256]", "")
	rsaKey := jose.JSONWebKey{Key: theRSAKey(), KeyID: "r1"}
	s.stand.has(s.key, rsaKey)
	stranger := ecKey(t, "k1")
	var visits atomic.Int64 // number of requests to an address that tokens name
	trap := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer trap.Close()
	public, err := x509.MarshalPKIXPublicKey(&theRSAKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, stranger.Public().Key, stranger.Key)
	if err != nil {
		t.Fatal(err)
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	es := func(header map[string]any, payload string) string {
		return sign(t, s.key.Key, header, payload)
	}
	now := s.now.Unix()
	good := s.token()
	for _, tt := range []struct {
		name, token string
		want        Reason // empty if the token is accepted
	}{
		{"good", good, ""},
		{"without a type", es(with("typ", nil), s.claims()), ""},
		{"with the type in full", es(with("typ", "application/AT+jwt"), s.claims()), ""},
		{"signed by RSA", sign(t, theRSAKey(), map[string]any{"alg": "RS256", "kid": "r1", "typ": "at+jwt"}, s.claims()), ""},
		{"naming no key, with one that fits", es(with("kid", nil), s.claims()), ""},

		{"unsigned", sign(t, nil, with("alg", "none"), s.claims()), Algorithm},
		{"unsigned, in other letters", sign(t, nil, with("alg", "nOnE"), s.claims()), Algorithm},
		{"without an algorithm", es(with("alg", nil), s.claims()), Algorithm},
		{"HMAC with the public key", sign(t, public, map[string]any{"alg": "HS256", "kid": "r1"}, s.claims()), Algorithm},
		{"HMAC with the public key as PEM", sign(t, pemKey, map[string]any{"alg": "HS256", "kid": "r1"}, s.claims()), Algorithm},
		{"an algorithm that is not listed", es(with("alg", "ES384"), s.claims()), Algorithm},
		{"an algorithm of many lines", es(with("alg", strings.Repeat("x\n", 500)), s.claims()), Algorithm},
		{"the key of another algorithm", es(with("kid", "r1"), s.claims()), Key},
		{"the signature of a stranger", sign(t, stranger.Key, accessHeader, s.claims()), Signature},
		{"other claims below the signature", strings.Split(good, ".")[0] + "." + part(s.claims("org", "beta")) + "." + strings.Split(good, ".")[2], Signature},
		{"no signature", good[:strings.LastIndex(good, ".")+1], Signature},

		{"for another service", s.token("aud", "https://other.example"), Audience},
		{"for us and another", s.token("aud", []string{"https://other.example", ours}), ""},
		{"for us, with a slash and capitals", s.token("aud", "HTTPS://BELLJAR.example:443/mcp/"), ""},
		{"for another path", s.token("aud", ours+"2"), Audience},
		{"for a path in other letters", s.token("aud", "https://belljar.example/MCP"), Audience},
		{"for a name that ends as ours", s.token("aud", "https://x@belljar.example/mcp"), Audience},
		{"for nobody", s.token("aud", nil), Audience},
		{"for its client", s.token("aud", "client-7", "client_id", "client-7"), Audience},
		{"for a number", s.token("aud", 7), Audience},

		{"of the issuer with a slash", s.token("iss", s.stand.URL+"/"), Issuer},
		{"of an issuer in capitals", s.token("iss", strings.ToUpper(s.stand.URL)), Issuer},
		{"of an issuer of many lines", s.token("iss", strings.Repeat("x\n", 500)), Issuer},
		{"of no issuer", s.token("iss", nil), Issuer},
		{"of two issuers", s.token("iss", []string{s.stand.URL}), Issuer},

		{"expired 59 s ago", s.token("exp", now-59), ""},
		{"expired 60 s ago", s.token("exp", now-60), Expired},
		{"expired 61 s ago", s.token("exp", now-61), Expired},
		{"without an expiry", s.token("exp", nil), Claims},
		{"with an expiry as text", s.token("exp", fmt.Sprint(now+300)), Claims},
		{"with an expiry that no calendar has", s.token("exp", 1e300), Claims},
		{"with a negative expiry", s.token("exp", -1), Claims},
		{"not before an hour", s.token("nbf", now+3600), Claims},
		{"made in an hour", s.token("iat", now+3600), Claims},
		{"made in half a minute", s.token("iat", now+30), ""},
		{"made at no time", s.token("iat", "now"), Claims},

		{"of no subject", s.token("sub", nil), Claims},
		{"of an empty subject", s.token("sub", ""), Claims},
		{"of a subject with a line end", s.token("sub", "a\nb"), Claims},
		{"of a long subject", s.token("sub", strings.Repeat("a", 300)), Claims},
		{"of a subject that is half of a character", es(accessHeader, strings.Replace(s.claims(), `"ann"`, `"\ud800"`, 1)), Claims},
		{"of a subject that reads backwards", s.token("sub", "ann\u202e"), Claims},
		{"of a subject that is not shown", s.token("sub", "ann\u200b"), Claims},
		{"of a subject beyond ASCII", s.token("sub", "Ångström 王"), ""},
		{"of no tenant", s.token("org", "gamma"), NoTenant},
		{"of the other tenant", s.token("org", "beta"), ""},

		{"an ID token with a nonce", s.token("nonce", "n"), Claims},
		{"an ID token with at_hash", s.token("at_hash", "h"), Claims},
		{"an ID token with c_hash", s.token("c_hash", "h"), Claims},
		{"of the type JWT", es(with("typ", "JWT"), s.claims()), Type},
		{"of a type of many lines", es(with("typ", strings.Repeat("x\n", 500)), s.claims()), Type},
		{"of another type", es(with("typ", "logout+jwt"), s.claims()), Type},

		{"an unknown key", es(with("kid", "nosuch"), s.claims()), Key},
		{"a path as key", es(with("kid", "../../etc/passwd"), s.claims()), Key},
		{"a long key", es(with("kid", strings.Repeat("k", 1000)), s.claims()), Malformed},
		{"a very long key", es(with("kid", strings.Repeat("k", 1<<20)), s.claims()), Malformed},
		{"a key with NUL", es(with("kid", "k1\x00"), s.claims()), Malformed},
		{"a key that is a number", es(with("kid", 1), s.claims()), Malformed},
		{"a key of its own", es(with("jwk", stranger.Public()), s.claims()), ""},
		{"a private key of its own", es(with("jwk", stranger), s.claims()), Signature},
		{"a shared secret of its own", es(with("jwk", map[string]string{"kty": "oct", "k": "c2VjcmV0"}), s.claims()), Signature},
		{"a text as a key of its own", es(with("jwk", "k"), s.claims()), Signature},
		{"a key of its own that signed it", sign(t, stranger.Key, with("jwk", stranger.Public()), s.claims()), Signature},
		{"a place for keys", sign(t, stranger.Key, with("jku", trap.URL+"/keys", "x5u", trap.URL+"/cert"), s.claims()), Signature},
		{"a certificate of its own", sign(t, stranger.Key, with("x5c", [][]byte{certificate}), s.claims()), Signature},

		{"critical", es(with("crit", []string{"x"}, "x", 1), s.claims()), Malformed},
		{"not in base64", es(with("b64", false, "crit", []string{"b64"}), s.claims()), Malformed},
		{"not in base64, and not critical", es(with("b64", false), s.claims()), Malformed},
		{"encrypted, in three parts", es(with("enc", "A256GCM"), s.claims()), Malformed},
		{"compressed", es(with("zip", "DEF"), s.claims()), Malformed},
		{"encrypted", part(`{"alg":"RSA-OAEP","enc":"A256GCM"}`) + ".a.b.c.d", Malformed},
		{"of four parts", good + ".x", Malformed},
		{"of two parts", good[:strings.LastIndex(good, ".")], Malformed},
		{"a payload of a mebibyte", s.token("x", strings.Repeat("x", 1<<20)), Malformed},
		{"a deep payload", es(accessHeader, strings.TrimSuffix(s.claims(), "}")+`,"x":`+deep(1000)+`}`), Malformed},
		{"a very deep payload", es(accessHeader, strings.TrimSuffix(s.claims(), "}")+`,"x":`+deep(10_000)+`}`), Malformed},
		{"two issuers by name", es(accessHeader, `{"iss":"https://other.example",`+s.claims()[1:]), Malformed},
		{"two issuers, one escaped", es(accessHeader, `{"\u0069ss":"https://other.example",`+s.claims()[1:]), Malformed},
		{"claims in other letters", es(accessHeader, strings.ReplaceAll(s.claims(), `"iss"`, `"ISS"`)), Issuer},
		{"a list as payload", es(accessHeader, `[]`), Malformed},
		{"two values as payload", es(accessHeader, s.claims()+"{}"), Malformed},
		{"padded", strings.Replace(good, ".", "=.", 1), Malformed},
		{"with bits behind its end", strings.Split(good, ".")[0] + "." + part("{}")[:2] + "1" + "." + strings.Split(good, ".")[2], Malformed},
	} {
		began := time.Now()
		id, err := s.Authenticate(t.Context(), tt.token)
		took := time.Since(began)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && reasonOf(err) != tt.want:
			t.Errorf("%s: got %+v, %v; want %s", tt.name, id, err, tt.want)
		case err != nil && !reflect.DeepEqual(id, mcp.Identity{}):
			t.Errorf("%s: an identity with an error: %+v", tt.name, id)
		case err != nil && (len(err.Error()) > 600 || strings.Contains(err.Error(), tt.token) || strings.ContainsAny(err.Error(), "\x00\n")):
			t.Errorf("%s: the error repeats what was sent: %.800v", tt.name, err)
		}
		if took > time.Second {
			t.Errorf("%s: took %v", tt.name, took)
		}
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("%d requests went where tokens said", n)
	}
	if n := s.stand.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of keys, want 1", n)
	}
}

// A token that is wrong in itself leads to no request: neither to its issuer, whose keys
// are not known yet, nor to an issuer that the policy does not name.
func TestNothingIsFetchedForBadTokens(t *testing.T) {
	s := newScene(t, "", "")
	for what, token := range map[string]string{
		"unsigned":           sign(t, nil, with("alg", "none"), s.claims()),
		"HMAC":               sign(t, []byte("secret"), with("alg", "HS256"), s.claims()),
		"of a stranger":      s.token("iss", "https://other.example"),
		"of another type":    sign(t, s.key.Key, with("typ", "JWT"), s.claims()),
		"critical":           sign(t, s.key.Key, with("crit", []string{"x"}), s.claims()),
		"a very long key":    sign(t, s.key.Key, with("kid", strings.Repeat("k", 1<<20)), s.claims()),
		"a key with NUL":     sign(t, s.key.Key, with("kid", "k1\x00"), s.claims()),
		"two issuers":        sign(t, s.key.Key, accessHeader, `{"iss":"https://other.example",`+s.claims()[1:]),
		"encrypted":          part(`{"alg":"RSA-OAEP","enc":"A256GCM"}`) + ".a.b.c.d",
		"a payload too long": s.token("x", strings.Repeat("x", 1<<20)),
	} {
		if _, err := s.Authenticate(t.Context(), token); err == nil || errors.Is(err, mcp.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		if n := s.stand.requests.Load(); n > 0 {
			t.Fatalf("%s: %d requests to the issuer", what, n)
		}
	}
	if _, err := s.Authenticate(t.Context(), s.token()); err != nil || s.stand.requests.Load() == 0 {
		t.Errorf("the control: %v after %d requests", err, s.stand.requests.Load())
	}
}

// Two names of a server are equal only if they differ in nothing but the case of the ASCII
// letters of scheme and host, and in what canonical removes.
func TestCanonicalNames(t *testing.T) {
	const kirk = "https://kirk.example/mcp"
	for name, want := range map[string]bool{
		"https://KIRK.example:443/mcp/":    true,
		"https://\u212airk.example/mcp":    false, // the Kelvin sign, whose lower case is the letter k
		"https://kirk.example:/mcp":        false,
		"https://kirk.example/mcp?":        false,
		"https://kirk.example/mcp#x":       false,
		"https://kirk.example//mcp":        false,
		"https://kirk.example/%6dcp":       false,
		"https://kirk.example/mcp//":       false,
		"https://kirk.example.:443/mcp":    false,
		"https://kirk.example:443:443/mcp": false,
	} {
		if got := canonical(name) == kirk; got != want {
			t.Errorf("%s is %s: %t", name, kirk, got)
		}
	}
}

// A good token leads to the expected identity.
func TestIdentityOfTokens(t *testing.T) {
	s := newScene(t, ", types: [at+jwt, JWT], audience: [api://belljar, \"https://x.example/\"]", "  scopes: {read: {tools: Read}, run: {tools: Bash}}\n")
	exp := s.now.Unix() + 300
	for what, tt := range map[string]struct {
		token string
		want  mcp.Identity
	}{
		"scope":            {s.token("aud", "api://belljar", "scope", "run openid read run"), mcp.Identity{Tenant: "a", Scopes: []string{"read", "run"}}},
		"scp":              {s.token("aud", "https://x.example", "scp", []any{"run", 7}), mcp.Identity{Tenant: "a", Scopes: []string{"run"}}},
		"scp as text":      {s.token("aud", "api://belljar", "scp", "read"), mcp.Identity{Tenant: "a", Scopes: []string{"read"}}},
		"no scopes at all": {s.token("aud", "api://belljar", "org", "beta"), mcp.Identity{Tenant: "b", Scopes: []string{}}},
		"the type JWT":     {sign(t, s.key.Key, with("typ", "JWT"), s.claims("aud", "api://belljar")), mcp.Identity{Tenant: "a", Scopes: []string{}}},
	} {
		tt.want.Principal, tt.want.Expires, tt.want.Credential = s.stand.URL+"|ann", time.Unix(exp, 0).Add(skew), "issuer:1"
		for range 2 { // the second time from the cache
			id, err := s.Authenticate(t.Context(), tt.token)
			if err != nil || !id.Expires.Equal(tt.want.Expires) {
				t.Errorf("%s: %v, %v", what, id, err)
			}
			if id.Expires = tt.want.Expires; !reflect.DeepEqual(id, tt.want) {
				t.Errorf("%s: got %#v, want %#v", what, id, tt.want)
			}
		}
	}
	if _, err := s.Authenticate(t.Context(), s.token("aud", ours)); reasonOf(err) != Audience {
		t.Errorf("our own address, where the policy names another audience: %v", err)
	}
}

// Tokens that name unknown keys lead to few fetches, and do not delay other callers.
func TestUnknownKeysLeadToFewFetches(t *testing.T) {
	s := newScene(t, "", "")
	good := s.token()
	if _, err := s.Authenticate(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	for i := range 10_000 {
		token := sign(t, s.key.Key, with("kid", fmt.Sprintf("k%d-%d", i, i*7)), `{"iss":"`+s.stand.URL+`"}`)
		if i%100 == 0 { // 10 seconds in total
			s.now = s.now.Add(100 * time.Millisecond)
		}
		if _, err := s.Authenticate(t.Context(), token); reasonOf(err) != Key {
			t.Fatalf("token %d: %v", i, err)
		}
		if i%50 == 0 {
			began := time.Now()
			if _, err := s.Authenticate(t.Context(), s.token("jti", fmt.Sprint(i))); err != nil {
				t.Fatalf("a good token meanwhile: %v", err)
			}
			longest = max(longest, time.Since(began))
		}
	}
	if n := s.stand.fetches.Load(); n > 2 {
		t.Errorf("%d fetches, want 2 at most", n)
	}
	t.Logf("a good token took %v at most", longest)
	keys := s.trusted.Load().issuers[s.stand.URL].keys
	keys.mu.Lock()
	if len(keys.unknown) > maxUnknown {
		t.Errorf("%d unknown keys are remembered", len(keys.unknown))
	}
	keys.mu.Unlock()
	// A new key is found as soon as the next fetch is allowed.
	next := ecKey(t, "k2")
	s.stand.has(s.key, next)
	s.now = s.now.Add(coolDown)
	rotated := sign(t, next.Key, with("kid", "k2"), s.claims())
	if _, err := s.Authenticate(t.Context(), rotated); err != nil {
		t.Errorf("a new key: %v", err)
	}
}

// An unknown key is remembered for longer than the pause after a fetch. A client that uses
// it again leads to no fetch until unknownFor has passed.
func TestUnknownKeyIsRemembered(t *testing.T) {
	s := newScene(t, "", "")
	if _, err := s.Authenticate(t.Context(), s.token()); err != nil {
		t.Fatal(err)
	}
	unknown := sign(t, s.key.Key, with("kid", "k2"), s.claims())
	for i, tt := range []struct {
		after   time.Duration
		fetches int64
	}{{coolDown, 2}, {coolDown + time.Second, 2}, {unknownFor - coolDown, 3}} {
		s.now = s.now.Add(tt.after)
		if _, err := s.Authenticate(t.Context(), unknown); reasonOf(err) != Key {
			t.Errorf("token %d: %v", i, err)
		}
		if n := s.stand.fetches.Load(); n != tt.fetches {
			t.Errorf("after token %d: %d fetches, want %d", i, n, tt.fetches)
		}
	}
}

// If the answer is not a valid set of keys, the known keys stay, and the next fetch waits
// as long as after a good answer.
func TestBadKeySets(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	another, elsewhere := ecKey(t, "another"), newStand(t)
	elsewhere.has(another)
	other, err := another.Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	private, err := another.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	weak := func(modulus []byte) string {
		return fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"w","n":%q,"e":"AQAB"}]}`, part(string(modulus)))
	}
	metadata := func(rw http.ResponseWriter) {
		rw.Header().Set("Location", "https://169.254.169.254/latest/meta-data/")
		rw.WriteHeader(http.StatusFound)
	}
	endless := func(rw http.ResponseWriter) {
		text := []byte(`{"keys":[` + strings.Repeat(" ", 1<<16))
		for range 8000 { // 500 MiB
			if _, err := rw.Write(text); err != nil {
				return
			}
		}
	}
	text := func(s string) func(http.ResponseWriter) { return func(rw http.ResponseWriter) { rw.Write([]byte(s)) } }
	for what, does := range map[string]func(http.ResponseWriter){
		"endless":    endless,
		"a redirect": metadata,
		"a redirect to keys": func(rw http.ResponseWriter) {
			rw.Header().Set("Location", elsewhere.URL+"/keys")
			rw.WriteHeader(http.StatusFound)
		},
		"an error":             func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusInternalServerError) },
		"empty":                text(`{"keys":[]}`),
		"no set":               text(`[]`),
		"no JSON":              text(`<html>`),
		"two sets":             text(`{"keys":[],"keys":[]}`),
		"a key of 1024 bits":   text(weak(small.N.Bytes())),
		"a key of 512 bits":    text(weak(small.N.Bytes()[:64])),
		"a private key":        text(`{"keys":[` + string(private) + `]}`),
		"a key for encryption": text(`{"keys":[{"kty":"EC","use":"enc","crv":"P-256","x":"AA","y":"AA"}]}`),
		"a shared secret":      text(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`),
		"more than is read":    text(`{"keys":[` + string(other) + `]` + strings.Repeat(" ", maxDocument) + `}`),
		"more, behind its end": text(`{"keys":[` + string(other) + `]}` + strings.Repeat(" ", maxDocument)),
		"too many keys":        text(`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"x"},`, 200), ",") + `]}`),
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, "", "")
			if _, err := s.Authenticate(t.Context(), s.token()); err != nil {
				t.Fatal(err)
			}
			s.stand.does(does)
			for i := range 3 {
				s.now = s.now.Add(leastFresh + time.Second) // from now on the keys should be fetched again
				unknown := sign(t, s.key.Key, with("kid", fmt.Sprint("new", i)), s.claims())
				if _, err := s.Authenticate(t.Context(), unknown); reasonOf(err) != Key {
					t.Errorf("a new key: %v", err)
				}
				if _, err := s.Authenticate(t.Context(), s.token()); err != nil {
					t.Errorf("a key that was known: %v", err)
				}
				if _, err := s.Authenticate(t.Context(), unknown); reasonOf(err) != Key {
					t.Errorf("a new key, at once again: %v", err)
				}
			}
			if n := s.stand.fetches.Load(); n != 4 {
				t.Errorf("%d fetches, want 4", n)
			}
			if bad := s.Degraded(); len(bad) != 1 || bad[0].Issuer != s.stand.URL || bad[0].Why == nil {
				t.Errorf("degraded: %v", bad)
			}
			// After a day the known keys are not used any more, and the error does not say
			// that the token is bad.
			s.now = s.now.Add(maxStale)
			if _, err := s.Authenticate(t.Context(), s.token()); !errors.Is(err, mcp.ErrUnavailable) {
				t.Errorf("after a day: %v", err)
			}
			s.now = s.now.Add(coolDown)
			s.stand.has(s.key)
			if _, err := s.Authenticate(t.Context(), s.token()); err != nil {
				t.Errorf("when the keys are there again: %v", err)
			}
			if bad := s.Degraded(); len(bad) > 0 {
				t.Errorf("still degraded: %v", bad)
			}
		})
	}
	t.Run("a private key from the first", func(t *testing.T) {
		s := newScene(t, "", "")
		private, err := s.key.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		s.stand.answers(`{"keys":[` + string(private) + `]}`)
		if _, err := s.Authenticate(t.Context(), s.token()); !errors.Is(err, mcp.ErrUnavailable) || strings.Contains(err.Error(), `"d"`) {
			t.Errorf("got %v", err)
		}
	})
}

// The clock of the machine decides which tokens have expired, because issuers mean that
// clock. When the clock is set, the next fetch of keys is neither delayed nor hastened.
func TestClockIsSet(t *testing.T) {
	s := newScene(t, "", "")
	asks := 0
	fetched := func(want int64) {
		t.Helper()
		asks++
		if _, err := s.Authenticate(t.Context(), sign(t, s.key.Key, with("kid", fmt.Sprint("new", asks)), s.claims())); reasonOf(err) != Key {
			t.Errorf("an unknown key: %v", err)
		}
		if n := s.stand.fetches.Load(); n != want {
			t.Errorf("%d fetches, want %d", n, want)
		}
	}
	token := s.token("exp", s.now.Unix()+600)
	accepted := func(want Reason) {
		t.Helper()
		if _, err := s.Authenticate(t.Context(), token); (err == nil) != (want == "") || err != nil && reasonOf(err) != want {
			t.Errorf("the token: %v, want %q", err, want)
		}
	}
	accepted("")
	fetched(1)
	s.now = testenv.SetClock(s.now, time.Hour, time.Second)
	accepted(Expired)
	fetched(1) // too soon for another fetch
	s.now = testenv.SetClock(s.now, -time.Hour, time.Second)
	accepted("")
	fetched(1)
	s.now = testenv.SetClock(s.now, -time.Hour, coolDown)
	fetched(2)
}

// A key that the issuer withdraws is accepted only until the next fetch.
func TestWithdrawnKey(t *testing.T) {
	s := newScene(t, "", "")
	long := s.token("exp", s.now.Add(10*time.Hour).Unix())
	if _, err := s.Authenticate(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	s.stand.has(ecKey(t, "k2"))
	s.now = s.now.Add(leastFresh)
	_, _ = s.Authenticate(t.Context(), long) // this call begins the fetch
	keys := s.trusted.Load().issuers[s.stand.URL].keys
	keys.mu.Lock()
	flight := keys.flight
	keys.mu.Unlock()
	if flight != nil {
		<-flight
	}
	if _, err := s.Authenticate(t.Context(), long); reasonOf(err) != Key {
		t.Errorf("a token of a withdrawn key: %v", err)
	}
}

// If the metadata name another issuer, that is a mistake in the policy, or an attack.
func TestMetadataOfAnother(t *testing.T) {
	s := newScene(t, "", "")
	s.stand.names("https://other.example")
	err := s.Prepare(t.Context())
	if err == nil || !strings.Contains(err.Error(), s.stand.URL) || !strings.Contains(err.Error(), "https://other.example") {
		t.Errorf("got %v, want both names", err)
	}
	if _, err := s.Authenticate(t.Context(), s.token()); !errors.Is(err, mcp.ErrUnavailable) {
		t.Errorf("its token: %v", err)
	}
	if n := s.stand.fetches.Load(); n > 0 {
		t.Errorf("its keys were fetched %d times", n)
	}
}

// A host of an issuer is reached at an address that is not public only if the policy lists
// the address.
func TestKeysOfPrivateAddresses(t *testing.T) {
	stand := newStand(t)
	stand.has(ecKey(t, "k1"))
	for _, addresses := range []string{"", ", addresses: 10.0.0.0/8"} {
		p, err := policies.Parse("p.yaml", []byte(fmt.Sprintf("version: 1\nprofiles: {p: {}}\ntenants: {a: {}}\nauth: {issuers: [{url: %q, tenant: a%s}]}\n", stand.URL, addresses)))
		if err != nil {
			t.Fatal(err)
		}
		a := New(Config{Known: func(string) bool { return true }, Roots: stand.roots(), Log: slog.New(slog.DiscardHandler)})
		a.Trust(p)
		if err := a.Prepare(t.Context()); err != nil {
			t.Error(err)
		}
		if bad := a.Degraded(); len(bad) != 1 || !strings.Contains(bad[0].Why.Error(), "127.0.0.1 is not a public address") {
			t.Errorf("degraded: %v", bad)
		}
		a.Close()
	}
	if n := stand.fetches.Load(); n > 0 {
		t.Errorf("%d requests reached it", n)
	}
}

// When the policy does not name an issuer any more, its tokens are refused immediately,
// also those in the cache. An issuer that stays keeps its keys.
func TestTrustChanges(t *testing.T) {
	s := newScene(t, "", "")
	token := s.token()
	if _, err := s.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	policy := func(text string) *policies.Policy {
		p, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {p: {}}\ntenants: {a: {}, b: {}}\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.Trust(policy(fmt.Sprintf("auth: {issuers: [{url: %q, addresses: 127.0.0.0/8, tenant: b}]}\n", s.stand.URL)))
	if id, err := s.Authenticate(t.Context(), token); err != nil || id.Tenant != "b" {
		t.Errorf("with another tenant: %v, %v", id, err)
	}
	if n := s.stand.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	s.Trust(policy(""))
	if _, err := s.Authenticate(t.Context(), token); reasonOf(err) != Issuer {
		t.Errorf("without issuers: %v", err)
	}
	s.Close()
	if _, err := s.Authenticate(t.Context(), token); reasonOf(err) != Issuer {
		t.Errorf("after Close: %v", err)
	}
}

// TestHolds checks that Holds is true for an identity until its permission is withdrawn.
// The server then ends its open streams.
func TestHolds(t *testing.T) {
	s := newScene(t, "", "")
	policy := func(more string) *policies.Policy {
		p, err := policies.Parse("p.yaml", []byte(fmt.Sprintf("version: 1\nprofiles: {p: {}}\ntenants: {a: {}, b: {}}\nauth: {issuers: [{url: %q, addresses: 127.0.0.0/8, tenant_of: {claim: org, map: {acme: a}}%s}]}\n", s.stand.URL, more)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.Trust(policy(""))
	let := func(token string) mcp.Identity {
		t.Helper()
		id, err := s.Authenticate(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	want := func(what string, id mcp.Identity, want bool) {
		t.Helper()
		if got := s.Holds(id); got != want {
			t.Errorf("%s: holds %t, want %t", what, got, want)
		}
	}
	id := let(s.token())
	want("a token of an issuer", id, true)
	s.Trust(policy(""))
	want("after a policy that says the same", id, true)
	s.Trust(policy(`, algorithms: [RS256]`))
	want("after a policy with another algorithm", id, false)
	s.Trust(policy(""))
	want("after the first policy again", id, false) // the client authenticates again, and is judged anew
	want("which was judged again", let(s.token()), true)
	want("nobody", mcp.Identity{}, false)
	want("without a credential", mcp.Identity{Tenant: "a"}, false)
	want("of an issuer without a credential", mcp.Identity{Tenant: "a", Principal: id.Principal}, false)

	one, two := Digest{"a", sha256.Sum256([]byte("one"))}, Digest{"a", sha256.Sum256([]byte("two"))}
	s.SetDigests([]Digest{one})
	first := let("one")
	want("a digest", first, true)
	s.SetDigests([]Digest{two})
	want("a digest that was rotated", first, false)
	want("the next digest", let("two"), true)
	s.SetDigests([]Digest{{"b", two.Sum}})
	want("a digest of another tenant now", mcp.Identity{Tenant: "a", Credential: digestCredential + string(two.Sum[:])}, false)

	b := openBook(t, t.TempDir(), s.Now)
	s.cfg.Book = b
	made, token := mustCreate(t, b, Token{Tenant: "a", Expires: s.now.Add(time.Hour)})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	own := let(token)
	want("a token of ours", own, true)
	s.now = s.now.Add(2 * time.Hour)
	want("a token that has expired", own, false)
	s.now = s.now.Add(-2 * time.Hour)
	if _, err := b.Revoke(t.Context(), []string{made.ID}); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("a token that was revoked", own, false)
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	keys := &keySet{got: time.Now(), fresh: time.Hour}
	for i := range 20_000 {
		c.add(sha256.Sum256([]byte(fmt.Sprint(i))), cached{until: time.Now().Add(time.Hour), id: mcp.Identity{Expires: time.Now().Add(time.Hour)}, keys: keys})
		if n := len(c.newer) + len(c.old); n > 2*cacheHalf {
			t.Fatalf("%d tokens in the cache", n)
		}
	}
	if _, known := c.find(sha256.Sum256([]byte("19999")), "", time.Now()); !known {
		t.Error("the last one is not known")
	}
	if _, known := c.find(sha256.Sum256([]byte("1")), "", time.Now()); known {
		t.Error("the first one is known")
	}
}

// FuzzJWT checks for any token that nothing panics, that only the issuer's keys are
// fetched, and that no token is accepted that the issuer did not sign.
func FuzzJWT(f *testing.F) {
	s := newScene(f, "", "")
	good := s.token()
	if _, err := s.Authenticate(f.Context(), good); err != nil {
		f.Fatal(err)
	}
	h, p, g := strings.Split(good, ".")[0], strings.Split(good, ".")[1], strings.Split(good, ".")[2]
	f.Add(h, p, g)
	f.Add(part(`{"alg":"none"}`), p, "")
	f.Add(part(`{"alg":"ES256","kid":"k1","crit":["x"]}`), p, g)
	f.Add("ew", "", "")
	f.Fuzz(func(t *testing.T, header, payload, sig string) {
		token := header + "." + payload + "." + sig
		_, err := s.Authenticate(t.Context(), token)
		if err == nil && token != good {
			t.Errorf("%s is accepted", token)
		}
	})
}

func BenchmarkJWT(b *testing.B) {
	s := newScene(b, "", "")
	var tokens []string
	for i := range 1000 {
		tokens = append(tokens, s.token("jti", fmt.Sprint(i)))
	}
	if _, err := s.Authenticate(b.Context(), tokens[0]); err != nil {
		b.Fatal(err)
	}
	for what, again := range map[string]bool{"first": false, "cached": true} {
		b.Run(what, func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i++; !again {
					if i%len(tokens) == 0 {
						s.trusted.Load().cache.mu.Lock()
						clear(s.trusted.Load().cache.newer)
						clear(s.trusted.Load().cache.old)
						s.trusted.Load().cache.mu.Unlock()
					}
				}
				if _, err := s.Authenticate(b.Context(), tokens[i%len(tokens)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
