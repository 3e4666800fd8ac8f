package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/mcp"
)

// Times of an Authenticator.
const (
	lookEvery = 500 * time.Millisecond // interval between two looks at the book
	// trustFor is how long an Authenticator uses the last state of the book if the book
	// cannot be read any more. During this time, a token that was revoked is still
	// accepted.
	trustFor = 10 * time.Second
	useEvery = time.Minute // interval at which the last uses are written
)

// Config is the configuration of an Authenticator.
type Config struct {
	Book  *Book                    // tokens made by belljar; nil without a state directory
	Known func(tenant string) bool // reports whether the policy in force names a tenant
	// Needed reports whether there are tenants, so that tokens matter. While it returns
	// false, Follow does not look at the book. A nil Needed counts as true.
	Needed func() bool
	Roots  *x509.CertPool   // certificates for the hosts of issuers; nil for those of the system
	Log    *slog.Logger     // required
	Now    func() time.Time // clock; nil means time.Now
}

// Authenticator finds out which caller a token belongs to. Its methods are safe for
// concurrent use. Close ends its fetches of keys.
type Authenticator struct {
	cfg      Config
	digests  atomic.Pointer[[]Digest]
	tokens   atomic.Pointer[snapshot]
	read     atomic.Pointer[time.Time] // last time when the book was read, with a monotonic clock
	trusted  atomic.Pointer[trust]
	resource atomic.Pointer[string] // URL of this server, see SetResource

	trusting sync.Mutex // held while trusted is changed
	terms    int        // guarded by trusting: number of the last credential given to an issuer

	mu   sync.Mutex
	uses map[string]time.Time // guarded by mu: last uses, by token id, that are not in the book yet
}

// New returns an Authenticator that knows no token yet.
func New(cfg Config) *Authenticator {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Authenticator{cfg: cfg, uses: make(map[string]time.Time)}
}

// SetDigests replaces the digests of tenants' tokens, and returns the digests before.
func (a *Authenticator) SetDigests(all []Digest) (before []Digest) {
	if held := a.digests.Swap(&all); held != nil {
		return *held
	}
	return nil
}

// Authenticate returns the identity of the caller that a token belongs to. Its errors are a
// *Refusal, or wrap mcp.ErrUnavailable.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (id mcp.Identity, err error) {
	switch {
	case isToken(token):
		id, err = a.own(token)
	case isJWT(token):
		id, err = a.jwt(ctx, token)
	default:
		id, err = a.digest(token)
	}
	switch {
	case err != nil:
		return mcp.Identity{}, err
	case !a.cfg.Known(id.Tenant):
		return mcp.Identity{}, refuse(NoTenant, id.Principal, "the policy names no tenant %s", id.Tenant)
	}
	return id, nil
}

// digest is Authenticate for a token whose digest is in the policy. All callers with a
// tenant's token are one principal, which keeps its sessions when the operator changes the
// token.
func (a *Authenticator) digest(token string) (id mcp.Identity, err error) {
	var all []Digest
	if held := a.digests.Load(); held != nil {
		all = *held
	}
	sum := sha256.Sum256([]byte(token))
	tenant, known := tenantOf(all, sum)
	if !known {
		return id, refuse(Unknown, "", "it is the token of no tenant")
	}
	return mcp.Identity{Tenant: tenant, Principal: "tenant:" + tenant, Credential: digestCredential + string(sum[:])}, nil
}

// unknownMAC is the HMAC that the secret of an unknown id is compared with, so that its
// refusal takes as long as that of a known id.
var unknownMAC = make([]byte, sha256.Size)

// own is Authenticate for a token made by belljar.
func (a *Authenticator) own(token string) (none mcp.Identity, err error) {
	id, secret, err := parseToken(token)
	if err != nil {
		return none, refuse(Malformed, "", "%v", err)
	}
	if a.cfg.Book == nil {
		return none, refuse(Unknown, "", "this server keeps no tokens: it has no state directory")
	}
	s, read := a.tokens.Load(), a.read.Load()
	if s == nil || read == nil || time.Since(*read) > trustFor {
		return none, fmt.Errorf("%w: the tokens in the state directory cannot be read", mcp.ErrUnavailable)
	}
	t, known := s.byID[id]
	mac := t.mac
	if !known {
		mac = unknownMAC
	}
	if !hmac.Equal(macOf(s.key, id, secret), mac) || !known {
		return none, refuse(Unknown, "", "it was not made here, or was forged")
	}
	now := a.cfg.Now()
	if why := t.State(now); why != "" {
		return none, refuse(why, t.Principal(), "")
	}
	a.note(id, now)
	return mcp.Identity{Tenant: t.Tenant, Principal: t.Principal(), Scopes: t.Scopes, Expires: t.Expires, Credential: t.Principal()}, nil
}

// Holds reports whether a caller with an identity would still be accepted: its token has
// not been revoked or rotated, and the policy's entries for its issuer and its tenant are
// unchanged.
func (a *Authenticator) Holds(id mcp.Identity) bool {
	if !a.cfg.Known(id.Tenant) {
		return false
	}
	if token, ok := strings.CutPrefix(id.Credential, ownPrincipal); ok {
		s := a.tokens.Load()
		if s == nil {
			return false
		}
		t, known := s.byID[token]
		return known && t.State(a.cfg.Now()) == ""
	}
	if sum, ok := strings.CutPrefix(id.Credential, digestCredential); ok {
		all := a.digests.Load()
		return all != nil && slices.ContainsFunc(*all, func(d Digest) bool { return d.Tenant == id.Tenant && string(d.Sum[:]) == sum })
	}
	t, issuer := a.trusted.Load(), ""
	if t != nil {
		issuer, _, _ = strings.Cut(id.Principal, "|")
	}
	return issuer != "" && t.issuers[issuer] != nil && t.issuers[issuer].credential == id.Credential
}

// Readable returns an error if belljar's own tokens are not accepted at the moment, because
// the book cannot be read.
func (a *Authenticator) Readable() error {
	if a.cfg.Book == nil || a.cfg.Needed != nil && !a.cfg.Needed() {
		return nil
	}
	if read := a.read.Load(); read == nil || time.Since(*read) > trustFor {
		return errors.New("the tokens in the state directory cannot be read, and none of them is accepted until they can be read")
	}
	return nil
}

// note remembers when a token was used, to the minute.
func (a *Authenticator) note(id string, now time.Time) {
	now = now.Truncate(time.Minute)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uses[id].Before(now) {
		a.uses[id] = now
	}
}

// Load reads the book, which must be done once before the first Authenticate.
func (a *Authenticator) Load(ctx context.Context) error {
	if a.cfg.Book == nil {
		return nil
	}
	began := time.Now()
	after, err := a.cfg.Book.since(ctx, a.tokens.Load())
	if err != nil {
		return err
	}
	if after != nil {
		a.tokens.Store(after)
	}
	a.read.Store(&began)
	return nil
}

// Ended is a token that was valid until now, and the reason why it is not valid any more.
type Ended struct {
	Token
	Why Reason
}

// Follow keeps up with the book until ctx ends. It calls changed with the tokens that were
// added and those that are not valid any more, whose sessions the caller ends. A call of
// changed may take long, so changed may be called again before it has returned. Follow
// waits for all calls of changed. It also writes when tokens were last used.
func (a *Authenticator) Follow(ctx context.Context, changed func(added []Token, over []Ended)) {
	if a.cfg.Book == nil {
		return
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	written, failed := time.Now(), false
	var changes sync.WaitGroup
	defer changes.Wait()
	holding := make(map[string]Token)
	a.settle(holding)
	for {
		select {
		case <-ctx.Done():
			a.writeUses(context.WithoutCancel(ctx))
			return
		case <-look.C:
		}
		if a.cfg.Needed != nil && !a.cfg.Needed() {
			continue
		}
		err := a.Load(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !failed:
			a.cfg.Log.Error("the tokens in the state directory cannot be read; if this lasts, none of them is accepted until they can be read", "err", err)
		case err == nil && failed:
			a.cfg.Log.Info("the tokens in the state directory can be read again")
		}
		failed = err != nil
		if added, over := a.settle(holding); len(added)+len(over) > 0 {
			changes.Go(func() { changed(added, over) })
		}
		if time.Since(written) >= useEvery {
			written = time.Now()
			a.writeUses(ctx)
		}
	}
}

// settle brings holding, the valid tokens, up to date. It returns the tokens that were
// added and those that are not valid any more.
func (a *Authenticator) settle(holding map[string]Token) (added []Token, over []Ended) {
	s := a.tokens.Load()
	if s == nil {
		return nil, nil
	}
	now := a.cfg.Now()
	for id, t := range holding {
		why := Revoked // a token that is not in the book was revoked and then removed
		if held, known := s.byID[id]; known {
			why = held.State(now)
		}
		if why != "" {
			delete(holding, id)
			over = append(over, Ended{t, why})
		}
	}
	for id, t := range s.byID {
		if _, known := holding[id]; !known && t.State(now) == "" {
			holding[id] = t.Token
			added = append(added, t.Token)
		}
	}
	return added, over
}

// writeUses writes when tokens were last used.
func (a *Authenticator) writeUses(ctx context.Context) {
	a.mu.Lock()
	uses := maps.Clone(a.uses)
	clear(a.uses)
	a.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	if err := a.cfg.Book.used(ctx, uses); err != nil {
		a.cfg.Log.Warn("the last uses of tokens were not written", "err", err)
	}
}
