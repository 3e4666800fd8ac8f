package policies

import "slices"

// bind puts the terms of rules into a decision.
func (d *Decision) bind(rules []*rule) {
	for _, r := range rules {
		if l := r.terms.limit; !l.isZero() && !slices.ContainsFunc(d.Limits, func(have RateLimit) bool { return have.Rule == l.Rule }) {
			d.Limits = append(d.Limits, l)
		}
		for _, s := range r.terms.redact {
			if !slices.Contains(d.Redact, s) {
				d.Redact = append(d.Redact, s)
			}
		}
	}
}

// join adds the obligations that another decision about the same call has, and what the
// rules that are not enforced say in it. logged is the level of the log.
func (d *Decision) join(other Decision, logged AuditLevel) {
	d.Audit = d.Audit.wider(other.Audit, logged)
	for _, s := range other.Shadow {
		if len(d.Shadow) < maxShadows && !slices.ContainsFunc(d.Shadow, func(have Shadow) bool { return have.Rule == s.Rule }) {
			d.Shadow = append(d.Shadow, s)
		}
	}
	if d.Verdict == Deny {
		return
	}
	for _, l := range other.Limits {
		if !slices.ContainsFunc(d.Limits, func(have RateLimit) bool { return have.Rule == l.Rule }) {
			d.Limits = append(d.Limits, l)
		}
	}
	for _, s := range other.Redact {
		if !slices.Contains(d.Redact, s) {
			d.Redact = append(d.Redact, s)
		}
	}
	for _, s := range other.Warnings {
		if len(d.Warnings) < maxWarnings && !slices.Contains(d.Warnings, s) {
			d.Warnings = append(d.Warnings, s)
		}
	}
}

// bindAll adds the obligations that the decision of another layer has: every limit holds,
// everything that one of the layers names is taken out, and an approval lasts only as long
// as each layer that asks allows.
func (d *Decision) bindAll(other Decision) {
	if d.Verdict == Ask && other.Verdict == Ask {
		d.Remember = d.Remember.narrow(other.Remember)
	}
	for _, s := range other.Shadow {
		if len(d.Shadow) < maxShadows && !slices.Contains(d.Shadow, s) {
			d.Shadow = append(slices.Clip(d.Shadow), s)
		}
	}
	if d.Verdict == Deny {
		return
	}
	for _, l := range other.Limits {
		if !slices.Contains(d.Limits, l) {
			d.Limits = append(slices.Clip(d.Limits), l)
		}
	}
	for _, s := range other.Redact {
		if !slices.Contains(d.Redact, s) {
			d.Redact = append(slices.Clip(d.Redact), s)
		}
	}
	for _, s := range other.Warnings {
		if len(d.Warnings) < maxWarnings && !slices.Contains(d.Warnings, s) {
			d.Warnings = append(slices.Clip(d.Warnings), s)
		}
	}
}

// remembers returns what a rule that asks says about approvals. A deny rule that may or may
// not match a part also asks; its approval covers only the call.
func (r *rule) remembers(s *ruleset) Remember {
	switch {
	case r.verdict == Deny:
		return Remember{}
	case r.terms.remember != nil:
		return *r.terms.remember
	}
	return s.asking.remember
}

// keeping finds how much of a call is kept: for each part the most that the rules about it
// say, and for the call the most of all parts.
type keeping struct {
	logged AuditLevel // level of the log, as in ruleset
	begun  bool
	kept   Kept
}

// add includes a part and the rules with terms that speak about the part.
func (k *keeping) add(c *inquiry, rules []*rule) {
	var of Kept
	for _, r := range rules {
		said := r.terms.audit
		if !said.Said {
			continue
		}
		if !c.byOwnName(r) { // a name that an upstream chose does not make the log keep less
			said.Level = max(said.Level, k.logged)
		}
		of = Kept{true, max(of.Level, said.Level)}
	}
	switch {
	case !k.begun:
		k.kept = of
	case k.kept.Said != of.Said:
		// The level of the log counts like that of a rule.
		k.kept = Kept{true, max(k.kept.Level, of.Level, k.logged)}
	default:
		k.kept.Level = max(k.kept.Level, of.Level)
	}
	k.begun = true
}

// of returns how much is kept of the call. A refusal or a question is always
// recorded.
func (k *keeping) of(v Verdict) Kept {
	if v != Allow {
		return k.kept.ofRefusal()
	}
	return k.kept
}
