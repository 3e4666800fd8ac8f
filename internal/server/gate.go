package server

import (
	"context"
	"sync/atomic"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// gate decides calls by the policy that holds now. Swapping it is atomic: a
// call is decided by one policy as a whole, the one before or the one after.
type gate struct {
	now   atomic.Pointer[policies.Policy]
	mode  Mode
	login *login // of clients over HTTP
	// enters reports whether a tenant may enter the place; nil for the gate of none.
	enters func(tenant string) bool
}

// Decide makes a gate what a server asks.
func (g *gate) Decide(f policies.Facts) policies.Decision {
	return g.mode.narrow(g.now.Load().Decide(f))
}

// Named reports whether the policy that holds names tenants.
func (g *gate) Named() bool { return len(g.now.Load().Tenants()) > 0 }

// Authenticate returns whose token it is.
func (g *gate) Authenticate(ctx context.Context, token string) (mcp.Identity, error) {
	return g.login.authenticate(ctx, token)
}

// Holds reports whether what let a caller in, and into this place, would do so now.
func (g *gate) Holds(caller mcp.Identity) bool {
	return g.login.Holds(caller) && (g.enters == nil || g.enters(caller.Tenant))
}

// Challenge is the header WWW-Authenticate of the refusal of a request.
func (g *gate) Challenge(ctx context.Context, err error) string { return g.login.Challenge(ctx, err) }

// Missing returns the scopes that a token lacks for a call.
func (g *gate) Missing(caller mcp.Identity, tool, profile string) []string {
	return g.now.Load().Login().MissingScopes(caller.Tenant, caller.Scopes, tool, profile)
}

// Limits are what the policy that holds lets a tenant send.
func (g *gate) Limits(tenant string) (mcp.TenantLimits, bool) {
	t, ok := g.now.Load().Tenant(tenant)
	return mcp.TenantLimits{Rate: t.Rate, Burst: t.Burst, InFlight: t.InFlight, Sessions: t.Sessions, Streams: t.Streams}, ok
}

// Hidden reports whether the policy that holds lets a tenant have no call of a
// tool.
func (g *gate) Hidden(f policies.Facts) bool { return g.now.Load().HiddenFrom(f) }
