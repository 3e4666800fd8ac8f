package policies

import (
	"fmt"
	"slices"
)

// allows reports whether a token with the scope may be used for a tool in a profile.
// standard is the profile that the tenant's calls get unasked.
func (s *tokenScope) allows(tool, profile, standard string) bool {
	return slices.ContainsFunc(s.tools, func(t string) bool { return star(t, tool) }) &&
		(profile == "" || profile == standard || slices.Contains(s.profiles, profile))
}

// MissingScopes returns the scopes that a token needs, so that a tenant's call of a tool in
// a profile is let through: the scopes that the token has and the policy knows, and the
// first scope of the policy that is enough. The result is nil if the scopes of the token
// are enough, and empty if no scope of the policy is enough.
func (l Login) MissingScopes(tenantName string, held []string, tool, profile string) []string {
	p, standard := l.p, l.p.profile
	if own := p.tenants[tenantName]; own != nil {
		standard = own.Profile
	}
	enough := func(s tokenScope) bool { return s.allows(tool, profile, standard) }
	var known []string
	for _, s := range p.auth.scopes {
		if !slices.Contains(held, s.name) {
			continue
		}
		if enough(s) {
			return nil
		}
		known = append(known, s.name)
	}
	if i := slices.IndexFunc(p.auth.scopes, enough); i >= 0 {
		return append(known, p.auth.scopes[i].name)
	}
	return []string{}
}

// outOfScope refuses a call whose caller has Scopes, if these do not allow the call.
func (l Login) outOfScope(f Facts, profile string) (Decision, bool) {
	missing := l.MissingScopes(f.Tenant, f.Scopes, f.Tool, profile)
	if missing == nil {
		return Decision{}, false
	}
	no := Decision{
		Verdict: Deny, Rule: ruleScope, Source: l.p.auth.source, Parts: 1, Layer: LayerSystem, Profile: profile,
		Reason:  fmt.Sprintf("The token of this client does not allow calls of %s in the profile \"%s\".", Clip(f.Tool, 64), Clip(profile, 64)),
		Instead: "Use another tool: no scope of the policy covers this one in this profile.",
	}
	if no.Source.File == "" {
		no.Source.File = l.p.name
	}
	switch {
	case len(missing) > 0:
		no.Instead = fmt.Sprintf("Tell the person you work for that this client's token needs the scope %s.", missing[len(missing)-1])
	case f.Profile != "" && f.Profile == profile && l.MissingScopes(f.Tenant, f.Scopes, f.Tool, "") == nil:
		no.Instead = "Repeat the call without a profile: no scope of the policy covers this tool in that one."
	}
	return no, true
}
