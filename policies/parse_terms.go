package policies

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// limit reads the limit of a rule.
func (d *ruleDecoder) limit(n *yaml.Node) RateLimit {
	var l RateLimit
	o, ok := d.mapping(n, "limit", limitShape)
	if !ok {
		return l
	}
	if len(n.Content) == 0 {
		d.Fault(n, "write limit: {calls: 30/h}, or {concurrent: 4}", "limit must not be empty")
	}
	if v := o.get("calls"); v != nil {
		if calls, per, ok := d.rate(v, "calls"); ok {
			l.Calls, l.Per = calls, per
		}
	}
	if v := o.get("concurrent"); v != nil {
		if value, ok := d.count(v, "concurrent", maxConcurrent, false); ok {
			l.Concurrent = int(value)
		}
	}
	return l
}

// terms reads limit, obligations and remember of a rule.
func (d *ruleDecoder) terms(o object, r *rule) {
	at := o.get("limit")
	if at != nil {
		r.terms.limit = d.limit(at)
	}
	if v := o.get("obligations"); v != nil {
		d.obligations(v, r, at != nil)
	}
	if v := o.get("remember"); v != nil {
		remember := d.remember(v, d.to.asking.most)
		r.terms.remember = &remember
		if decision := o.get("decision"); decision != nil && r.verdict != Ask {
			d.Fault(v, "remove it", "only a rule that asks has an approval to remember")
		}
	}
	if v := o.get("audit"); v != nil {
		r.terms.audit = d.kept(v, r, o.get("decision") != nil)
	}
	if v := o.get("limit"); v != nil && o.get("decision") != nil && r.verdict == Deny {
		d.Fault(v, "remove it, or write decision: allow or ask", "a rule that denies lets no call through that could be counted")
	}
	r.terms.limit.Rule, r.terms.limit.Source = r.id, r.source
}

// obligations reads the obligations of a call that passes.
func (d *ruleDecoder) obligations(n *yaml.Node, r *rule, limited bool) {
	o, ok := d.mapping(n, "obligations", obligationsShape)
	if !ok {
		return
	}
	if len(n.Content) == 0 {
		d.Fault(n, "write obligations: {redact: [emails]}", "obligations must not be empty")
	}
	if v := o.get("limit"); v != nil {
		if limited {
			d.Fault(v, "keep one of them", "the rule has a limit of its own already")
		}
		r.terms.limit = d.limit(v)
	}
	if v := o.get("redact"); v != nil {
		d.texts(v, "redact", func(n *yaml.Node, s string) {
			switch {
			case !slices.Contains(redactions, s):
				d.Fault(n, suggest(s, redactions), "redact cannot name %q", s)
			case slices.Contains(r.terms.redact, Redaction(s)):
				d.Fault(n, "remove one", "redact names %s twice", s)
			default:
				r.terms.redact = append(r.terms.redact, Redaction(s))
			}
		})
	}
}

// kept reads how much is kept of the calls of a rule.
func (d *ruleDecoder) kept(n *yaml.Node, r *rule, decided bool) Kept {
	word := d.word(n, "audit", auditLevels...)
	k := Kept{Said: true, Level: AuditLevel(max(0, word))}
	if word == int(AuditNone) && decided && r.verdict != Allow {
		d.Fault(n, "write audit: meta, which keeps no arguments", "what is refused or asked about is always written down")
	}
	return k
}
