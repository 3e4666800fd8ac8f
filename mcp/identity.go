package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// Identity is a caller over HTTP.
type Identity struct {
	Tenant string // of the policy
	// Principal is the caller among those of its tenant. All tokens that one caller gets
	// after another have the same Principal, so a session survives a new token.
	Principal string
	// Scopes are what the token may be used for. They take away from what the tenant may
	// do and never add to it. If they are nil, the token may be used for everything.
	Scopes  []string
	Expires time.Time // when the token expires; zero means never
	// Credential names what let the caller in, for the Authenticator. It is not a secret.
	Credential string
}

// owner returns the owner of the sessions that the caller opens.
func (id Identity) owner() owner { return owner{id.Tenant, id.Principal} }

// owner is who a session belongs to. To anybody else it does not exist.
type owner struct{ tenant, principal string }

// Authenticator finds out who the clients of the HTTP handler are. Its answers may change
// while the server runs; then Server.Reloaded must be called. It is called from many
// goroutines.
type Authenticator interface {
	// Named reports whether there are tenants at all. If not, clients need no
	// token, and their calls belong to Config.Tenant.
	Named() bool
	// Authenticate returns whose token it is. An error that wraps ErrUnavailable says that
	// this cannot be found out now; any other error says that the token is not valid.
	// The time that it takes must not depend on how much of a token is right. A token
	// must not appear in the error.
	Authenticate(ctx context.Context, bearer string) (Identity, error)
	// Holds reports whether what let a caller in would do so now. It is asked about those
	// whose requests go on, after the answers of Authenticate have changed.
	Holds(caller Identity) bool
	// Challenge returns the value of the header WWW-Authenticate for a request that is
	// refused: with ErrNoToken, with an error of Authenticate, or with a *ScopeError.
	Challenge(err error) string
	// Missing returns the scopes that a token needs for a call of a tool in a profile, if
	// those of the caller are not enough, and nil if they are. An empty list says that no
	// scope is enough. It is asked about callers with Scopes only; profile is empty for a
	// call that asks for none.
	Missing(caller Identity, tool, profile string) []string
	// Limits returns what all sessions of a tenant may send together; false says
	// that each session has the server's own limits.
	Limits(tenant string) (TenantLimits, bool)
}

// Errors of a login.
var (
	// ErrNoToken is the error of a request without a token.
	ErrNoToken = errors.New("the request has no token")
	// ErrUnavailable is wrapped by an error of Authenticate that says nothing about the
	// token, for example where the keys of its issuer cannot be fetched.
	ErrUnavailable = errors.New("tokens cannot be checked now")
)

// errLapsed is the error of a token that was valid when its request came.
var errLapsed = errors.New("the token is not valid any more")

// ScopeError is the error of a request for which the caller's token is not good.
type ScopeError struct {
	Scopes []string // that would be enough; empty if none would
}

// Error says what the token lacks.
func (e *ScopeError) Error() string {
	if len(e.Scopes) == 0 {
		return "no scope of a token is enough for this call"
	}
	return "the token is not good for this call, which needs the scopes " + strings.Join(e.Scopes, " ")
}

// unavailableRetry is when a client may try again whose token cannot be checked, in
// seconds.
const unavailableRetry = "5"

// callerKey is where the context of an HTTP request holds its Identity.
type callerKey struct{}

// callerOf returns the caller of a request. Over stdio and in this process that is
// Config.Tenant.
func (c *Config) callerOf(ctx context.Context) Identity {
	if id, ok := ctx.Value(callerKey{}).(Identity); ok {
		return id
	}
	return Identity{Tenant: c.Tenant}
}

// missing returns the scopes that the caller's token lacks for a call; nil for none.
func missing(auth Authenticator, caller Identity, tool, profile string) []string {
	if caller.Scopes == nil || auth == nil {
		return nil
	}
	return auth.Missing(caller, tool, profile)
}

// tenanted reports whether there are tenants. Then each has its own share of the
// limits.
func (c *Config) tenanted() bool { return c.Auth != nil && c.Auth.Named() }

// misplaced refuses a request with a token anywhere but in its header Authorization: it
// would be in logs and histories by now (RFC 6750, 2.3), and a cookie comes from pages too.
// The answer does not repeat it.
func (w *web) misplaced(rw http.ResponseWriter, r *http.Request) bool {
	where := ""
	if r.URL.RawQuery != "" {
		for name := range r.URL.Query() {
			if tokenName(name) {
				where = "the URL"
			}
		}
	}
	for _, cookie := range r.Cookies() {
		if tokenName(cookie.Name) {
			where = "a cookie"
		}
	}
	if where == "" {
		return false
	}
	http.Error(rw, "there is a token in "+where+": send it as Authorization: Bearer TOKEN, and have it replaced, since others may have seen it", http.StatusBadRequest)
	return true
}

// misplaced returns an error if a message has a token in the _meta of its params.
func (p *posted) misplaced() *wire.Error {
	found := false
	look := func(meta []byte) bool {
		wire.Members(meta, func(name, _ []byte) bool {
			found = found || tokenName(string(name))
			return !found
		})
		return !found
	}
	if p.message != nil {
		look(p.message.Meta)
	} else {
		wire.Elements(p.body, func(raw []byte) bool { return look(wire.Member(wire.Member(raw, "params"), "_meta")) })
	}
	if !found {
		return nil
	}
	return wire.Errorf(wire.InvalidRequest, "invalid request: there is a token in _meta: send it in the header Authorization of the HTTP request, and have it replaced")
}

// tokenName reports whether a parameter, cookie or member of a name holds a token.
func tokenName(name string) bool {
	switch strings.ToLower(name) {
	case "access_token", "authorization", "api_key", "apikey", "bearer", "bearer_token":
		return true
	}
	return false
}

// login finds out who sends a request, and puts it into the context. The token goes no
// further: the request that login returns does not contain it. If the caller is unknown,
// the answer has been sent, and ok is false.
func (w *web) login(rw http.ResponseWriter, r *http.Request) (_ *http.Request, ok bool) {
	values := r.Header.Values("Authorization")
	r.Header.Del("Authorization")
	if w.misplaced(rw, r) {
		return nil, false
	}
	if !w.server.cfg.tenanted() {
		w.server.cfg.callerOf(r.Context()).serves(r.Context())
		return r, true
	}
	auth := w.server.cfg.Auth
	id, err := Identity{}, ErrNoToken
	if len(values) > 0 {
		id, err = authenticate(r.Context(), auth, values)
	}
	switch {
	case err == nil:
		id.serves(r.Context())
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id)), true
	case errors.Is(err, ErrUnavailable):
		rw.Header().Set("Retry-After", unavailableRetry)
		http.Error(rw, "the token in the Authorization header cannot be checked now; try again", http.StatusServiceUnavailable)
		return nil, false
	}
	w.challenge(rw, err)
	return nil, false
}

// challenge refuses a request without a valid token.
func (w *web) challenge(rw http.ResponseWriter, err error) {
	why := "this server serves tenants that it knows by a token: send it as Authorization: Bearer TOKEN"
	if !errors.Is(err, ErrNoToken) {
		why = "the token in the Authorization header belongs to no tenant of this server; ask its operator for one"
	}
	rw.Header().Set("WWW-Authenticate", w.server.cfg.Auth.Challenge(err))
	http.Error(rw, why, http.StatusUnauthorized)
}

// authenticate reads the one header of the form "Bearer TOKEN", the scheme in any case
// (RFC 6750, 2.1; RFC 9110, 11.1).
func authenticate(ctx context.Context, auth Authenticator, values []string) (Identity, error) {
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return Identity{}, errors.New("the Authorization header is not Bearer TOKEN")
	}
	return auth.Authenticate(ctx, token)
}

// scoped refuses a request with a call for which the caller's token is not good (RFC 6750,
// 3.1). The gate would refuse the call too; a client that sees this status can ask its
// user for a token with more scopes.
func (w *web) scoped(rw http.ResponseWriter, r *http.Request, p posted) (ok bool) {
	caller := w.server.cfg.callerOf(r.Context())
	if caller.Scopes == nil {
		return true
	}
	var lacks []string
	each := func(raw []byte) bool {
		if wire.Text(wire.Member(raw, "method")) != "tools/call" {
			return true
		}
		params := wire.Member(raw, "params")
		profile := wire.Text(wire.Member(wire.Member(params, "arguments"), "profile"))
		lacks = missing(w.server.cfg.Auth, caller, wire.Text(wire.Member(params, "name")), profile)
		return lacks == nil
	}
	if len(p.body) > 0 && p.body[0] == '[' {
		wire.Elements(p.body, func(raw []byte) bool { return each(bytes.TrimSpace(raw)) })
	} else {
		each(p.body)
	}
	if lacks == nil {
		return true
	}
	err := &ScopeError{Scopes: lacks}
	rw.Header().Set("WWW-Authenticate", w.server.cfg.Auth.Challenge(err))
	bad := wire.Errorf(wire.InvalidRequest, "%v", err)
	bad.Data = map[string]any{"reason": "insufficient_scope", "scopes": lacks}
	w.refuse(rw, http.StatusForbidden, p.id, p.era, bad)
	return false
}

// holds reports whether the caller of a request would be let in now. It may have been let
// in a while ago: before its body came, or before its stream was opened.
func (c *Config) holds(ctx context.Context) bool {
	if !c.tenanted() {
		return true
	}
	id, named := ctx.Value(callerKey{}).(Identity)
	return named && (id.Expires.IsZero() || time.Now().Before(id.Expires)) && c.Auth.Holds(id)
}

// callers are those whose streams are open. A stream goes on for as long as its client
// likes, so it ends when its caller would not be let in any more.
type callers struct {
	cfg *Config

	mu   sync.Mutex
	open map[*openStream]struct{} // guarded by mu
}

// openStream is a request whose answer is a stream without an end.
type openStream struct {
	holds func() bool // whether its caller would be let in now
	end   func()
}

func newCallers(cfg *Config) *callers {
	return &callers{cfg: cfg, open: make(map[*openStream]struct{})}
}

// whileValid bounds a stream by the life of the caller's token: the client opens it anew with
// the next one. The caller calls done.
func (c *callers) whileValid(ctx context.Context) (_ context.Context, done func()) {
	var end context.CancelFunc
	if expires := c.cfg.callerOf(ctx).Expires; expires.IsZero() {
		ctx, end = context.WithCancel(ctx)
	} else {
		ctx, end = context.WithDeadline(ctx, expires)
	}
	s := &openStream{func() bool { return c.cfg.holds(ctx) }, end}
	c.mu.Lock()
	c.open[s] = struct{}{}
	c.mu.Unlock()
	if !s.holds() { // since it was let in, and before recheck could find it
		end()
	}
	return ctx, func() {
		c.mu.Lock()
		delete(c.open, s)
		c.mu.Unlock()
		end()
	}
}

// recheck ends the streams of those who would not be let in any more.
func (c *callers) recheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.open {
		if !s.holds() {
			s.end()
		}
	}
}
