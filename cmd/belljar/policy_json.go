package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
)

// What the policy commands print with --json. It is an interface: keys may come,
// none goes or changes its meaning. docs/commands.md describes it.

// checkedPolicy is what `policy check --json` and `policy test --json` say of one policy.
type checkedPolicy struct {
	Policy string       `json:"policy"`
	OK     bool         `json:"ok"`
	Tests  []testedCall `json:"tests"`
	Faults []faultInfo  `json:"faults"`
	More   int          `json:"more_faults,omitempty"` // beyond those
}

type testedCall struct {
	Line    int    `json:"line"`
	Call    string `json:"call"`
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	Profile string `json:"profile,omitempty"`
}

type faultInfo struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Col     int    `json:"col,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// checkJSON prints what is wrong with policies, and what their tests come to.
func checkJSON(c *cobra.Command, names []string) error {
	all := make([]checkedPolicy, 0, len(names))
	faulty := 0
	for _, name := range names {
		one := checkedPolicy{Policy: name, OK: true, Tests: []testedCall{}, Faults: []faultInfo{}}
		p, err := config.CheckPolicy(name, "")
		var faults *policies.ParseError
		switch {
		case errors.As(err, &faults):
			one.More = faults.More
			for _, f := range faults.Faults {
				one.Faults = append(one.Faults, faultInfo{f.File, f.Line, f.Col, f.Message, f.Hint})
			}
		case err != nil:
			one.Faults = append(one.Faults, faultInfo{Message: err.Error()})
		default:
			for _, t := range p.Tests() {
				one.Tests = append(one.Tests, testedCall{t.Source.Line, t.Call, t.Got.String(), t.Rule, t.Profile})
			}
		}
		if err != nil {
			one.OK = false
			faulty++
		}
		all = append(all, one)
	}
	if err := printJSON(c.OutOrStdout(), struct {
		Policies []checkedPolicy `json:"policies"`
	}{all}); err != nil {
		return err
	}
	if faulty > 0 {
		return failure(fmt.Errorf("read policies: %d of %d cannot be used; standard output says why", faulty, len(names)))
	}
	return nil
}

// explained is what `policy explain --json` says.
type explained struct {
	Verdict  string        `json:"verdict"`
	Rule     ruleInfo      `json:"rule"`
	Profile  string        `json:"profile,omitempty"` // granted; only where the verdict is allow
	Reason   string        `json:"reason,omitempty"`
	Instead  string        `json:"instead,omitempty"`
	Remember string        `json:"approval_for,omitempty"` // where the verdict is ask
	Parts    []partInfo    `json:"parts"`
	Limits   []limitInfo   `json:"limits,omitempty"`
	Shadow   []matchedRule `json:"not_enforced,omitempty"` // rules of another mode, and what they would make of it
}

// ruleInfo names a rule and its place.
type ruleInfo struct {
	ID    string `json:"id"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Layer string `json:"layer,omitempty"`
}

type partInfo struct {
	Subject string        `json:"subject,omitempty"`
	Text    string        `json:"text"`
	Via     string        `json:"started_by,omitempty"`
	Words   string        `json:"words,omitempty"`
	Doubt   string        `json:"doubt,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // none where what the part starts is judged in its place
	Rule    *ruleInfo     `json:"rule,omitempty"`
	Matches []matchedRule `json:"matches"`
	Below   []matchedRule `json:"layers_below,omitempty"`
}

type matchedRule struct {
	ruleInfo

	Verdict string `json:"verdict"`
	Mode    string `json:"mode,omitempty"`
	Unsure  bool   `json:"unsure,omitempty"` // it only may speak about the part
	When    string `json:"when,omitempty"`
	Silent  bool   `json:"silent,omitempty"` // its condition does not hold
	Failed  string `json:"failed,omitempty"` // why its condition cannot be worked out
}

type limitInfo struct {
	ruleInfo

	Limit string `json:"limit"`
}

func placeOf(rule string, at policies.Source) ruleInfo {
	return ruleInfo{ID: rule, File: at.File, Line: at.Line}
}

// explainJSON is a decision and its parts for programs.
func explainJSON(d policies.Decision, parts []policies.Part) explained {
	e := explained{
		Verdict: d.Verdict.String(), Rule: placeOf(d.Rule, d.Source), Reason: d.Reason, Instead: d.Instead, Parts: []partInfo{},
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
		part := partInfo{Subject: p.Subject, Text: p.Text, Via: p.Via, Words: p.Words, Doubt: p.Doubt, Matches: []matchedRule{}}
		if !p.Passed {
			at := placeOf(p.Rule, p.Source)
			part.Verdict, part.Rule = p.Verdict.String(), &at
		}
		for _, m := range p.Matches {
			part.Matches = append(part.Matches, matchedRule{
				ruleInfo: placeOf(m.Rule, m.Source), Verdict: m.Verdict.String(), Mode: fmt.Sprint(m.Mode),
				Unsure: m.Maybe, When: m.When, Silent: m.Silent, Failed: m.Failed,
			})
		}
		for _, s := range p.Below {
			at := placeOf(s.Rule, s.Source)
			at.Layer = s.Layer
			part.Below = append(part.Below, matchedRule{ruleInfo: at, Verdict: s.Verdict.String()})
		}
		e.Parts = append(e.Parts, part)
	}
	for _, l := range d.Limits {
		e.Limits = append(e.Limits, limitInfo{placeOf(l.Rule, l.Source), l.String()})
	}
	for _, s := range d.Shadow {
		e.Shadow = append(e.Shadow, matchedRule{ruleInfo: placeOf(s.Rule, s.Source), Verdict: s.Verdict.String(), Mode: fmt.Sprint(s.Mode)})
	}
	return e
}
