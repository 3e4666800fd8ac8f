package policies

import (
	"fmt"
	"slices"
)

// unacting refuses a call of a browser tool if the profile that it gets lets no browser
// act. granted is the grant with that profile.
func (s *ruleset) unacting(f *Facts, d Decision, granted Grant) (Decision, bool) {
	switch {
	case d.Verdict == Deny:
		return d, false
	case len(f.Acts) > 0 && f.Tool != ActTool:
		// Only the tool of browsers may have acts: other calls with acts are denied.
	case !slices.Contains(actTools, f.Tool) || granted.Acting().Act:
		return d, false
	}
	return Decision{
		Verdict: Deny, Rule: ruleActs, Source: Source{File: s.name}, Parts: d.Parts, Layer: d.Layer, Profile: d.Profile, Obligations: Obligations{Audit: d.Audit.ofRefusal()},
		Reason:  fmt.Sprintf("Profile %q lets no browser act.", Clip(granted.profile, 64)),
		Instead: "Read pages with ReadDocs, or tell the person you work for that the profile would need browser: {walls: sandboxed, act: true}.",
	}, true
}
