package policies

import (
	"fmt"
	"net/netip"
	"slices"

	"belljar.dev/policies/cond"
)

// Algorithms are the signatures that a token of an issuer may have. None of them works
// with a secret that both sides know: belljar could then make tokens, and so could
// anybody who takes a public key for such a secret.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// TypeAccess and TypeJWT are what the type in the header of a token may be. An access
// token has the first (RFC 9068). Many issuers write the second, which their ID tokens
// have too.
const (
	TypeAccess = "at+jwt"
	TypeJWT    = "JWT"
)

// Issuer is who makes tokens that a server believes: an authorization server.
type Issuer struct {
	URL        string   // as its tokens name it (iss)
	Audience   []string // its tokens must name one of them; empty for the server's own address
	Keys       string   // the URL of its key set; empty if its metadata name it
	Algorithms []string // of its tokens
	PlainType  bool     // its tokens may have the type JWT
	// Addresses are those beyond the public ones at which its hosts may be.
	Addresses []netip.Prefix

	tenant string // of all its tokens; empty for none
	claim  string // names the tenant, by byName
	byName map[string]string
	chosen []choice
}

// choice is the tenant of the tokens for which a condition holds.
type choice struct {
	when   *cond.Claims
	tenant string
}

// Tenant returns the tenant that a token belongs to, by its claims. It is empty if the
// policy has none for them, and why then says more.
func (i *Issuer) Tenant(claims map[string]any) (tenant, why string) {
	if i.tenant != "" {
		return i.tenant, ""
	}
	if i.claim != "" {
		value, ok := claims[i.claim].(string)
		if !ok {
			return "", fmt.Sprintf("its claim %s is not a text", i.claim)
		}
		if tenant := i.byName[value]; tenant != "" {
			return tenant, ""
		}
		return "", fmt.Sprintf("no tenant has the value of its claim %s", i.claim)
	}
	for _, c := range i.chosen {
		// A condition that cannot be worked out does not hold, and none behind it is asked:
		// a later one may be meant for those for whom this one does not hold.
		holds, err := c.when.Holds(claims)
		if err != nil {
			return "", fmt.Sprintf("the condition %q cannot be worked out: %v", Clip(c.when.String(), 100), err)
		}
		if holds {
			return c.tenant, ""
		}
	}
	return "", "no condition of its issuer holds"
}

// auth is who clients over HTTP are, beside those with the token of a tenant.
type auth struct {
	issuers []Issuer
	scopes  []tokenScope
	source  Source
}

// tokenScope is what a token with it may be used for.
type tokenScope struct {
	name     string
	tools    []string // texts with stars
	profiles []string // beside the one that the tenant's calls get unasked
}

// Login is who clients over HTTP are, as a policy has it.
type Login struct{ p *Policy }

// Login returns who clients over HTTP are, beside those with the token of a tenant.
func (p *Policy) Login() Login { return Login{p} }

// Issuers are those whose tokens are believed, in the order of the policy.
func (l Login) Issuers() []Issuer { return slices.Clone(l.p.auth.issuers) }

// Scopes are the names of the scopes, in the order of the policy. Without any, the
// scopes of an issuer's tokens do not matter.
func (l Login) Scopes() []string {
	all := make([]string, 0, len(l.p.auth.scopes))
	for _, s := range l.p.auth.scopes {
		all = append(all, s.name)
	}
	return all
}
