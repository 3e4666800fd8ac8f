package policies

import (
	"fmt"
	"net/netip"
	"slices"

	"belljar.dev/policies/cond"
)

// Algorithms are the signature algorithms that a token of an issuer may have. None of them
// works with a secret that both sides know: belljar could then make tokens, and so could an
// attacker who uses a public key as that secret.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// TypeAccess and TypeJWT are the values that the type in the header of a token may have. An
// access token has the first one (RFC 9068). Many issuers write the second one, which their
// ID tokens have too.
const (
	TypeAccess = "at+jwt"
	TypeJWT    = "JWT"
)

// Issuer is an authorization server whose tokens a server accepts.
type Issuer struct {
	URL        string   // URL of the issuer in its tokens (iss)
	Audience   []string // each token must name one of these; empty for the server's own address
	Keys       string   // URL of the issuer's key set; empty if its metadata name it
	Algorithms []string // signature algorithms of its tokens
	PlainType  bool     // its tokens may have the type JWT
	// Addresses are the addresses that its hosts may have in addition to public ones.
	Addresses []netip.Prefix

	tenant string // tenant of all its tokens; may be empty
	claim  string // claim whose value names the tenant, by byName
	byName map[string]string
	chosen []choice
}

// choice is the tenant of the tokens for which a condition holds.
type choice struct {
	when   *cond.Claims
	tenant string
}

// Tenant returns the tenant that a token belongs to, by the claims of the token. If the
// policy has no tenant for the claims, tenant is empty, and why is the reason.
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
		// A condition that cannot be evaluated does not hold, and no condition after it is
		// evaluated: a later condition may be meant for tokens for which this one does not
		// hold.
		holds, err := c.when.Holds(claims)
		if err != nil {
			return "", fmt.Sprintf("the condition %q cannot be evaluated: %s", Clip(c.when.String(), 100), Clip(err.Error(), maxPart))
		}
		if holds {
			return c.tenant, ""
		}
	}
	return "", "no condition of its issuer holds"
}

// auth is what a policy says about clients over HTTP, apart from clients with the token of
// a tenant.
type auth struct {
	issuers []Issuer
	scopes  []tokenScope
	source  Source
}

// tokenScope is what a token with the scope may be used for.
type tokenScope struct {
	name     string
	tools    []string // names of tools, which may contain stars
	profiles []string // profiles, in addition to the one that the tenant's calls get unasked
}

// Login is what a policy says about clients over HTTP, apart from clients with the token of
// a tenant.
type Login struct{ p *Policy }

// Login returns what the policy says about clients over HTTP, apart from clients with the
// token of a tenant.
func (p *Policy) Login() Login { return Login{p} }

// Issuers returns the issuers whose tokens are accepted, in the order of the policy.
func (l Login) Issuers() []Issuer { return slices.Clone(l.p.auth.issuers) }

// Scopes returns the names of the scopes, in the order of the policy. If the policy
// has no scopes, the scopes of an issuer's tokens do not matter.
func (l Login) Scopes() []string {
	all := make([]string, 0, len(l.p.auth.scopes))
	for _, s := range l.p.auth.scopes {
		all = append(all, s.name)
	}
	return all
}
