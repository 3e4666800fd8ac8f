package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
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
	"time"

	"belljar.dev/mcp/wire"
)

// A person logs in at an OpenID Provider by the code flow (OpenID Connect Core 1.0, 3.1):
//
//  1. Begin makes a state, a nonce and a code verifier, and the address to which the browser is sent.
//     The caller keeps the PendingLogin, so that only the browser that began the login can end it.
//  2. The provider asks the person to log in, and redirects the browser back with a code and the
//     state.
//  3. Finish exchanges the code for an ID token, with the verifier (RFC 7636) and the secret of the
//     client, and checks the token: 3.1.3.7 of the specification.
//
// Every document that is fetched has the bounds of a fetcher. It comes from the provider that the
// operator has named, or from the hosts that the provider's metadata name.

// ProviderConfig describes the provider at which people log in.
type ProviderConfig struct {
	Issuer     string         // URL of the provider, exactly as in its metadata
	Client     string         // client_id of belljar at the provider
	Scopes     []string       // requested scopes, with openid
	Algorithms []string       // accepted algorithms of ID tokens
	Addresses  []netip.Prefix // addresses of its hosts that are allowed in addition to public ones
	Roots      *x509.CertPool // certificates for its hosts; nil for those of the system
	Now        func() time.Time
}

// Provider is an OpenID Provider at which people log in. Its methods are safe for
// concurrent use. Close ends its requests.
type Provider struct {
	cfg   ProviderConfig
	fetch *fetcher
	keys  *keySet

	requests sync.WaitGroup // requests to the metadata and token endpoints; keys waits for its own
	once     sync.Once      // closes keys once

	mu      sync.Mutex
	known   endpoints                       // guarded by mu
	got     time.Time                       // guarded by mu: when known was fetched; zero if never
	failed  error                           // guarded by mu: error of the last fetch
	next    time.Time                       // guarded by mu: earliest time of the next fetch
	closed  bool                            // guarded by mu: set by Close; no request begins after it
	cancels map[int]context.CancelCauseFunc // guarded by mu: cancel functions of running requests, by number
	started int                             // guarded by mu: number of requests since New; next key of cancels
}

// endpoints are the fields that belljar uses of a provider's metadata (OpenID Connect
// Discovery 1.0, 3).
type endpoints struct {
	Issuer string   `json:"issuer"`
	Begin  string   `json:"authorization_endpoint"`
	Token  string   `json:"token_endpoint"`
	Auth   []string `json:"token_endpoint_auth_methods_supported"`
}

// Bounds of logins.
const (
	endpointsFor = 10 * time.Minute // how long fetched metadata are used
	endpointsGap = 5 * time.Second  // shortest time between two fetches of metadata: anybody can begin a login
	maxCode      = 4096             // length of an authorization code in bytes
)

// PendingLogin is a login that has begun. Its owner can end it with the code.
type PendingLogin struct {
	URL      string `json:"-"` // address to which the browser is sent
	Issuer   string `json:"issuer"`
	Redirect string `json:"redirect"` // URL to which the provider redirects the browser
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// NewProvider returns a provider, and fetches nothing yet.
func NewProvider(cfg ProviderConfig) *Provider {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	fetch := newFetcher(cfg.Addresses, cfg.Roots)
	return &Provider{cfg: cfg, fetch: fetch, keys: newKeySet(cfg.Issuer, "", fetch, cfg.Now), cancels: make(map[int]context.CancelCauseFunc)}
}

// ErrClosed is returned by calls of Begin and Finish after Close, and by calls that wait
// for the provider when Close is called.
var ErrClosed = errors.New("logins at this provider have ended")

// Close cancels all requests to the provider that are under way, and waits until they have ended.
// No request is made afterwards. It may be called several times, also concurrently.
func (p *Provider) Close() {
	p.mu.Lock()
	p.closed = true
	for _, cancel := range p.cancels {
		cancel(ErrClosed)
	}
	p.mu.Unlock()
	p.requests.Wait()
	p.once.Do(p.keys.close)
}

// request returns a context for one request to the provider. Close cancels the context. The
// caller calls end when the request has ended. The error is ErrClosed.
func (p *Provider) request(ctx context.Context) (_ context.Context, end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := p.started
	p.started++
	p.cancels[id] = cancel
	p.requests.Add(1)
	return ctx, func() {
		p.mu.Lock()
		delete(p.cancels, id)
		p.mu.Unlock()
		cancel(nil)
		p.requests.Done()
	}, nil
}

// closedOr returns the error of a request: ErrClosed if Close has cancelled it, otherwise
// err.
func closedOr(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return err
}

// endpoints returns the metadata, and fetches them again if the last fetch was long ago.
// Anybody can cause this call, so the time of the next fetch is set before a fetch begins,
// whatever its result is. If the provider does not answer, the known metadata stay in use
// for a day.
func (p *Provider) endpoints(ctx context.Context) (endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	if p.closed {
		return endpoints{}, ErrClosed
	}
	if now.Before(p.next) {
		return p.knownEndpoints(now)
	}
	p.next, p.failed = now.Add(fetchTime+endpointsGap), errFetching
	p.mu.Unlock()
	e, err := p.metadata(context.WithoutCancel(ctx)) // other calls use the result too, and the time of the fetch is bounded
	p.mu.Lock()
	now = p.cfg.Now()
	if p.failed, p.next = err, now.Add(endpointsGap); err == nil {
		p.known, p.got, p.next = e, now, now.Add(endpointsFor)
	}
	if p.closed {
		return endpoints{}, ErrClosed
	}
	return p.knownEndpoints(now)
}

// knownEndpoints returns the metadata that are known, or the error of the last fetch. The
// caller holds mu.
func (p *Provider) knownEndpoints(now time.Time) (endpoints, error) {
	if p.got.IsZero() || now.Sub(p.got) >= maxStale {
		return endpoints{}, p.failed
	}
	return p.known, nil
}

// errFetching is returned while another call fetches the metadata.
var errFetching = errors.New("another login is fetching the metadata of the provider")

// metadata fetches the metadata.
func (p *Provider) metadata(ctx context.Context) (e endpoints, err error) {
	ctx, end, err := p.request(ctx)
	if err != nil {
		return e, err
	}
	defer end()
	from := metadataOf(p.cfg.Issuer)[0]
	text, _, err := p.fetch.get(ctx, from)
	switch {
	case err != nil:
		return e, closedOr(ctx, err)
	case wire.CheckJSON(text, maxDepth) != nil || json.Unmarshal(text, &e) != nil:
		return e, fmt.Errorf("%s: it is not valid JSON", from)
	case e.Issuer != p.cfg.Issuer:
		return e, fmt.Errorf("%s: %w: the policy has %s, and they have %q", from, errIssuer, p.cfg.Issuer, clip(e.Issuer))
	}
	for name, at := range map[string]string{"authorization_endpoint": e.Begin, "token_endpoint": e.Token} {
		if u, err := url.Parse(at); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return e, fmt.Errorf("%s: its %s is not a URL of https", from, name)
		}
	}
	return e, nil
}

// Begin begins a login that ends at the URL redirect.
func (p *Provider) Begin(ctx context.Context, redirect string) (v PendingLogin, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	e, err := p.endpoints(ctx)
	if err != nil {
		return v, err
	}
	v = PendingLogin{Issuer: p.cfg.Issuer, Redirect: redirect, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}
	challenge := sha256.Sum256([]byte(v.Verifier))
	to, err := url.Parse(e.Begin)
	if err != nil {
		return v, err
	}
	q := to.Query() // the URL may have a query, which is kept (RFC 6749, 3.1)
	for name, value := range map[string]string{
		"response_type": "code", "client_id": p.cfg.Client, "redirect_uri": redirect, "scope": strings.Join(p.cfg.Scopes, " "), "state": v.State, "nonce": v.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	to.RawQuery = q.Encode()
	v.URL = to.String()
	return v, nil
}

// Finish ends a login, and returns the claims of the ID token, which the provider has
// signed. The caller must compare the state. The error is a *Refusal if the token is not
// accepted.
func (p *Provider) Finish(ctx context.Context, v PendingLogin, code, secret string) (map[string]any, error) {
	if v.Issuer != p.cfg.Issuer {
		return nil, errors.New("the login began at another provider")
	}
	if code == "" || len(code) > maxCode {
		return nil, errors.New("the provider sent no code")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTime)
	defer cancel()
	e, err := p.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.exchange(ctx, e, v, code, secret)
	if err != nil {
		return nil, err
	}
	return p.claims(ctx, token, v.Nonce)
}

// exchange exchanges a code for the ID token.
func (p *Provider) exchange(ctx context.Context, e endpoints, v PendingLogin, code, secret string) (string, error) {
	ctx, end, err := p.request(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {v.Redirect}, "code_verifier": {v.Verifier}}
	// If the provider names no method, the secret is sent in the header: OpenID Connect
	// Discovery 1.0, 3.
	byHeader := len(e.Auth) == 0 || slices.Contains(e.Auth, "client_secret_basic")
	if secret == "" || !byHeader {
		form.Set("client_id", p.cfg.Client)
	}
	if secret != "" && !byHeader {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "belljar")
	if secret != "" && byHeader {
		req.SetBasicAuth(url.QueryEscape(p.cfg.Client), url.QueryEscape(secret)) // RFC 6749, 2.3.1
	}
	resp, err := p.fetch.client.Do(req)
	if err != nil {
		return "", closedOr(ctx, err)
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.Token, closedOr(ctx, err))
	}
	var said struct {
		Token string `json:"id_token"`
		Error string `json:"error"`
	}
	valid := wire.CheckJSON(text, maxDepth) == nil && json.Unmarshal(text, &said) == nil
	switch {
	case resp.StatusCode != http.StatusOK && valid && said.Error != "":
		return "", fmt.Errorf("%s: it answers with status %d, %q", e.Token, resp.StatusCode, clip(said.Error))
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: it answers with status %d", e.Token, resp.StatusCode)
	case !valid || said.Token == "":
		return "", fmt.Errorf("%s: there is no ID token in its answer", e.Token)
	}
	return said.Token, nil
}

// claims returns the claims of an ID token, after it was checked: the provider has signed
// it for this client and this login, and it has not expired.
func (p *Provider) claims(ctx context.Context, token, nonce string) (map[string]any, error) {
	read, bad := readJWT(token)
	if bad != nil {
		return nil, bad
	}
	typ := strings.ToLower(strings.TrimPrefix(read.typ, "application/"))
	switch {
	case read.issuer != p.cfg.Issuer:
		return nil, refuse(Issuer, "", "its issuer is %q", clip(read.issuer))
	case !slices.Contains(p.cfg.Algorithms, read.alg):
		return nil, refuse(Algorithm, p.cfg.Issuer, "it is signed by %q", clip(read.alg))
	case typ != "" && typ != "jwt":
		return nil, refuse(Type, p.cfg.Issuer, "its type is %q", clip(read.typ))
	}
	key, _, err := p.keys.find(ctx, read.kid, read.alg)
	switch {
	case errors.Is(err, errNoKey):
		return nil, refuse(Key, p.cfg.Issuer, "the provider has no key with the id %q for %s", clip(read.kid), read.alg)
	case err != nil:
		return nil, err
	case !signed(token, read.alg, key):
		return nil, refuse(Signature, p.cfg.Issuer, "the provider did not sign it")
	}
	if bad := p.check(read.claims, nonce, read); bad != nil {
		return nil, bad
	}
	return read.claims, nil
}

// check checks the claims of an ID token that the provider has signed.
func (p *Provider) check(claims map[string]any, nonce string, read jwt) *Refusal {
	subject, _ := claims["sub"].(string)
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, notInSubject) {
		return refuse(Claims, "", "its subject is missing, or is not a short string")
	}
	whose, now := read.principal(), p.cfg.Now()
	said, _ := claims["nonce"].(string)
	if subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1 {
		return refuse(Claims, whose, "its nonce is not that of this login")
	}
	several := false
	switch aud := claims["aud"].(type) {
	case string:
		if aud != p.cfg.Client {
			return refuse(Audience, whose, "it is for another client")
		}
	case []any:
		if several = len(aud) > 1; !slices.Contains(aud, any(p.cfg.Client)) {
			return refuse(Audience, whose, "it is for other clients")
		}
	default:
		return refuse(Audience, whose, "it names no client")
	}
	// If there are several audiences, azp names the one that the token was made for.
	if azp, has := claims["azp"]; (several || has) && azp != any(p.cfg.Client) {
		return refuse(Audience, whose, "it was made for another client (azp)")
	}
	expires, ok := read.time("exp")
	switch {
	case !ok:
		return refuse(Claims, whose, "its claim exp (when it expires) is missing, or is not a number")
	case !now.Before(expires.Add(skew)):
		return refuse(Expired, whose, "at %s", expires.UTC().Format(time.RFC3339))
	}
	for _, name := range []string{"iat", "nbf"} {
		if _, has := claims[name]; !has && name == "nbf" {
			continue
		}
		if at, ok := read.time(name); !ok || at.After(now.Add(skew)) {
			return refuse(Claims, whose, "its claim %s is not a number, or is a time in the future", name)
		}
	}
	return nil
}
