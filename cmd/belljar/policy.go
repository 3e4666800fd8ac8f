package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
	"belljar.dev/policies/report"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "check, test, explain, lint, replay and rate policies",
		Long: `policy checks and tests policies before they are used, and explains what they
say. A policy is a file, or the name of a bundled policy, which "belljar policy
list" prints. A file with such a name is written ./NAME.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(policyListCommand(), policyShowCommand(), policyCheckCommand(), policyTestCommand(), policyExplainCommand(), policySchemaCommand(), policyLintCommand(), policyReplayCommand(), policyScoreCommand())
	return c
}

func policyCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "report all faults of policy files",
		Long: `check reads each file and prints every fault with its line and column. A test
of the file that fails is a fault too, and so is each fault of a file that the
policy names. For a file with faults it names the running servers that still use the
text which they read before.

Exit status: 0 no fault; 1 there are faults; 2 the command line is not valid.`,
		RunE: func(c *cobra.Command, names []string) error {
			if asJSON {
				return checkJSON(c, names)
			}
			return eachPolicy(c, names, func(name string, p *policies.Policy) {
				fmt.Fprintf(c.OutOrStdout(), "%s: no faults, %d tests pass\n", name, len(p.Tests()))
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	c.Flags().String(stateName, "", "`directory` where servers that run are found (default: $XDG_STATE_HOME/belljar)")
	return c
}

func policyTestCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "test FILE...",
		Short: "run the tests in policy files",
		Long: `test runs the tests that stand in each file under "tests:", and prints the
verdict and the rule of each.

Exit status: 0 all pass; 1 one does not, or a file has faults; 2 the command
line is not valid.`,
		RunE: func(c *cobra.Command, names []string) error {
			if asJSON {
				return checkJSON(c, names)
			}
			return eachPolicy(c, names, func(name string, p *policies.Policy) {
				for _, r := range p.Tests() {
					fmt.Fprintf(c.OutOrStdout(), "ok  %s:%d: %s: %s by %s\n", name, r.Source.Line, r.Call, r.Got, r.Rule)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: %d tests pass\n", name, len(p.Tests()))
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

func policyExplainCommand() *cobra.Command {
	f := policies.Facts{}
	var workspace, given string
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain FILE COMMAND",
		Short: "show what a policy says to each part of a command",
		Long: `explain takes a bash script apart as the policy does, and prints the verdict and
the rule of each part, and all rules that speak about it. Words that are only
known when the script runs end in ... (one word) or * (any number of words).
Conditions see the arguments that --args gives, and the present time.

Exit status: 0 whatever the verdict; 1 the file has faults; 2 the command line
is not valid.`,
		Example: "  belljar policy explain policy.yaml 'git log && timeout 5 git push -f'",
		RunE: func(c *cobra.Command, args []string) error {
			f.Command, f.Now, f.Args = args[1], time.Now(), make(map[string]any)
			if given != "" {
				// The error of json is left out, since it describes Go's types.
				if json.Unmarshal([]byte(given), &f.Args) != nil || f.Args == nil {
					return usage(`--args is not a JSON object, such as '{"timeout":5000}'`)
				}
			}
			f.Args["command"] = f.Command
			var failed error
			err := policiesFor(c, args[:1], workspace, func(_ string, p *policies.Policy) {
				d, parts := p.Explain(f)
				if asJSON {
					failed = printJSON(c.OutOrStdout(), report.Explain(d, parts))
					return
				}
				showParts(c.OutOrStdout(), d, parts)
			})
			return cmp.Or(err, failed)
		},
	}
	c.Flags().StringVar(&f.Tool, "tool", "Bash", "the `name` of the tool that is called")
	c.Flags().StringVar(&f.Profile, "profile", "", "the profile that the call asks for, by `name`")
	c.Flags().StringVar(&f.Tenant, "as", policies.LocalTenant, "whose call it is: the `name` of a tenant")
	c.Flags().StringVar(&workspace, "workspace", "", "the `directory` that is the workspace, for what the policy says of projects (default: the current one)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	c.Flags().StringVar(&given, "args", "", "further arguments of the call, as a `JSON` object")
	return c
}

// showParts prints the parts of a decision, and the decision.
func showParts(w io.Writer, d policies.Decision, parts []policies.Part) {
	for i, part := range parts {
		fmt.Fprintf(w, "part %d: %s\n", i+1, part.Text)
		if part.Via != "" {
			fmt.Fprintf(w, "  started by %s\n", part.Via)
		}
		if part.Words != "" && part.Words != part.Text {
			fmt.Fprintf(w, "  words: %s\n", part.Words)
		}
		if part.Doubt != "" {
			fmt.Fprintf(w, "  but: %s\n", part.Doubt)
		}
		if part.Passed {
			fmt.Fprintln(w, "  no rule; the command that it starts is judged")
			showBelow(w, part.Below)
			continue
		}
		for _, m := range part.Matches {
			alone := len(part.Matches) == 1 && m.Rule == part.Rule
			if !alone || m.When != "" || m.Limit != "" { // otherwise the line below contains everything
				showMatch(w, m)
			}
		}
		fmt.Fprintf(w, "  %s by %s\n", part.Verdict, by(part.Rule, part.Source))
		showBelow(w, part.Below)
	}
	fmt.Fprintf(w, "%s by %s%s\n", d.Verdict, by(d.Rule, d.Source), ofLayer(d.Layer))
	for _, l := range d.Limits {
		fmt.Fprintf(w, "limit of %s: %s\n", by(l.Rule, l.Source), l)
	}
	if len(d.Redact) > 0 {
		fmt.Fprintf(w, "taken out of the result: %v\n", d.Redact)
	}
	if d.Verdict == policies.Ask {
		fmt.Fprintf(w, "an approval may be given for: %s\n", d.Remember)
	}
	for _, s := range d.Shadow {
		fmt.Fprintf(w, "with %s, of mode %s, enforced: %s\n", by(s.Rule, s.Source), s.Mode, s.Verdict)
	}
}

// showMatch prints a rule that matches a part.
func showMatch(w io.Writer, m policies.Match) {
	fmt.Fprintf(w, "  rule %s: %s", by(m.Rule, m.Source), m.Verdict)
	switch {
	case m.Silent:
		fmt.Fprint(w, ", but not now")
	case m.Passes:
		fmt.Fprint(w, ", but it passes a part that it does not certainly speak about")
	case m.Maybe && m.Verdict == policies.Allow:
		fmt.Fprint(w, ", but it does not certainly speak about this part")
	case m.Maybe:
		fmt.Fprint(w, ", since it may speak about this part")
	}
	if m.Mode != policies.ModeEnforce {
		fmt.Fprintf(w, ", mode %s", m.Mode)
	}
	if m.Limit != "" {
		fmt.Fprintf(w, ", limit %s", m.Limit)
	}
	fmt.Fprintln(w)
	switch {
	case m.When == "":
	case m.Failed != "":
		fmt.Fprintf(w, "    when %s\n    cannot be evaluated: %s\n", policies.Clip(m.When, 200), m.Failed)
	case m.Silent:
		fmt.Fprintf(w, "    when %s: this is false\n", policies.Clip(m.When, 200))
	default:
		fmt.Fprintf(w, "    when %s\n", policies.Clip(m.When, 200))
	}
}

// showBelow prints what the layers decide about a part.
func showBelow(w io.Writer, below []policies.Said) {
	for _, s := range below {
		fmt.Fprintf(w, "  %s by %s%s\n", s.Verdict, by(s.Rule, s.Source), ofLayer(s.Layer))
	}
}
