package auth

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// Anybody can send a token that names a key which its issuer does not have. Therefore
// tokens lead to at most one fetch in coolDown, whatever the result is: the time of the
// next fetch is set before a fetch, known keys stay if the fetch fails or finds no such
// key, and callers whose key is known never wait.

// Times and bounds of a set of keys.
const (
	coolDown   = 30 * time.Second // shortest time between two fetches
	leastFresh = 10 * time.Minute // shortest time until a set is fetched again
	mostFresh  = 24 * time.Hour
	// maxStale is how long known keys are used if they cannot be fetched again: the issuer
	// may have withdrawn one of them.
	maxStale     = 24 * time.Hour
	unknownFor   = time.Minute // how long an unknown key is remembered
	maxUnknown   = 1024
	maxWaiting   = 64 // number of requests that wait for a fetch
	maxKeys      = 100
	leastRSABits = 2048
)

// publicKey is a key of an issuer.
type publicKey struct {
	kid string
	alg string // the only algorithm of the key; empty for every algorithm that fits
	key any
}

// keySet contains the keys of an issuer. Its methods are safe for concurrent use. close
// cancels a running fetch and waits for it.
type keySet struct {
	issuer string
	url    string // address of the keys; empty if the issuer's metadata contain it
	fetch  *fetcher
	now    func() time.Time

	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	keys    []publicKey          // guarded by mu
	got     time.Time            // guarded by mu: when keys were fetched; zero if never
	fresh   time.Duration        // guarded by mu: age at which keys are fetched again
	next    time.Time            // guarded by mu: earliest time of the next fetch
	flight  chan struct{}        // guarded by mu: closed when the running fetch ends; nil if no fetch runs
	found   string               // address from the metadata; used only by the running fetch
	waiting int                  // guarded by mu: number of requests that wait for a fetch
	unknown map[string]time.Time // guarded by mu: when the issuer was last found to lack a key, by kid
	failed  error                // guarded by mu: error of the last fetch
	since   time.Time            // guarded by mu: when fetches began to fail
	version int                  // guarded by mu: number of successful fetches
}

func newKeySet(issuer, address string, fetch *fetcher, now func() time.Time) *keySet {
	return &keySet{issuer: issuer, url: address, fetch: fetch, now: now, quit: make(chan struct{}), unknown: make(map[string]time.Time)}
}

func (k *keySet) close() {
	k.mu.Lock() // no fetch begins after this
	close(k.quit)
	k.mu.Unlock()
	k.wg.Wait()
}

// errNoKey is returned for a key that the issuer does not have.
var errNoKey = errors.New("its issuer has no such key")

// find returns the key that a token names, and the version of the set. It waits for a fetch
// only if the key is not known. The error is errNoKey, or wraps mcp.ErrUnavailable.
func (k *keySet) find(ctx context.Context, kid, alg string) (key any, version int, err error) {
	k.mu.Lock()
	now := k.now()
	known := !k.got.IsZero() && now.Sub(k.got) < maxStale
	if known {
		if key := k.match(kid, alg); key != nil {
			if now.Sub(k.got) >= k.fresh {
				k.begin(now)
			}
			defer k.mu.Unlock()
			return key, k.version, nil
		}
		if at, asked := k.unknown[kid]; asked && now.Sub(at) < unknownFor {
			k.mu.Unlock()
			return nil, 0, errNoKey
		}
	}
	if !k.begin(now) || k.waiting >= maxWaiting {
		defer k.mu.Unlock()
		if known && k.flight == nil {
			k.noteUnknown(kid, now)
			return nil, 0, errNoKey
		}
		return nil, 0, k.unavailable()
	}
	flight := k.flight
	k.waiting++
	k.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting--
	if k.got.IsZero() || now.Sub(k.got) >= maxStale {
		return nil, 0, k.unavailable()
	}
	if key := k.match(kid, alg); key != nil {
		return key, k.version, nil
	}
	if ctx.Err() != nil {
		return nil, 0, k.unavailable()
	}
	k.noteUnknown(kid, now)
	return nil, 0, errNoKey
}

// unavailable returns the error for a key that may exist. The caller holds mu.
func (k *keySet) unavailable() error {
	if k.failed != nil {
		return fmt.Errorf("%w: the keys of %s: %w", mcp.ErrUnavailable, k.issuer, k.failed)
	}
	return fmt.Errorf("%w: the keys of %s are being fetched", mcp.ErrUnavailable, k.issuer)
}

// noteUnknown remembers that a key does not exist. The caller holds mu.
func (k *keySet) noteUnknown(kid string, now time.Time) {
	if len(k.unknown) >= maxUnknown {
		clear(k.unknown)
	}
	k.unknown[kid] = now
}

// match returns the key with an id for an algorithm, or nil. For an empty id it returns the
// only key that fits the algorithm. The caller holds mu.
func (k *keySet) match(kid, alg string) (found any) {
	for _, one := range k.keys {
		if kid != "" && one.kid != kid || one.alg != "" && one.alg != alg || !fits(one.key, alg) {
			continue
		}
		if kid == "" && found != nil {
			return nil // several keys fit: a signature check for each would cost too much
		}
		found = one.key
		if kid != "" {
			return found
		}
	}
	return found
}

// fits reports whether a key has the type that an algorithm needs. The algorithm is named
// by a token, which must not choose how a key is used (RFC 8725, 3.1).
func fits(key any, alg string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		want, known := map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[key.Curve.Params().Name]
		return known && alg == want
	case ed25519.PublicKey:
		return len(key) == ed25519.PublicKeySize && alg == "EdDSA"
	}
	return false
}

// begin starts a fetch, unless a fetch runs already or it is too soon for one. It reports
// whether a fetch runs now. The caller holds mu.
func (k *keySet) begin(now time.Time) bool {
	if k.flight != nil {
		return true
	}
	if !k.next.IsZero() && now.Before(k.next) {
		return false
	}
	select {
	case <-k.quit:
		return false
	default:
	}
	k.next = now.Add(coolDown) // set before the fetch, so that its result does not matter
	flight := make(chan struct{})
	k.flight = flight
	k.wg.Go(func() {
		defer close(flight)
		// The fetch does not end with the request that began it, because other requests
		// wait for it too.
		ctx, cancel := context.WithTimeout(context.Background(), fetchTime) //nolint:forbidigo // the fetch outlives the request that began it; close ends the fetch
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-k.quit:
				cancel()
			case <-stop:
			}
		}()
		keys, fresh, err := k.load(ctx)
		k.settle(keys, fresh, err)
	})
	return true
}

// settle stores the result of a fetch. If the fetch failed, the known keys stay.
func (k *keySet) settle(keys []publicKey, fresh time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flight = nil
	now := k.now()
	if err != nil {
		if k.failed == nil {
			k.since = now
		}
		k.failed = err
		return
	}
	k.failed = nil
	k.keys, k.got, k.fresh = keys, now, fresh
	k.version++
	clear(k.unknown)
}

// load fetches the keys.
func (k *keySet) load(ctx context.Context) (keys []publicKey, fresh time.Duration, err error) {
	from := cmp.Or(k.url, k.found)
	if from == "" {
		if from, err = k.fetch.discover(ctx, k.issuer); err != nil {
			return nil, 0, err
		}
	}
	k.found = ""
	text, header, err := k.fetch.get(ctx, from)
	if err != nil {
		return nil, 0, err
	}
	k.found = from // unset if the fetch fails: the metadata may name another address then
	if keys, err = readKeys(text); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", from, err)
	}
	return keys, freshFor(header.Get("Cache-Control")), nil
}

// freshFor returns how long a set is not fetched again: the max-age of its Cache-Control,
// within bounds.
func freshFor(control string) time.Duration {
	for part := range strings.SplitSeq(control, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if seconds, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil {
			return min(max(time.Duration(seconds)*time.Second, leastFresh), mostFresh)
		}
	}
	return leastFresh
}

// readKeys parses a set of keys (RFC 7517, 5). A set that contains a private or a weak key
// is refused as a whole, because its author cannot be trusted to make keys. Keys that are
// not for signatures and keys of unknown types are left out.
func readKeys(text []byte) (all []publicKey, err error) {
	if wire.CheckJSON(text, maxDepth) != nil {
		return nil, errors.New("it is not valid JSON")
	}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if json.Unmarshal(text, &set) != nil {
		return nil, errors.New("it is not a set of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, more than the %d that are read", len(set.Keys), maxKeys)
	}
	for _, members := range set.Keys {
		one, err := readPublic(members)
		if err != nil {
			return nil, err
		}
		if one.key != nil {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no key for signatures")
	}
	return all, nil
}

// readPublic parses one key. The result has no key if the key is to be left out.
func readPublic(members map[string]any) (one publicKey, err error) {
	word := func(name string) string {
		s, _ := members[name].(string)
		return s
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
		if _, has := members[private]; has {
			return one, errors.New("it contains a private key")
		}
	}
	if use := word("use"); use != "" && use != "sig" {
		return one, nil
	}
	// Only the members that make up the key are used; its certificates (x5c, x5u) are
	// ignored.
	needed := make(map[string]any)
	for _, name := range []string{"kty", "crv", "x", "y", "n", "e"} {
		if value, has := members[name]; has {
			needed[name] = value
		}
	}
	text, err := json.Marshal(needed)
	if err != nil {
		return one, err
	}
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(text); err != nil || !key.Valid() {
		return one, nil //nolint:nilerr // the kind of this key is not known, so the key is left out
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < leastRSABits {
			return one, fmt.Errorf("it has an RSA key of %d bits, less than %d", public.N.BitLen(), leastRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return one, nil
	}
	return publicKey{kid: word("kid"), alg: word("alg"), key: key.Key}, nil
}

// fetchTime is the maximum duration of a fetch, with the fetch of the metadata before it.
const fetchTime = 5 * time.Second

// metadataOf returns the addresses at which the metadata of an issuer may be: those of
// OpenID Connect Discovery and of RFC 8414.
func metadataOf(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	path := strings.TrimSuffix(u.Path, "/")
	origin := u.Scheme + "://" + u.Host
	return []string{
		origin + path + "/.well-known/openid-configuration",
		origin + "/.well-known/oauth-authorization-server" + path,
	}
}

// errIssuer is wrapped by the error for metadata of another issuer.
var errIssuer = errors.New("the metadata are those of another issuer")

// discover returns the address of the key set, from the metadata of an issuer.
func (f *fetcher) discover(ctx context.Context, issuer string) (string, error) {
	var first error
	for _, from := range metadataOf(issuer) {
		text, _, err := f.get(ctx, from)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		var metadata struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if wire.CheckJSON(text, maxDepth) != nil || json.Unmarshal(text, &metadata) != nil {
			return "", fmt.Errorf("%s: it is not valid JSON", from)
		}
		if metadata.Issuer != issuer { // RFC 8414, 3.3: otherwise one issuer could pose as another
			return "", fmt.Errorf("%s: %w: the policy has %s, and they have %q", from, errIssuer, issuer, clip(metadata.Issuer))
		}
		if u, err := url.Parse(metadata.Keys); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "", fmt.Errorf("%s: its jwks_uri is not a URL of https", from)
		}
		return metadata.Keys, nil
	}
	return "", first
}

func clip(s string) string { return s[:min(len(s), 200)] }

// get fetches a document within the bounds that apply to all documents.
func (f *fetcher) get(ctx context.Context, from string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "belljar")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: it answers with status %d", from, resp.StatusCode)
	}
	text, err := readBounded(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	return text, resp.Header, nil
}
