package report

import (
	"fmt"

	"belljar.dev/policies"
)

// Explained is the output of `policy explain --json`.
type Explained struct {
	Verdict  string  `json:"verdict"`
	Rule     Rule    `json:"rule"`
	Profile  string  `json:"profile,omitempty"` // profile that was granted; only if the verdict is allow
	Reason   string  `json:"reason,omitempty"`
	Instead  string  `json:"instead,omitempty"`
	Remember string  `json:"approval_for,omitempty"` // only if the verdict is ask
	Parts    []Part  `json:"parts"`
	Limits   []Limit `json:"limits,omitempty"`
	// rules that are not enforced, and the verdicts that they would have given
	Shadow []Match `json:"not_enforced,omitempty"`
}

// Rule names a rule and its place.
type Rule struct {
	ID    string `json:"id"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Layer string `json:"layer,omitempty"`
}

// Part is a part of a call.
type Part struct {
	Subject string  `json:"subject,omitempty"`
	Text    string  `json:"text"`
	Via     string  `json:"started_by,omitempty"`
	Words   string  `json:"words,omitempty"`
	Doubt   string  `json:"doubt,omitempty"`
	Verdict string  `json:"verdict,omitempty"` // empty if what the part starts is judged instead
	Rule    *Rule   `json:"rule,omitempty"`
	Matches []Match `json:"matches"`
	Below   []Match `json:"layers_below,omitempty"`
}

// Match is a rule that speaks about a part.
type Match struct {
	Rule

	Verdict string `json:"verdict"`
	Mode    string `json:"mode,omitempty"`
	Unsure  bool   `json:"unsure,omitempty"` // the rule only may speak about the part
	When    string `json:"when,omitempty"`
	Silent  bool   `json:"silent,omitempty"` // the rule's condition does not hold
	Failed  string `json:"failed,omitempty"` // why the rule's condition cannot be evaluated
}

// Limit is a limit that a rule sets.
type Limit struct {
	Rule

	Limit string `json:"limit"`
}

func placeOf(rule string, at policies.Source) Rule {
	return Rule{ID: rule, File: at.File, Line: at.Line}
}

// Explain returns a decision and its parts in the form for programs.
func Explain(d policies.Decision, parts []policies.Part) Explained {
	e := Explained{
		Verdict: d.Verdict.String(), Rule: placeOf(d.Rule, d.Source), Reason: d.Reason, Instead: d.Instead, Parts: []Part{},
	}
	e.Rule.Layer = d.Layer
	switch d.Verdict {
	case policies.Allow:
		e.Profile = d.Grant.Profile()
	case policies.Ask:
		e.Remember = fmt.Sprint(d.Remember)
	case policies.Deny:
	}
	for _, p := range parts {
		part := Part{Subject: p.Subject, Text: p.Text, Via: p.Via, Words: p.Words, Doubt: p.Doubt, Matches: []Match{}}
		if !p.Passed {
			at := placeOf(p.Rule, p.Source)
			part.Verdict, part.Rule = p.Verdict.String(), &at
		}
		for _, m := range p.Matches {
			part.Matches = append(part.Matches, Match{
				Rule: placeOf(m.Rule, m.Source), Verdict: m.Verdict.String(), Mode: fmt.Sprint(m.Mode),
				Unsure: m.Maybe, When: m.When, Silent: m.Silent, Failed: m.Failed,
			})
		}
		for _, s := range p.Below {
			at := placeOf(s.Rule, s.Source)
			at.Layer = s.Layer
			part.Below = append(part.Below, Match{Rule: at, Verdict: s.Verdict.String()})
		}
		e.Parts = append(e.Parts, part)
	}
	for _, l := range d.Limits {
		e.Limits = append(e.Limits, Limit{placeOf(l.Rule, l.Source), l.String()})
	}
	for _, s := range d.Shadow {
		e.Shadow = append(e.Shadow, Match{Rule: placeOf(s.Rule, s.Source), Verdict: s.Verdict.String(), Mode: fmt.Sprint(s.Mode)})
	}
	return e
}
