package policies

import "slices"

// OtherTools is the Tool of the Openness of all tools that belljar does not have
// itself, for example those of upstreams.
const OtherTools = "other tools"

// Unasked says how much is let through without a question.
type Unasked string

// The values, from the closed one up.
const (
	UnaskedNone Unasked = "denied" // no call
	UnaskedAsks Unasked = "asks"   // none without a question
	UnaskedSome Unasked = "some"   // calls that fit a rule
	UnaskedAny  Unasked = "any"    // every call, but for those that other rules stop
)

// Openness is what the rules let through of a tool, for calls that ask for one
// profile.
type Openness struct {
	Tool    string   `json:"tool"`
	Unasked Unasked  `json:"unasked"`
	By      []string `json:"by"`               // the rules that say so, or default
	But     []string `json:"but,omitempty"`    // rules that stop or question some of it
	Grants  []string `json:"grants,omitempty"` // the profiles that such calls get, where it is another
}

// Openness is what the policy's own rules let through in a profile, of each of
// belljar's tools and of the others together. It looks at what rules are about
// and not at any call: what tenants, layers and conditions take away is not
// counted.
func (p *Policy) Openness(profile string) []Openness {
	var all []Openness
	for _, tool := range append(slices.Clone(knownTools), OtherTools) {
		all = append(all, p.openness(profile, tool))
	}
	return all
}

// openness is Openness of one tool.
func (s *ruleset) openness(profile, tool string) Openness {
	var allows, some, asks, denies, but []string
	o := Openness{Tool: tool}
	for i := range s.rules {
		r := &s.rules[i]
		here := len(r.match.profiles) == 0 || slices.ContainsFunc(r.match.profiles, func(n named) bool { return n.name == profile })
		if !here || r.mode != ModeEnforce || !r.match.onTool(tool) || tool != OtherTools && len(r.match.upstreams) > 0 {
			continue
		}
		// An option or a variable of a command is not looked at: it may be there
		// in any call.
		broad := r.match.everyCommand() && len(r.match.upstreams)+len(r.match.hints)+len(r.match.flags)+len(r.match.anyFlag) == 0
		whole := broad && r.when == nil && r.unless.isZero()
		switch {
		case r.verdict == Allow && whole:
			allows = append(allows, r.id)
		case r.verdict == Allow:
			some = append(some, r.id)
		case r.verdict == Ask && whole:
			asks = append(asks, r.id)
		case r.verdict == Deny && whole:
			denies = append(denies, r.id)
		default:
			but = append(but, r.id)
		}
		if r.verdict == Allow && r.profile != "" && r.profile != profile && !slices.Contains(o.Grants, r.profile) {
			o.Grants = append(o.Grants, r.profile)
		}
	}
	byDefault := []string{ruleDefault}
	switch {
	case len(denies) > 0:
		o.Unasked, o.By, o.Grants = UnaskedNone, denies, nil
	case len(asks) > 0:
		o.Unasked, o.By, o.But = UnaskedAsks, asks, but
	case len(allows) > 0:
		o.Unasked, o.By, o.But = UnaskedAny, allows, but
	case s.fallback == Allow:
		o.Unasked, o.By, o.But = UnaskedAny, append(byDefault, some...), but
	case len(some) > 0:
		o.Unasked, o.By, o.But = UnaskedSome, some, but
	case s.fallback == Ask:
		o.Unasked, o.By, o.But = UnaskedAsks, byDefault, but
	default:
		o.Unasked, o.By = UnaskedNone, byDefault
	}
	return o
}

// Hidden reports whether no call of a tool can be allowed or asked about by the rules of
// one file, whatever its arguments: a list of tools leaves it out. It looks at the tool's
// name only, so a tool that is denied under every profile may still be listed.
func (s *ruleset) Hidden(tool string) bool {
	open := s.fallback != Deny
	for _, r := range s.rules {
		if r.mode != ModeEnforce || !r.match.onTool(tool) {
			continue
		}
		if r.verdict == Deny && !r.match.narrow() && r.when == nil && r.unless.isZero() {
			return true
		}
		open = open || r.verdict != Deny
	}
	return !open
}

// HiddenFrom reports whether no call of a tool by a tenant can be allowed or
// asked about. Unlike Hidden, it looks at the layers of that tenant too.
func (p *Policy) HiddenFrom(tenantName, tool string) bool {
	if !p.serves(tenantName) || p.Hidden(tool) {
		return true
	}
	return slices.ContainsFunc(p.layersOf(tenantName), func(l *Layer) bool { return l.Hidden(tool) })
}

// Hidden reports whether the layer lets no call of a tool be allowed or asked
// about. A nil layer hides none.
func (l *Layer) Hidden(tool string) bool { return l != nil && l.rules.Hidden(tool) }
