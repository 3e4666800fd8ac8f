package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// issuer is an issuer that the policy names, and its keys.
type issuer struct {
	policies.Issuer
	keys *keySet
	// credential is the Identity.Credential of callers with tokens of this issuer. It
	// changes when the policy's entry for the issuer changes.
	credential string
}

// trust contains the issuers of one policy, and the tokens that were found to be valid.
// Only its cache changes.
type trust struct {
	issuers map[string]*issuer
	order   []string // URLs of issuers, in the order of the policy
	scopes  []string // scopes that the policy knows; empty if scopes do not matter
	cache   *cache
}

// sameKeys reports whether two issuers have their keys at the same address.
func sameKeys(a, b *policies.Issuer) bool {
	return a.URL == b.URL && a.Keys == b.Keys && slices.Equal(a.Addresses, b.Addresses)
}

// Trust replaces the issuers whose tokens are accepted by those of a policy. An issuer that
// stays keeps its keys, and the time of its next fetch.
func (a *Authenticator) Trust(p *policies.Policy) {
	a.trusting.Lock()
	defer a.trusting.Unlock()
	before := a.trusted.Load()
	now := &trust{issuers: make(map[string]*issuer), scopes: p.Login().Scopes(), cache: newCache()}
	kept := make(map[*keySet]bool)
	for _, one := range p.Login().Issuers() {
		next := &issuer{Issuer: one}
		if before != nil && before.issuers[one.URL] != nil && sameKeys(&one, &before.issuers[one.URL].Issuer) {
			next.keys = before.issuers[one.URL].keys
			kept[next.keys] = true
		} else {
			next.keys = newKeySet(one.URL, one.Keys, newFetcher(one.Addresses, a.cfg.Roots), a.cfg.Now)
		}
		next.Audience = slices.Clone(one.Audience)
		for i, audience := range next.Audience {
			next.Audience[i] = canonical(audience)
		}
		a.terms++
		next.credential = fmt.Sprintf("issuer:%d", a.terms)
		if before != nil && before.issuers[one.URL] != nil && reflect.DeepEqual(next.Issuer, before.issuers[one.URL].Issuer) {
			next.credential = before.issuers[one.URL].credential // not if the entry has conditions that were parsed again: such conditions are never equal
		}
		now.issuers[one.URL] = next
		now.order = append(now.order, one.URL)
	}
	a.trusted.Store(now)
	if before == nil {
		return
	}
	for _, old := range before.issuers {
		if !kept[old.keys] {
			old.keys.close()
		}
	}
}

// Prepare fetches the keys of all issuers. It fails only if the metadata of an issuer are
// those of another issuer: that is a mistake in the policy, or an attack. Keys that cannot
// be fetched now are fetched when a token needs them.
func (a *Authenticator) Prepare(ctx context.Context) error {
	t := a.trusted.Load()
	if t == nil {
		return nil
	}
	var wg sync.WaitGroup
	for _, i := range t.issuers {
		wg.Go(func() { i.keys.prepare(ctx) })
	}
	wg.Wait()
	var wrong error
	for _, i := range t.issuers {
		if err := i.keys.fault(); errors.Is(err, errIssuer) {
			wrong = errors.Join(wrong, err)
		} else if err != nil {
			a.cfg.Log.Error("the keys of an issuer cannot be fetched; its tokens are not accepted until they can be fetched", "issuer", i.URL, "err", err)
		}
	}
	return wrong
}

// prepare fetches the keys if they were never fetched.
func (k *keySet) prepare(ctx context.Context) {
	k.mu.Lock()
	flight := k.flight
	if k.got.IsZero() && k.begin(k.now()) {
		flight = k.flight
	}
	k.mu.Unlock()
	if flight == nil {
		return
	}
	select {
	case <-flight:
	case <-ctx.Done():
	}
}

// fault returns the error of the last fetch.
func (k *keySet) fault() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// Degraded is an issuer whose keys could not be fetched the last time.
type Degraded struct {
	Issuer string
	Why    error
	Since  time.Time
}

// Degraded returns the issuers whose last fetch of keys failed. Known keys are still used
// for a day.
func (a *Authenticator) Degraded() (all []Degraded) {
	t := a.trusted.Load()
	if t == nil {
		return nil
	}
	for _, i := range t.issuers {
		i.keys.mu.Lock()
		if i.keys.failed != nil {
			all = append(all, Degraded{i.URL, i.keys.failed, i.keys.since})
		}
		i.keys.mu.Unlock()
	}
	order.By(all, func(a, b *Degraded) int { return cmp.Compare(a.Issuer, b.Issuer) })
	return all
}

// Close cancels the running fetches, and waits for them. No key is fetched afterwards.
func (a *Authenticator) Close() {
	a.trusting.Lock()
	defer a.trusting.Unlock()
	if t := a.trusted.Swap(nil); t != nil {
		for _, i := range t.issuers {
			i.keys.close()
		}
	}
}

// SetResource sets the URL by which clients know this server. It is the audience of tokens
// if the policy names no audience for their issuer.
func (a *Authenticator) SetResource(url string) {
	name := canonical(url)
	a.resource.Store(&name)
}

// jwt is Authenticate for a token of an issuer.
func (a *Authenticator) jwt(ctx context.Context, token string) (id mcp.Identity, err error) {
	t := a.trusted.Load()
	if t == nil || len(t.issuers) == 0 {
		return id, refuse(Issuer, "", "the policy names no issuers")
	}
	now := a.cfg.Now()
	sum, place := sha256.Sum256([]byte(token)), placeIn(ctx)
	if id, known := t.cache.find(sum, place, now); known {
		return id, nil
	}
	read, bad := readJWT(token)
	if bad != nil {
		return id, bad
	}
	from := t.issuers[read.issuer]
	switch {
	case from == nil:
		return id, refuse(Issuer, "", "the policy does not name the issuer %q", clip(read.issuer))
	case !slices.Contains(from.Algorithms, read.alg):
		return id, refuse(Algorithm, from.URL, "it is signed by %q", clip(read.alg))
	case !read.typed(&from.Issuer):
		return id, refuse(Type, from.URL, "its type is %q", clip(read.typ))
	}
	key, version, err := from.keys.find(ctx, read.kid, read.alg)
	switch {
	case errors.Is(err, errNoKey):
		return id, refuse(Key, from.URL, "the issuer has no key with the id %q for %s", clip(read.kid), read.alg)
	case err != nil:
		return id, err
	case !signed(token, read.alg, key):
		return id, refuse(Signature, from.URL, "the issuer did not sign it")
	}
	// The signature is checked, so from here on the claims are those of the issuer.
	audience, only := a.audience(from, read, place)
	expires, bad := read.check(now, audience)
	if bad != nil {
		return id, bad
	}
	tenant, why := from.Tenant(read.claims)
	if tenant == "" {
		return id, refuse(NoTenant, read.principal(), "%s", why)
	}
	id = mcp.Identity{Tenant: tenant, Principal: read.principal(), Expires: expires, Credential: from.credential}
	if len(t.scopes) > 0 {
		id.Scopes = read.scopes(t.scopes)
	}
	t.cache.add(sum, cached{id: id, only: only, until: now.Add(cacheFor), keys: from.keys, version: version})
	return id, nil
}

// audience returns the audiences that a token of an issuer may name in a place: those of
// the policy, or otherwise the server and the place. only is the place if the token names
// the place but not the server: such a token is valid in that place alone.
func (a *Authenticator) audience(from *issuer, read jwt, place string) (names []string, only string) {
	server := a.resource.Load()
	switch {
	case len(from.Audience) > 0:
		return from.Audience, ""
	case server == nil:
		return nil, ""
	case place == "" || read.names([]string{*server}):
		return []string{*server}, ""
	}
	return []string{*server, resourceAt(*server, place)}, place
}

// To check a signature costs more than the rest of a login, and a client sends the same
// token with each request. Therefore valid tokens are cached.
const (
	cacheFor  = 5 * time.Minute
	cacheHalf = 2048 // number of tokens in one half of the cache
)

// cached is a token that was found to be valid.
type cached struct {
	id      mcp.Identity
	only    string // path of the only place where the token is valid; empty if it is valid everywhere
	until   time.Time
	keys    *keySet
	version int // version of the keys at that time
}

// cache contains the tokens that were found to be valid, by their SHA-256. It has two
// halves: when the newer half is full, the older half is dropped.
type cache struct {
	mu         sync.Mutex
	newer, old map[[sha256.Size]byte]cached // guarded by mu
}

func newCache() *cache { return &cache{newer: make(map[[sha256.Size]byte]cached)} }

// find returns the identity of a token in a place, if the cache contains it. The issuer may
// have withdrawn the key, so a token is forgotten when the keys have been fetched again.
func (c *cache) find(sum [sha256.Size]byte, place string, now time.Time) (id mcp.Identity, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.newer[sum]
	if !known {
		if one, known = c.old[sum]; known {
			delete(c.old, sum)
			c.put(sum, one)
		}
	}
	switch {
	case !known, one.only != "" && one.only != place:
		return id, false
	case now.Before(one.until) && now.Before(one.id.Expires) && one.keys.current(one.version, now):
		return one.id, true
	}
	delete(c.newer, sum)
	return id, false
}

func (c *cache) add(sum [sha256.Size]byte, one cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(sum, one)
}

// put adds a token. The caller holds mu.
func (c *cache) put(sum [sha256.Size]byte, one cached) {
	if len(c.newer) >= cacheHalf {
		c.newer, c.old = make(map[[sha256.Size]byte]cached), c.newer
	}
	c.newer[sum] = one
}

// current reports whether the keys still have a version and are not too old. If they should
// be fetched again, it starts a fetch.
func (k *keySet) current(version int, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.got) >= k.fresh {
		k.begin(now)
	}
	return k.version == version && now.Sub(k.got) < maxStale
}
