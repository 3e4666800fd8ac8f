package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
)

// The types that the policy commands print with --json. Programs rely on them: keys may be
// added, but no key is removed or changes its meaning. docs/commands.md describes them.

// checkedPolicy is the result of `policy check --json` and `policy test --json` for one
// policy.
type checkedPolicy struct {
	Policy string       `json:"policy"`
	OK     bool         `json:"ok"`
	Tests  []testedCall `json:"tests"`
	Faults []faultInfo  `json:"faults"`
	More   int          `json:"more_faults,omitempty"` // number of faults that are not in Faults
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

// checkJSON prints the faults of policies, and the results of their tests.
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
