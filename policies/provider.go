package policies

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar.dev/policies/cond"
)

// Provider is an OpenID Provider at which people log in to the console.
type Provider struct {
	URL        string // issuer identifier of the provider, character by character
	Client     string // name by which the provider knows this server
	Secret     Secret // secret of the client; zero for a client without a secret, which only PKCE protects
	Scopes     []string
	Algorithms []string // signature algorithms of its ID tokens
	// Addresses are the addresses that its hosts may have in addition to public ones.
	Addresses []netip.Prefix

	name   string // claim with the name of a person; may be empty
	people []roleOf
}

// roleOf is a condition about claims, and what a person may do if it holds.
type roleOf struct {
	when *cond.Claims
	as   Person
}

// ProviderOf returns the provider at which people log in to the console, or nil if the
// policy has no provider. The result must not be changed.
func ProviderOf(p *Policy) *Provider { return p.provider }

// Bounds of the name of a person.
const (
	maxPersonName = 200 // bytes of the whole name: the least that a log keeps of a name
	maxClaimName  = 60  // characters of the part that the person may be able to choose
)

// Person returns the person who may use the console, by the claims of an ID token whose
// signature was checked. The person's name begins with the issuer and the subject, which no
// other person has, and is never too long for a log. The claim with a name is added in
// parentheses; a claim that is not fit to be shown, or too long, is left out. If nobody may
// use the console with these claims, why is the reason.
func (p *Provider) Person(claims map[string]any) (who Person, why string) {
	subject, ok := claims["sub"].(string)
	if !ok || !isSubject(subject) {
		return who, "its claim sub is missing, or is not a short text of ASCII without parentheses"
	}
	name := p.URL + "|" + subject
	if len(name) > maxPersonName {
		return who, fmt.Sprintf("the issuer and its claim sub have %d bytes, and the logs keep %d of a name", len(name), maxPersonName)
	}
	if text, ok := claims[p.name].(string); ok && p.name != "" && isClaimName(text) {
		// Behind the certain part, so that it cannot look like another person.
		if whole := name + " (" + text + ")"; len(whole) <= maxPersonName {
			name = whole
		}
	}
	for _, m := range p.people {
		// As in Issuer.Tenant: a condition that cannot be evaluated does not hold, and no
		// condition after it is evaluated.
		holds, err := m.when.Holds(claims)
		if err != nil {
			return who, fmt.Sprintf("the condition %q cannot be evaluated: %s", Clip(m.when.String(), 100), Clip(err.Error(), maxPart))
		}
		if holds {
			who = m.as
			who.Name, who.Tenants = name, slices.Clone(m.as.Tenants)
			return who, ""
		}
	}
	return who, "no condition of the provider holds for it"
}

// isSubject reports whether a subject can be distinguished from all others where it is
// shown, even if a name follows it. In OpenID Connect Core, section 2, a subject contains
// only ASCII.
func isSubject(text string) bool {
	for _, r := range text {
		if r < ' ' || r > '~' || r == '(' || r == ')' {
			return false
		}
	}
	return text != "" && isSpaced(text)
}

// isClaimName reports whether a name that a person chose shows all its characters, and
// cannot look like more than a name.
func isClaimName(text string) bool {
	if text == "" || utf8.RuneCountInString(text) > maxClaimName || !isSpaced(text) {
		return false
	}
	for _, r := range text {
		switch {
		case !unicode.IsGraphic(r), r == unicode.ReplacementChar:
			return false
		// these look like a blank
		case unicode.IsSpace(r) && r != ' ', strings.ContainsRune("\u115f\u1160\u2800\u3000\u3164\uffa0", r):
			return false
		// these separate the parts of the whole name
		case unicode.In(r, unicode.Zs, unicode.Ps, unicode.Pe) && r != ' ', r == '|', r == '\uff5c':
			return false
		}
	}
	return true
}

// isSpaced reports whether single spaces separate the words of a text.
func isSpaced(text string) bool { return strings.Join(strings.Fields(text), " ") == text }

// isShown reports whether a text is short, and shows all its characters.
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
