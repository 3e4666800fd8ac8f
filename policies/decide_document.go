package policies

import (
	"fmt"
	"strings"
)

// DecideDocument returns the decision of the policy that made the grant about a document that
// a page asks for while the grant's call acts on it: on is the document before, to and method
// are those of the request. It is judged as an act of the same call, unless it is what one of
// the call's own acts leads to. The Decision has no Grant.
func (g Grant) DecideDocument(on, to, method string) Decision {
	a := Act{Kind: ActFollow, On: on, To: to, Method: method}
	if !gets(method) {
		a.Kind = ActSubmit
	}
	if g.policy == nil || g.call == nil || g.IsZero() || g.call.Tool != ActTool {
		return Decision{Rule: ruleDefault, Part: Clip(a.String(), maxPart), Reason: "The call has no grant for it.", Instead: "Repeat the call."}
	}
	for _, done := range g.acts {
		if actsLead(done) && sameDocument(done.To, to) && (done.Method == method || gets(done.Method) && gets(method)) {
			return Decision{Verdict: Allow, Profile: g.profile, Parts: 1}
		}
	}
	f := *g.call
	f.Acts, f.Profile = []Act{a}, g.asked
	d := g.policy.Decide(f)
	for _, l := range g.below {
		d = l.Narrow(d, f)
	}
	if granted := d.Grant.profile; d.Verdict == Allow && granted != g.profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: Clip(a.String(), maxPart), PartNo: 1, Parts: 1, Subject: anAct,
			Reason:  fmt.Sprintf("Rule %s allows it in profile %s, and this call has profile %s.", d.Rule, granted, g.profile),
			Instead: "Send it as a call of its own.",
		}
	}
	d.Grant, d.pending = Grant{}, nil
	return d
}

// Acted returns the grant after the acts of its call are done: what they lead to is decided
// about again from then on.
func (g Grant) Acted() Grant {
	g.acts, g.approved = nil, false
	return g
}

// gets reports whether a method is that of a link; an act without a method is one.
func gets(method string) bool { return method == "" || method == "GET" || method == "HEAD" }

// sameDocument reports whether two URLs are of one document: they may differ in the fragment,
// which no request has.
func sameDocument(a, b string) bool {
	a, _, _ = strings.Cut(a, "#")
	b, _, _ = strings.Cut(b, "#")
	return a == b
}
