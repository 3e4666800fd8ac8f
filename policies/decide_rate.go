package policies

import (
	"fmt"
	"time"
)

// Beyond returns the decision about a call that a rule would let through, but that is above
// the limit of the rule: d with a refusal instead of the grant. retry is the time until the
// limit has room again; zero means that it has room as soon as a running call ends.
func (l RateLimit) Beyond(d Decision, retry time.Duration) Decision {
	no := Decision{
		Verdict: Deny, Rule: l.Rule, Source: l.Source, Parts: d.Parts, PartNo: d.PartNo, Part: d.Part, Subject: d.Subject, ScriptPart: ScriptPart{Via: d.Via},
		Layer: d.Layer, Profile: d.Profile, Policy: d.Policy, Retry: max(retry, time.Second),
		Obligations: Obligations{Audit: d.Audit.ofRefusal()},
	}
	if retry <= 0 {
		no.Reason = fmt.Sprintf("The rule lets %d of your calls run at the same time, and that many are running.", l.Concurrent)
		no.Instead = "Retry when one of them has ended, and do other work until then."
		return no
	}
	no.Reason = fmt.Sprintf("The rule lets through %d calls in %s, and they are used up.", l.Calls, inWords(l.Per))
	no.Instead = fmt.Sprintf("Retry in %s, and do other work until then.", inWords(retry))
	return no
}
