package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync/atomic"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// gate decides calls by the policy that holds now. Swapping it is atomic: a
// call is decided by one policy as a whole, the one before or the one after.
type gate struct {
	now    atomic.Pointer[policies.Policy]
	tokens atomic.Pointer[[]tenantToken] // of the tenants, for clients over HTTP
	mode   Mode
}

// Decide makes a gate what a server asks.
func (g *gate) Decide(f policies.Facts) policies.Decision {
	return g.mode.narrow(g.now.Load().Decide(f))
}

// Named reports whether the policy that holds names tenants.
func (g *gate) Named() bool { return len(g.now.Load().Tenants()) > 0 }

// errUnknown is the error of a token that belongs to nobody.
var errUnknown = errors.New("the token belongs to no tenant")

// Authenticate finds the tenant that a token belongs to. It compares digests, and all of
// them: how long it takes says nothing about any. All who have the token of a tenant are
// one principal, which keeps its sessions when the operator changes the token.
func (g *gate) Authenticate(_ context.Context, token string) (id mcp.Identity, err error) {
	err = errUnknown
	all := g.tokens.Load()
	if all == nil {
		return id, err
	}
	sum := sha256.Sum256([]byte(token))
	for i := range *all {
		if t := &(*all)[i]; subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			id, err = mcp.Identity{Tenant: t.tenant, Principal: "tenant:" + t.tenant}, nil
		}
	}
	return id, err
}

// Challenge is the header WWW-Authenticate of a refusal.
func (g *gate) Challenge(err error) string {
	const challenge = `Bearer realm="belljar"`
	if errors.Is(err, mcp.ErrNoToken) {
		return challenge
	}
	return challenge + `, error="invalid_token"`
}

// Limits are what the policy that holds lets a tenant send.
func (g *gate) Limits(tenant string) (mcp.TenantLimits, bool) {
	t, ok := g.now.Load().Tenant(tenant)
	return mcp.TenantLimits{Rate: t.Rate, Burst: t.Burst, InFlight: t.InFlight}, ok
}

// Hidden reports whether the policy that holds lets a tenant have no call of a
// tool.
func (g *gate) Hidden(tenant, tool string) bool { return g.now.Load().HiddenFrom(tenant, tool) }

// Decide asks the policy and writes down what it says, with the id of the call.
func (s *Server) Decide(ctx context.Context, f policies.Facts) (policies.Decision, string, error) {
	started, id := time.Now(), "c-"+rand.Text()[:8]
	d := s.gate.Decide(f)
	if s.audit == nil {
		return d, id, nil
	}
	err := s.audit.Decided(ctx, mcp.Decided{Call: mcp.Call{ID: id}, Facts: f, Decision: d, Took: time.Since(started)})
	return d, id, err
}
