package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "check and test policy files",
		Long:  "policy checks and tests policy files before they are used.\n" + exitHelp,
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(policyCheckCommand(), policyTestCommand())
	return c
}

func policyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "say all that is wrong with policy files",
		Long: `check reads each file and prints every fault with its line and column. A test
of the file that fails is a fault too.

Exit status: 0 no fault; 1 there are faults; 2 the command line makes no sense.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			return eachPolicy(c, names, func(name string, p *policies.Policy) {
				fmt.Fprintf(c.OutOrStdout(), "%s: no faults, %d tests pass\n", name, len(p.Tests()))
			})
		},
	}
}

func policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE...",
		Short: "show what the tests in policy files come to",
		Long: `test runs the tests that stand in each file under "tests:", and prints the
verdict and the rule of each.

Exit status: 0 all pass; 1 one does not, or a file has faults; 2 the command
line makes no sense.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			return eachPolicy(c, names, func(name string, p *policies.Policy) {
				for _, r := range p.Tests() {
					fmt.Fprintf(c.OutOrStdout(), "ok  %s:%d: %s: %s by %s\n", name, r.Source.Line, r.Call, r.Got, r.Rule)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: %d tests pass\n", name, len(p.Tests()))
			})
		},
	}
}

// eachPolicy reads each file, shows the faults of those that have some, and
// hands the others on.
func eachPolicy(c *cobra.Command, names []string, use func(name string, p *policies.Policy)) error {
	faulty := 0
	for _, name := range names {
		p, err := readPolicy(name)
		if err != nil {
			faulty++
			fmt.Fprintln(c.ErrOrStderr(), err)
			continue
		}
		use(name, p)
	}
	if faulty > 0 {
		return failure(fmt.Errorf("read policies: %d of %d cannot be used; the lines above say why", faulty, len(names)))
	}
	return nil
}
