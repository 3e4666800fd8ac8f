package policies

import "slices"

// OtherTools is Openness.Tool for all tools that belljar does not have itself, for example
// those of upstreams.
const OtherTools = "other tools"

// Unasked says how much is let through without a question.
type Unasked string

// The values, the strictest first.
const (
	UnaskedNone Unasked = "denied" // no call
	UnaskedAsks Unasked = "asks"   // no call without a question
	UnaskedSome Unasked = "some"   // calls that fit a rule
	UnaskedAny  Unasked = "any"    // every call, except those that other rules stop
)

// Openness is how much the rules let through of the calls of one tool that ask for one
// profile.
type Openness struct {
	Tool    string   `json:"tool"`
	Unasked Unasked  `json:"unasked"`
	By      []string `json:"by"`               // ids of the rules that say so; "default" alone, or first, if the default says so
	But     []string `json:"but,omitempty"`    // ids of rules that deny some of the calls or ask about them
	Grants  []string `json:"grants,omitempty"` // profiles that such calls get, if another one than they ask for
}

// Openness returns how much the policy's own rules let through in a profile: for each of
// belljar's tools, and for all other tools together. It looks at the rules and not at any
// call: what tenants, layers and conditions take away is not counted.
func (p *Policy) Openness(profile string) []Openness {
	acting := func(name string) bool { return p.profiles[name].browser.acting.Act }
	var all []Openness
	for _, tool := range append(slices.Clone(knownTools), OtherTools) {
		o := p.openness(profile, tool)
		if slices.Contains(actTools, tool) && o.Unasked != UnaskedNone && !acting(profile) && !slices.ContainsFunc(o.Grants, acting) {
			o = Openness{Tool: tool, Unasked: UnaskedNone, By: []string{ruleActs}}
		}
		all = append(all, o)
	}
	return all
}

// openness returns the Openness of one tool.
func (s *ruleset) openness(profile, tool string) Openness {
	var allows, some, asks, denies, but []string
	o := Openness{Tool: tool}
	for i := range s.rules {
		r := &s.rules[i]
		sure := r.onCallsOf(tool, profile)
		if r.mode != ModeEnforce || sure == no {
			continue
		}
		whole := sure == must
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

// onCallsOf says whether the rule speaks about the calls of a tool that ask for a profile: must
// means all calls, may some calls, no none. OtherTools stands for all tools that belljar does
// not have itself.
func (r *rule) onCallsOf(tool, profile string) proof {
	m := &r.match
	switch {
	case len(m.profiles) > 0 && !slices.ContainsFunc(m.profiles, func(n named) bool { return n.name == profile }):
		return no
	case tool != OtherTools && len(m.upstreams) > 0:
		return no
	}
	sure := min(r.onName(tool), r.onParts(tool))
	if len(m.upstreams)+len(m.hints)+len(m.flags)+len(m.anyFlag)+len(m.env) > 0 || r.when != nil || !r.unless.isZero() {
		sure = min(sure, may)
	}
	return sure
}

// onName says the same for the names of the tools alone. A rule that allows matches only the
// listed name of an upstream's tool; other rules match its further names too, which the
// upstream chooses.
func (r *rule) onName(tool string) proof {
	switch {
	case len(r.match.tools) == 0:
		return must
	case tool != OtherTools && r.match.onTool(tool):
		return must
	case tool != OtherTools:
		return no
	}
	sure := no
	for _, e := range r.match.tools {
		for _, pattern := range e.choice {
			switch {
			case pattern == "*":
				return must
			case r.verdict == Allow && namesUpstreams(pattern), r.verdict != Allow && !slices.Contains(knownTools, pattern):
				sure = may
			}
		}
	}
	return sure
}

// onParts says the same for the kinds of parts alone. What kinds a call of another tool has
// depends on the policy's facts for its upstream.
func (r *rule) onParts(tool string) proof {
	m := &r.match
	switch {
	case !m.typed():
		return must
	case tool == ActTool:
		if len(m.acts) > 0 || r.verdict != Allow && len(m.paths)+len(m.urls)+len(m.hosts) > 0 {
			return may
		}
		return no
	case len(m.acts) > 0:
		return no
	case tool == OtherTools:
		return may
	case (tool == "Bash" || tool == "BackgroundBash") && m.everyCommand():
		return must
	}
	for _, t := range toolTable {
		if t.name == tool && slices.ContainsFunc(t.parts, m.has) {
			return may
		}
	}
	return no
}

// hides reports whether no call of a tool can be allowed or asked about by the rules of one
// file, whatever its arguments: then a list of tools leaves the tool out. It looks at no
// profiles, so a tool that is denied under every profile may still be listed.
func (s *ruleset) hides(f *Facts) bool {
	open := s.fallback != Deny
	for i := range s.rules {
		r := &s.rules[i]
		named := r.match.onTool(f.Tool)
		if r.mode != ModeEnforce || !named && !r.onOtherName(f) {
			continue
		}
		switch sure := r.onCalls(f); {
		case r.verdict == Deny && sure == must:
			return true
		case r.verdict != Deny && sure != no:
			open = open || named // another name of the tool does not open what is denied by default
		}
	}
	return !open
}

// onCalls says how sure it is that the rule speaks about the calls of a tool that it names:
// must means all calls, may some calls, no none.
func (r *rule) onCalls(f *Facts) proof {
	sure := r.match.onCalls(f)
	if !r.unless.isZero() {
		sure = min(sure, r.unless.onCalls(f).not())
	}
	if r.when != nil {
		sure = min(sure, may)
	}
	return sure
}

// onCalls says the same for a match. The annotations are known beforehand only for a tool
// of an upstream.
func (m *match) onCalls(f *Facts) proof {
	own := f.Upstream == ""
	switch {
	case !own && !m.from(f), own && len(m.upstreams) > 0, len(m.acts) > 0 && f.Tool != ActTool:
		return no
	case len(m.profiles) > 0, m.typed(), own && len(m.hints) > 0:
		return may
	}
	return must
}

// HiddenFrom reports whether no call of a tool by a tenant can be allowed or asked about:
// because of the policy's own rules or those of the tenant's layers, or because the policy does
// not serve the tenant, or because the tool is a browser's and no profile lets a browser act. Of
// the facts it looks at Tenant, Tool, ToolNames and Upstream, and at the Annotations of the tool
// of an upstream.
func (p *Policy) HiddenFrom(f Facts) bool {
	if !p.serves(f.Tenant) || p.hides(&f) || slices.Contains(actTools, f.Tool) && f.Upstream == "" && !acts(p) {
		return true
	}
	return slices.ContainsFunc(p.layersOf(f.Tenant), func(l *Layer) bool { return l.Hidden(f) })
}

// Hidden reports whether the layer lets no call of a tool be allowed or asked
// about. It looks at the same facts as Policy.HiddenFrom, except Tenant. A nil layer hides none.
func (l *Layer) Hidden(f Facts) bool { return l != nil && l.rules.hides(&f) }

// PossibleActs returns the kinds of act that the policy's own rules may let through, or ask
// about, in some profile: the other kinds need not be offered. Tenants, layers and
// conditions that take acts away are not counted.
func PossibleActs(p *Policy) []ActKind {
	var all []ActKind
	for _, kind := range ActKinds() {
		for name := range p.profiles {
			if mayAct(p, kind, name) {
				all = append(all, kind)
				break
			}
		}
	}
	return all
}

// mayAct reports whether the rules may let an act of a kind through in a profile.
func mayAct(p *Policy, kind ActKind, profile string) bool {
	acting := p.profiles[profile].browser.acting
	if !acting.Act || kind == ActEval && acting.Eval == EvalOff || kind == ActSecret && len(acting.Secrets) == 0 {
		return false
	}
	c := &inquiry{tool: ActTool, profile: profile, facts: &Facts{Tool: ActTool}}
	open := p.fallback != Deny
	for i := range p.rules {
		r := &p.rules[i]
		if r.mode != ModeEnforce || !r.match.onTool(ActTool) || len(r.match.acts) > 0 && !slices.Contains(r.match.acts, kind) {
			continue
		}
		whole := !r.match.typed() || len(r.match.acts) > 0 && len(r.match.places)+len(r.match.urls)+len(r.match.paths) == 0
		switch {
		case r.verdict == Deny && whole && r.unless.isZero() && r.when == nil && r.match.on(c):
			return false
		case r.verdict != Deny && r.onParts(ActTool) != no:
			open = true
		}
	}
	return open
}

// acts reports whether some profile lets browsers act.
func acts(p *Policy) bool {
	for _, g := range p.profiles {
		if g.browser.acting.Act {
			return true
		}
	}
	return false
}
