package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
	"belljar.dev/policies/report"
)

// maxExamples bounds the example calls that are shown of one group.
const maxExamples = 100

// replaying contains the flags of replay.
type replaying struct {
	recorded  bool
	workspace string
	examples  int
	fail      bool
	asJSON    bool
}

func policyReplayCommand() *cobra.Command {
	var r replaying
	c := &cobra.Command{
		Use:   "replay [OLD] NEW AUDIT...",
		Short: "list the calls of an audit log that another policy decides otherwise",
		Long: `replay decides each call of the logs again, under the policy OLD and under NEW,
and lists those whose verdict or profile changes: in groups of one tool, one
change and the same two rules, those that open more first, each with some of its
calls and the part of them that decides. A log is a directory, or one of its files.

With --recorded there is no OLD: the decisions in the log are compared with NEW.
A call that a person approved counts as one that was asked about.

A record without the arguments of its call, such as one of the level meta, cannot be
decided again: replay says how many there are, and why. Calls are decided at the
time at which they came. A log does not have rate limits, nor the layer of a
session's plan mode.

With --json it prints an object with "calls", "replayed", "skipped" by reason,
"changed", and "changes", each with "tool", "before" and "after" ("verdict",
"rule", "file", "line", "profile"), "calls" and "examples".

Exit status: 0 whatever changes; 1 something does, with --fail, or a policy has
faults, or a log cannot be read; 2 the command line is not valid.`,
		Example: `  belljar policy replay old.yaml new.yaml ~/.local/state/belljar/audit
  belljar policy replay --recorded --fail new.yaml audit.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case r.recorded && len(args) < 2:
				return &lacking{"a policy and at least one log, with --recorded"}
			case !r.recorded && len(args) < 3:
				return &lacking{"two policies and at least one log; with --recorded, one policy"}
			case r.examples < 0 || r.examples > maxExamples:
				return usage("--examples is %d, outside 0 to %d", r.examples, maxExamples)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return r.run(c, args) },
	}
	c.Flags().BoolVar(&r.recorded, "recorded", false, "compare NEW with the decisions in the log; there is no OLD")
	c.Flags().StringVar(&r.workspace, "workspace", "", "the `directory` that is the workspace, for what the policies say of projects (default: the current one)")
	c.Flags().IntVar(&r.examples, "examples", 3, "how many calls of each group to show, as a `number`")
	c.Flags().BoolVar(&r.fail, "fail", false, "exit with 1 if a decision changes")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print JSON for programs")
	return c
}

func (r *replaying) run(c *cobra.Command, args []string) error {
	count := 2
	if r.recorded {
		count = 1
	}
	var all []*policies.Policy
	if err := policiesFor(c, args[:count], r.workspace, func(_ string, p *policies.Policy) { all = append(all, p) }); err != nil {
		return err
	}
	var old *policies.Policy
	if !r.recorded {
		old = all[0]
	}
	run := report.NewReplay(old, all[len(all)-1], r.examples)
	for _, log := range args[count:] {
		if err := run.Read(c.Context(), log); err != nil {
			return failure(err)
		}
	}
	run.Sort()
	if err := printReplay(c.OutOrStdout(), run, r.asJSON); err != nil {
		return failure(err)
	}
	if r.fail && run.Changed > 0 {
		return &statusError{code: exitFailed}
	}
	return nil
}

// sideText returns one side of a change in a form for people.
func sideText(s report.Side) string {
	text := s.Word + " by " + by(s.Rule, policies.Source{File: s.File, Line: s.Line})
	if s.Profile != "" {
		text += " in profile " + s.Profile
	}
	return text
}

// printReplay prints the report.
func printReplay(w io.Writer, r *report.Replay, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	for _, g := range r.Changes {
		fmt.Fprintf(w, "%s of %s: %s\n  was  %s\n  now  %s\n", number(g.Calls, "call", "calls"), g.Tool, kindText(g), sideText(g.Before), sideText(g.After))
		for _, e := range g.Examples {
			fmt.Fprintf(w, "       %s %s %s\n", e.Time.UTC().Format(time.DateTime), e.CallID, exampleText(e))
		}
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "and %s of other kinds\n", number(r.Others, "call", "calls"))
	}
	fmt.Fprintf(w, "%s replayed, %d would be decided otherwise\n", number(r.Replayed, "call", "calls"), r.Changed)
	reasons := make([]string, 0, len(r.Skipped))
	for why := range r.Skipped {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Skipped[b], r.Skipped[a]), strings.Compare(a, b))
	})
	for _, why := range reasons {
		fmt.Fprintf(w, "%s could not be replayed: %s\n", number(r.Skipped[why], "call", "calls"), why)
	}
	return nil
}

// kindText returns a word for the effect of a change.
func kindText(g *report.Changed) string {
	switch {
	case g.After.Verdict > g.Before.Verdict:
		return "OPENED"
	case g.After.Verdict < g.Before.Verdict:
		return "closed"
	}
	return "another profile"
}

// exampleText returns the part of a call that decides.
func exampleText(e report.Example) string {
	switch {
	case e.Part == "":
		return "the call as a whole"
	case e.Parts > 1:
		return fmt.Sprintf("%s (of %d parts)", e.Part, e.Parts)
	}
	return e.Part
}
