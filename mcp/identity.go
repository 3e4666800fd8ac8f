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
	// Challenge returns the value of the header WWW-Authenticate for the request of ctx, which
	// is refused: with ErrNoToken, with an error of Authenticate, or with a *ScopeError.
	Challenge(ctx context.Context, err error) string
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

// holds reports whether the caller of a request would be let in now. It may have been let
// in a while ago: before its body came, or before its stream was opened.
func (c *Config) holds(ctx context.Context) bool {
	if !c.tenanted() {
		return true
	}
	id, named := ctx.Value(callerKey{}).(Identity)
	return named && (id.Expires.IsZero() || time.Now().Before(id.Expires)) && c.Auth.Holds(id)
}

// tokenInMeta returns an error if the _meta of a message from the network has a token.
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

// tokenNames are the names by which clients send tokens where none may be, in any case.
var tokenNames = []string{"access_token", "authorization", "api_key", "apikey", "bearer", "bearer_token"}

// tokenName reports whether the parameter, cookie or member with this name holds a token.
func tokenName(name string) bool {
	return slices.ContainsFunc(tokenNames, func(known string) bool { return strings.EqualFold(known, name) })
}
