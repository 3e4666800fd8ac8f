package policies

import (
	"fmt"
	"net/netip"
	"slices"
	"unicode"

	"belljar.dev/policies/cond"
)

// Provider is an OpenID Provider at which people log in to the console.
type Provider struct {
	URL        string // its issuer identifier, letter by letter
	Client     string // the name by which it knows this server
	Secret     Secret // of the client; zero for one without, which PKCE protects alone
	Scopes     []string
	Algorithms []string // of its ID tokens
	// Addresses are those beyond the public ones at which its hosts may be.
	Addresses []netip.Prefix

	name   string // the claim with the name of a person; empty for none
	people []roleOf
}

// roleOf is what the people may do for whom a condition holds.
type roleOf struct {
	when *cond.Claims
	as   Person
}

// ProviderOf returns the provider at which people log in to the console; nil for none. It must not
// be changed.
func ProviderOf(p *Policy) *Provider { return p.provider }

// maxPersonName bounds the parts of the name of a person, in bytes.
const maxPersonName = 200

// Person returns who may use the console by the claims of an ID token whose signature was checked.
// Its name has the issuer and the subject, which nobody else has. why says why it is nobody.
func (p *Provider) Person(claims map[string]any) (who Person, why string) {
	subject, ok := claims["sub"].(string)
	if !ok || subject == "" || !isShown(subject) {
		return who, "its claim sub is missing, or not a short text"
	}
	name := p.URL + "|" + subject
	if p.name != "" {
		text, ok := claims[p.name].(string)
		if !ok || text == "" || !isShown(text) {
			return who, fmt.Sprintf("its claim %s is missing, or not a short text", p.name)
		}
		name = text + " (" + name + ")"
	}
	for _, m := range p.people {
		// As in Issuer.Tenant: one that cannot be worked out does not hold, and none behind it is
		// asked.
		holds, err := m.when.Holds(claims)
		if err != nil {
			return who, fmt.Sprintf("the condition %q cannot be worked out: %v", Clip(m.when.String(), 100), err)
		}
		if holds {
			who = m.as
			who.Name, who.Tenants = name, slices.Clone(m.as.Tenants)
			return who, ""
		}
	}
	return who, "no condition of the provider holds for it"
}

// isShown reports whether a text is short, and shows all that is in it.
func isShown(text string) bool {
	if len(text) > maxPersonName {
		return false
	}
	for _, r := range text {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}
