package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// RateLimit is how many calls a rule lets through. It holds for all calls of
// one tenant that the rule speaks about together. The policy only states it: the
// code that admits calls counts them, and refuses those beyond.
type RateLimit struct {
	Rule       string
	Source     Source
	Calls      int           // in Per; 0 if only Concurrent bounds
	Per        time.Duration // 0 exactly if Calls is
	Concurrent int           // running at once; 0 if only Calls bounds
}

// String is the limit as policies spell it.
func (l RateLimit) String() string {
	text := ""
	if l.Calls > 0 {
		text = fmt.Sprintf("calls: %d/%s", l.Calls, perName(l.Per))
	}
	if l.Concurrent > 0 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("concurrent: %d", l.Concurrent)
	}
	return text
}

// Bounds of a limit.
const (
	maxCalls      = 1_000_000
	maxConcurrent = 100_000
)

// pers are the times that a rate counts in.
var pers = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour,
}

// perNames are the spellings of pers that messages use.
var perNames = []string{"s", "min", "h", "day"}

func perName(d time.Duration) string {
	i := slices.IndexFunc(perNames, func(s string) bool { return pers[s] == d })
	if i < 0 {
		return d.String()
	}
	return perNames[i]
}

var ratePattern = regexp.MustCompile(`^([0-9]+) ?/ ?([A-Za-z]+)$`)

// rate reads a number of calls in a time, for example 30/h.
func (d *decoder) rate(n *yaml.Node, key string) (calls int, per time.Duration, ok bool) {
	if n.Kind == yaml.AliasNode {
		return 0, 0, false
	}
	m := ratePattern.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil {
		hint := "write a number of calls in a time, for example 10/s, 120/min, 30/h or 500/day"
		if _, err := strconv.Atoi(n.Value); err == nil && n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("say in what time: %s/s, %s/min or %s/h", n.Value, n.Value, n.Value)
		}
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
		return 0, 0, false
	}
	per, known := pers[m[2]]
	if !known {
		d.Fault(n, suggest(m[2], perNames), "%s has the unknown time %q", key, m[2])
		return 0, 0, false
	}
	calls, err := strconv.Atoi(m[1])
	switch {
	case err == nil && calls == 0:
		d.Fault(n, "to let none through, write decision: deny", "%s must be above zero", key)
		return 0, 0, false
	case err != nil || calls > maxCalls:
		d.Fault(n, "", "%s is %s, more than the %d that can be given", key, m[1], maxCalls)
		return 0, 0, false
	}
	return calls, per, true
}

// limit reads the limit of a rule.
func (d *decoder) limit(n *yaml.Node) RateLimit {
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

// isZero reports whether the limit bounds nothing.
func (l RateLimit) isZero() bool { return l.Calls == 0 && l.Concurrent == 0 }

// Redaction names what is taken out of a call's result before the agent gets
// it.
type Redaction string

// What can be taken out.
const (
	RedactEmails Redaction = "emails" // addresses of mail
	RedactTokens Redaction = "tokens" // what looks like a key, a token or a password
)

var redactions = []string{string(RedactEmails), string(RedactTokens)}

// terms are the obligations of a call that a rule lets through.
type terms struct {
	limit    RateLimit // zero for none
	redact   []Redaction
	remember *Remember // nil for what the defaults say; of rules that ask
	audit    Kept
}

// any reports whether there are terms that hold for every verdict.
func (t terms) any() bool { return !t.limit.isZero() || len(t.redact) > 0 || t.audit.Said }

// terms reads limit, obligations and remember of a rule.
func (d *decoder) terms(o object, r *rule, most time.Duration) {
	at := o.get("limit")
	if at != nil {
		r.terms.limit = d.limit(at)
	}
	if v := o.get("obligations"); v != nil {
		d.obligations(v, r, at != nil)
	}
	if v := o.get("remember"); v != nil {
		remember := d.remember(v, most)
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

// obligations reads what a call that passes is bound to.
func (d *decoder) obligations(n *yaml.Node, r *rule, limited bool) {
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

// join adds what binds the same call by another decision.
func (d *Decision) join(other Decision) {
	d.Audit = d.Audit.wider(other.Audit)
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
	for _, s := range other.Shadow {
		if len(d.Shadow) < maxShadows && !slices.ContainsFunc(d.Shadow, func(have Shadow) bool { return have.Rule == s.Rule }) {
			d.Shadow = append(d.Shadow, s)
		}
	}
}
