package policies

import "maps"

// DecideURL returns the decision of the policy that made the grant about the same
// call with another URL in place of its own: for a page that leads to that URL.
// The Decision has no Grant. A person who said yes to the call said it only to
// its own URL. A URL that is allowed only in another profile is not allowed here.
func (g Grant) DecideURL(url string) Decision {
	if g.policy == nil || g.call == nil || g.IsZero() {
		return Decision{Rule: ruleDefault, Part: Clip(url, maxPart), Reason: "The call has no grant.", Instead: "Repeat the call."}
	}
	if g.call.Tool == ActTool {
		return g.DecideDocument("", url, "GET")
	}
	f := *g.call
	f.URLs, f.Profile = []string{url}, g.asked
	if _, named := f.Args["url"]; named { // conditions see the same URL as rules
		f.Args = maps.Clone(f.Args)
		f.Args["url"] = url
	}
	d := g.policy.Decide(f)
	for _, l := range g.below {
		d = l.Narrow(d, f)
	}
	if granted := d.Grant.profile; d.Verdict == Allow && granted != g.profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: Clip(url, maxPart), PartNo: 1, Parts: 1, Subject: aURL,
			Reason:  "Rule " + d.Rule + " allows it in profile " + granted + ", and this call has profile " + g.profile + ".",
			Instead: "Call again with that URL.",
		}
	}
	d.Grant, d.pending = Grant{}, nil
	return d
}
