package policies

import "fmt"

// asked returns the profile that a call is judged under, or the Decision that
// refuses the call.
func (p *Policy) asked(f Facts) (string, Decision) {
	no := Decision{Verdict: Deny, Source: Source{File: p.name}, Parts: 1, Layer: LayerSystem}
	if !p.serves(f.Tenant) {
		no.Rule = ruleTenant
		no.Reason = fmt.Sprintf("The policy has no tenant %s any more.", shown(f.Tenant))
		no.Instead = "Tell the person you work for that this client's tenant was removed from the policy."
		return "", no
	}
	own, standard := p.tenants[f.Tenant], p.profile
	if own != nil {
		standard = own.Profile
	}
	profile := f.Profile
	if profile == "" {
		profile = standard
	}
	switch {
	case own != nil && !own.may(profile):
		no.Rule, no.Source.Line, no.Source.Col = ruleRequest, own.node.Line, own.node.Column
		no.Reason = fmt.Sprintf("Calls of tenant %s may not ask for the profile \"%s\".", own.Name, Clip(profile, 64))
		no.Instead = own.offer()
	case p.profiles[profile].IsZero():
		no.Rule = ruleProfile
		no.Reason = fmt.Sprintf("Profile \"%s\" does not exist.", Clip(profile, 64))
		no.Instead = fmt.Sprintf("Repeat the call with one of the profiles %s, or without a profile for %s.", list(p.Profiles()), standard)
	default:
		return profile, Decision{}
	}
	return "", no
}

// outside refuses a grant that the rules of a file made from a profile that the tenant may
// not have.
func (t *tenant) outside(d Decision, file string) (Decision, bool) {
	if d.Verdict == Deny || t.may(d.offered().profile) {
		return Decision{}, false
	}
	return Decision{
		Verdict: Deny, Rule: ruleRequest, Source: Source{File: file, Line: t.node.Line, Col: t.node.Column},
		Parts: d.Parts, Layer: LayerSystem, Profile: d.Profile, Obligations: Obligations{Audit: d.Audit.ofRefusal()},
		Reason:  fmt.Sprintf("Rule %s allows this call in the profile \"%s\" only, which tenant %s may not have.", d.Rule, d.offered().profile, t.Name),
		Instead: t.offer(),
	}, true
}

// unasked refuses a call that asks people, if the policy does not let agents ask anyone.
func (q questions) unasked(profile string) (Decision, bool) {
	if q.channel != ChannelDeny {
		return Decision{}, false
	}
	return Decision{
		Verdict: Deny, Rule: ruleQuestions, Source: q.source, Parts: 1, Layer: LayerSystem, Profile: profile,
		Reason:  "Nobody is there to answer questions of agents.",
		Instead: "Decide yourself if a wrong guess does no harm, say in your answer what you assumed, and leave the rest undone.",
	}, true
}
