package server

import (
	"context"
	"sync/atomic"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// gate decides calls by the policy in force. The policy is replaced atomically: each call
// is decided by one whole policy, the old or the new one.
type gate struct {
	now   atomic.Pointer[policies.Policy]
	mode  Mode
	login *login // login of clients over HTTP
	// enters reports whether a tenant may enter the place; nil if the gate belongs to no
	// place.
	enters func(tenant string) bool
}

// Decide decides a call by the policy in force and the mode of the workspace.
func (g *gate) Decide(f policies.Facts) policies.Decision {
	return g.mode.narrow(g.now.Load().Decide(f))
}

// Named reports whether the policy in force names tenants.
func (g *gate) Named() bool { return len(g.now.Load().Tenants()) > 0 }

// Authenticate returns the identity that a token belongs to.
func (g *gate) Authenticate(ctx context.Context, token string) (mcp.Identity, error) {
	return g.login.authenticate(ctx, token)
}

// Holds reports whether the caller would still be let in now, and into this place.
func (g *gate) Holds(caller mcp.Identity) bool {
	return g.login.Holds(caller) && (g.enters == nil || g.enters(caller.Tenant))
}

// Challenge returns the header WWW-Authenticate for the refusal of a request.
func (g *gate) Challenge(ctx context.Context, err error) string { return g.login.Challenge(ctx, err) }

// Missing returns the scopes that a token lacks for a call.
func (g *gate) Missing(caller mcp.Identity, tool, profile string) []string {
	return g.now.Load().Login().MissingScopes(caller.Tenant, caller.Scopes, tool, profile)
}

// Limits returns the limits that the policy in force sets for a tenant.
func (g *gate) Limits(tenant string) (mcp.TenantLimits, bool) {
	t, ok := g.now.Load().Tenant(tenant)
	return mcp.TenantLimits{Rate: t.Rate, Burst: t.Burst, InFlight: t.InFlight, Sessions: t.Sessions, Streams: t.Streams}, ok
}

// Hidden reports whether the policy in force allows a tenant no call of a tool.
func (g *gate) Hidden(f policies.Facts) bool { return g.now.Load().HiddenFrom(f) }

// Mode is the most that a person allows boxes to do with the workspace, whatever a profile
// says. The zero value allows everything that a profile allows.
type Mode string

// The modes.
const (
	ModeBind    Mode = "bind"    // writes go to the directory
	ModeOverlay Mode = "overlay" // writes go to a layer above the directory
	ModeNone    Mode = "none"    // boxes do not see the directory
)

// narrow returns a decision with its grant narrowed to the mode. If the grant cannot be
// narrowed to the mode, because the mode allows more, the call is denied.
func (m Mode) narrow(d policies.Decision) policies.Decision {
	if m == "" {
		return d
	}
	narrowed, err := d.With(func(g policies.Grant) (policies.Grant, error) {
		to := g.Workspace()
		switch m {
		case ModeNone:
			to = policies.AccessNone
		case ModeOverlay:
			to = policies.AccessOverlay
		case ModeBind:
			if to != policies.AccessRead {
				to = policies.AccessWrite
			}
		}
		return g.Narrow(to)
	})
	if err != nil {
		return policies.Decision{
			Verdict: policies.Deny, Rule: "workspace-mode", Reason: err.Error(),
			Instead: "Tell the person you work for to start belljar without --workspace-mode " + string(m) + ", or with a profile that allows it.",
		}
	}
	return narrowed
}
