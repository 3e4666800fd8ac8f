package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"belljar.dev/mcp/wire"
)

// Identity is a caller over HTTP.
type Identity struct {
	Tenant string // tenant in the policy
	// Principal is the name of the caller within its tenant. All tokens that a caller gets
	// over time have the same Principal, so a session survives a new token.
	Principal string
	// Scopes are what the token may be used for. They restrict what the tenant may do, and
	// never add to it. If they are nil, the token may be used for everything.
	Scopes  []string
	Expires time.Time // when the token expires; zero means never
	// Credential names the credential with which the caller logged in, for the
	// Authenticator. It is not a secret.
	Credential string
}

// owner returns the owner of the sessions that the caller opens.
func (id Identity) owner() owner { return owner{id.Tenant, id.Principal} }

// owner is the owner of a session. For any other caller the session does not exist.
type owner struct{ tenant, principal string }

// Authenticator finds out who the clients of the HTTP handler are. If its answers change
// while the server runs, Server.Reloaded must be called. Its methods may be called at the
// same time.
type Authenticator interface {
	// Named reports whether there are tenants at all. If not, clients need no
	// token, and their calls belong to Config.Tenant.
	Named() bool
	// Authenticate returns the caller to whom a token belongs. An error that wraps
	// ErrUnavailable means that this cannot be found out now; any other error means that
	// the token is not valid. The time that Authenticate takes must not depend on how much
	// of a token is right. The error must not contain the token.
	Authenticate(ctx context.Context, bearer string) (Identity, error)
	// Holds reports whether the credential of a caller is still valid. After the answers of
	// Authenticate have changed, it is called for callers whose requests are still open.
	Holds(caller Identity) bool
	// Challenge returns the value of the header WWW-Authenticate for a request that is
	// refused, whose context is ctx. err is ErrNoToken, an error of Authenticate, or a
	// *ScopeError.
	Challenge(ctx context.Context, err error) string
	// Missing returns the scopes that a token needs for a call of a tool in a profile, if
	// the caller's scopes are not enough; nil if they are. An empty list means that no
	// scope is enough. Missing is called only for callers with Scopes; profile is empty if
	// the call names no profile.
	Missing(caller Identity, tool, profile string) []string
	// Limits returns the limits for all sessions of a tenant together. It returns false if
	// each session has the server's own limits.
	Limits(tenant string) (TenantLimits, bool)
}

// Errors of a login.
var (
	// ErrNoToken is the error of a request without a token.
	ErrNoToken = errors.New("the request has no token")
	// ErrUnavailable is wrapped by an error of Authenticate that does not depend on the
	// token, for example if the keys of its issuer cannot be fetched.
	ErrUnavailable = errors.New("tokens cannot be checked now")
)

// ScopeError is the error of a request for which the scopes of the caller's token are not
// enough.
type ScopeError struct {
	Scopes []string // scopes that would be enough; empty if none would be
}

// Error states what the token lacks.
func (e *ScopeError) Error() string {
	if len(e.Scopes) == 0 {
		return "no scope of a token allows this call"
	}
	return "the token does not allow this call, which needs the scopes " + strings.Join(e.Scopes, " ")
}

// callerKey is the key of the Identity in the context of an HTTP request.
type callerKey struct{}

// callerOf returns the caller of a request. Over stdio and for calls of this process, the
// caller is Config.Tenant.
func (c *Config) callerOf(ctx context.Context) Identity {
	if id, ok := ctx.Value(callerKey{}).(Identity); ok {
		return id
	}
	return Identity{Tenant: c.Tenant}
}

// missing returns the scopes that the caller's token lacks for a call; nil if it lacks
// none.
func missing(auth Authenticator, caller Identity, tool, profile string) []string {
	if caller.Scopes == nil || auth == nil {
		return nil
	}
	return auth.Missing(caller, tool, profile)
}

// tenanted reports whether there are tenants. If so, each tenant has its own share of the
// limits.
func (c *Config) tenanted() bool { return c.Auth != nil && c.Auth.Named() }

// holds reports whether the login of a request's caller is still valid. The login may be
// older than the request's body or its stream.
func (c *Config) holds(ctx context.Context) bool {
	if !c.tenanted() {
		return true
	}
	id, named := ctx.Value(callerKey{}).(Identity)
	return named && (id.Expires.IsZero() || time.Now().Before(id.Expires)) && c.Auth.Holds(id)
}

// tokenInMeta returns an error if the _meta of a message from the network contains a token.
func tokenInMeta(meta []byte) *wire.Error {
	found := false
	wire.Members(meta, func(name, _ []byte) bool {
		found = tokenName(string(name))
		return !found
	})
	if !found {
		return nil
	}
	return wire.Errorf(wire.InvalidRequest, "invalid request: there is a token in _meta: send it in the header Authorization of the HTTP request, and have it replaced")
}

// tokenNames are the names under which clients send tokens in wrong places. Upper and lower
// case do not matter.
var tokenNames = []string{"access_token", "authorization", "api_key", "apikey", "bearer", "bearer_token"}

// tokenName reports whether a parameter, cookie or member with this name contains a token.
func tokenName(name string) bool {
	return slices.ContainsFunc(tokenNames, func(known string) bool { return strings.EqualFold(known, name) })
}
