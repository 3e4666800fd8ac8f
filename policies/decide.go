package policies

import "slices"

// Decide returns the decision about one call. It reads nothing but the policy and the
// facts, so equal calls get equal decisions.
func (p *Policy) Decide(f Facts) Decision {
	d := p.decide(f)
	d.Policy = p.hash
	if d.Verdict != Deny { // a denial offers nothing
		d.offer(d.offered().judgedBy(p, f))
	}
	return d
}

func (p *Policy) decide(f Facts) Decision {
	profile, refused := p.asked(f)
	if profile == "" {
		return refused
	}
	if f.Tool == askTool {
		if no, refuse := p.questions.unasked(profile); refuse {
			return no
		}
	}
	if f.Scopes != nil {
		if no, refuse := p.Login().outOfScope(f, profile); refuse {
			return no
		}
	}
	pieces := pieces(f)
	d := p.alone(f, profile, pieces)
	d.Layer, d.Profile = LayerSystem, profile
	if no, refuse := p.unacting(&f, d, d.offered()); refuse {
		return no
	}
	if own := p.tenants[f.Tenant]; own != nil {
		if no, outside := own.outside(d, p.name); outside {
			return no
		}
	}
	if f.Scopes != nil && d.Verdict != Deny { // a rule may have granted another profile than the call asked for
		if no, refuse := p.Login().outOfScope(f, d.offered().profile); refuse {
			no.Parts, no.Audit = d.Parts, d.Audit.ofRefusal()
			return no
		}
	}
	for _, l := range p.layersOf(f.Tenant) {
		d = l.narrow(d, f, pieces)
	}
	return d
}

// alone returns the decision of the system's file, without the layers below.
func (p *Policy) alone(f Facts, profile string, pieces []piece) Decision {
	d, grants := p.judge(f, profile, pieces)
	if d.Verdict == Deny {
		return d
	}
	granted := profile
	if !slices.Contains(grants, profile) {
		if len(grants) == 0 {
			return Decision{
				Verdict: Deny, Rule: ruleMixed, Source: Source{File: p.name}, Parts: len(pieces), Obligations: Obligations{Audit: d.Audit.ofRefusal()},
				Reason:  "Each part of this call is allowed, but not all of them in one profile.",
				Instead: "Send the parts as separate calls.",
			}
		}
		// A rule granted another profile than the call asked for: refusals of other rules
		// in that profile must count too.
		granted = slices.Min(grants)
		again, _ := p.judge(f, granted, pieces)
		if again.Verdict < d.Verdict && again.Rule != ruleDefault {
			d, again = again, d
		}
		d.join(again, p.logged)
	}
	d.offer(p.grant(granted, f.Tenant))
	return d
}
