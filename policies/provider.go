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

// Bounds of the name of a person.
const (
	maxPersonName = 200 // bytes of all of it: the least that a log keeps of a name
	maxClaimName  = 60  // characters of the part that the person may be able to choose
)

// Person returns who may use the console by the claims of an ID token whose signature was checked.
// Its name begins with the issuer and the subject, which nobody else has, and is never too long for
// a log. The claim with a name stands behind them in brackets; one that is not fit to be shown, or
// too long, is left out. why says why it is nobody.
func (p *Provider) Person(claims map[string]any) (who Person, why string) {
	subject, ok := claims["sub"].(string)
	if !ok || !isSubject(subject) {
		return who, "its claim sub is missing, or not a short text of ASCII without brackets"
	}
	name := p.URL + "|" + subject
	if len(name) > maxPersonName {
		return who, fmt.Sprintf("the issuer and its claim sub have %d bytes, and the logs keep %d of a name", len(name), maxPersonName)
	}
	if text, ok := claims[p.name].(string); ok && p.name != "" && isClaimName(text) {
		// Behind what is sure, so that it cannot look like another person.
		if whole := name + " (" + text + ")"; len(whole) <= maxPersonName {
			name = whole
		}
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

// isSubject reports whether a subject can be told from all others where it is shown, also from one
// with a name behind it. OpenID Connect Core, section 2, has only ASCII in it.
func isSubject(text string) bool {
	for _, r := range text {
		if r < ' ' || r > '~' || r == '(' || r == ')' {
			return false
		}
	}
	return text != "" && isSpaced(text)
}

// isClaimName reports whether a name that somebody chose shows all that is in it, and cannot be
// taken for more than a name.
func isClaimName(text string) bool {
	if text == "" || utf8.RuneCountInString(text) > maxClaimName || !isSpaced(text) {
		return false
	}
	for _, r := range text {
		switch {
		case !unicode.IsGraphic(r), r == unicode.ReplacementChar:
			return false
		case unicode.IsSpace(r) && r != ' ', strings.ContainsRune("\u115f\u1160\u2800\u3000\u3164\uffa0", r): // all blank
			return false
		case unicode.In(r, unicode.Zs, unicode.Ps, unicode.Pe) && r != ' ', r == '|', r == '\uff5c': // these structure the whole
			return false
		}
	}
	return true
}

// isSpaced reports whether single spaces separate the words of a text.
func isSpaced(text string) bool { return strings.Join(strings.Fields(text), " ") == text }

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
