package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/internal/hostexec"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// tenantToken is whose bearer token has a digest.
type tenantToken struct {
	tenant string
	sum    [sha256.Size]byte
}

// tenantTokens reads the digests of the tokens of a policy's tenants, from
// where the operator keeps them. It is for servers over HTTP: no one else needs
// them, or has to have them.
func tenantTokens(ctx context.Context, p *policies.Policy, boxes hostexec.Boxes) ([]tenantToken, error) {
	var all []tenantToken
	for _, name := range p.Tenants() {
		t, _ := p.Tenant(name)
		if t.Token.Env == "" && t.Token.File == "" {
			continue
		}
		text, err := readSecret(ctx, "token of tenant "+name, t.Token, hostexec.Program{Boxes: boxes})
		if err != nil {
			return nil, err
		}
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha256.Size {
			// Without what it is: that may be the token itself.
			return nil, fmt.Errorf("token of tenant %s: want the SHA-256 of the token in 64 hexadecimal digits, as `printf %%s TOKEN | sha256sum` prints it", name)
		}
		one := tenantToken{tenant: name, sum: [sha256.Size]byte(sum)}
		for _, other := range all {
			if other.sum == one.sum {
				return nil, fmt.Errorf("token of tenant %s: tenant %s has the same; give each its own", name, other.tenant)
			}
		}
		all = append(all, one)
	}
	if len(all) == 0 && len(p.Tenants()) > 0 {
		return nil, errors.New("no tenant of the policy has a token, so nobody could connect; write one under tenants, as token: \"${env:TOKEN_SHA256}\"")
	}
	return all, nil
}

// Named reports whether the policy that holds names tenants.
func (g *gate) Named() bool { return len(g.now.Load().Tenants()) > 0 }

// Bearer is the tenant that a token belongs to. It compares digests, and all of
// them: how long it takes says nothing about any.
func (g *gate) Bearer(token string) (tenant string, known bool) {
	all := g.tokens.Load()
	if all == nil {
		return "", false
	}
	sum := sha256.Sum256([]byte(token))
	for i := range *all {
		if t := &(*all)[i]; subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			tenant, known = t.tenant, true
		}
	}
	return tenant, known
}

// Limits are what the policy that holds lets a tenant send.
func (g *gate) Limits(tenant string) (mcp.TenantLimits, bool) {
	t, ok := g.now.Load().Tenant(tenant)
	return mcp.TenantLimits{Rate: t.Rate, Burst: t.Burst, InFlight: t.InFlight}, ok
}

// Hidden reports whether the policy that holds lets a tenant have no call of a
// tool.
func (g *gate) Hidden(tenant, tool string) bool { return g.now.Load().HiddenFrom(tenant, tool) }

// tenantFlag is --tenant.
func (s *setup) tenantFlag(c *cobra.Command) {
	c.Flags().StringVar(&s.tenant, "tenant", localTenant, "whose calls these are: a tenant of the policy, by `NAME`, or local")
}

// openTenants checks --tenant, and for a server over HTTP reads the tokens.
func (w *works) openTenants(ctx context.Context, overHTTP bool) error {
	if _, known := w.policy.Tenant(w.tenant); !known && w.tenant != localTenant {
		return fmt.Errorf("tenant %s: the policy %s has none of that name; name another one with --tenant, or add it under tenants", w.tenant, w.policyName)
	}
	if !overHTTP || len(w.policy.Tenants()) == 0 {
		return nil
	}
	if w.tenant != localTenant {
		return errors.New("--tenant goes with stdio: over HTTP a client's token says whose it is")
	}
	tokens, err := tenantTokens(ctx, w.policy, boxesOf(w.policy, w.workspace, w.state))
	if err != nil {
		return fmt.Errorf("policy %s: %w", w.policyName, err)
	}
	w.gate.tokens.Store(&tokens)
	return nil
}

// tokensFor are the tokens of a policy that takes the place of another in a
// server over HTTP, or why it cannot.
func tokensFor(ctx context.Context, p, before *policies.Policy, boxes hostexec.Boxes) ([]tenantToken, error) {
	if len(p.Tenants()) == 0 && len(before.Tenants()) > 0 {
		return nil, fmt.Errorf("policy %s: it names no tenants any more, and would let in every client without a token; start the server anew if that is meant", p.Name())
	}
	return tenantTokens(ctx, p, boxes)
}
