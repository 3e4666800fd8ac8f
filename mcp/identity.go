package mcp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
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
	// Challenge returns the value of the header WWW-Authenticate for a request that is
	// refused: with ErrNoToken, or with an error of Authenticate.
	Challenge(err error) string
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

// tenanted reports whether there are tenants. Then each has its own share of the
// limits.
func (c *Config) tenanted() bool { return c.Auth != nil && c.Auth.Named() }

// login finds out who sends a request, and puts it into the context. The token goes no
// further: the request that login returns does not contain it. If the caller is unknown,
// the answer has been sent, and ok is false.
func (w *web) login(rw http.ResponseWriter, r *http.Request) (_ *http.Request, ok bool) {
	values := r.Header.Values("Authorization")
	r.Header.Del("Authorization")
	if !w.server.cfg.tenanted() {
		return r, true
	}
	auth := w.server.cfg.Auth
	id, err := Identity{}, ErrNoToken
	if len(values) > 0 {
		id, err = authenticate(r.Context(), auth, values)
	}
	switch {
	case err == nil:
		return r.WithContext(context.WithValue(r.Context(), callerKey{}, id)), true
	case errors.Is(err, ErrUnavailable):
		rw.Header().Set("Retry-After", unavailableRetry)
		http.Error(rw, "the token in the Authorization header cannot be checked now; try again", http.StatusServiceUnavailable)
		return nil, false
	}
	why := "this server serves tenants that it knows by a token: send it as Authorization: Bearer TOKEN"
	if !errors.Is(err, ErrNoToken) {
		why = "the token in the Authorization header belongs to no tenant of this server; ask its operator for one"
	}
	rw.Header().Set("WWW-Authenticate", auth.Challenge(err))
	http.Error(rw, why, http.StatusUnauthorized)
	return nil, false
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
