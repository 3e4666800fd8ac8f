package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
)

func policyListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "list the bundled policies, and for whom each is",
		Long: `list prints the policies that belljar contains. Each can be given to
--policy by its name, and docs/policy.md says what it prevents and what it does not.

Exit status: 0; 2 the command line is not valid.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				all := make([]bundledInfo, 0, len(policies.Bundled()))
				for _, name := range policies.Bundled() {
					all = append(all, bundledInfo{name, policies.BundledUse(name)})
				}
				return printJSON(c.OutOrStdout(), all)
			}
			t := newTable(c.OutOrStdout())
			for _, name := range policies.Bundled() {
				fmt.Fprintf(t, "%s\t%s\n", name, policies.BundledUse(name))
			}
			return failure(t.Flush())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

// bundledInfo is a bundled policy in the JSON output.
type bundledInfo struct {
	Name string `json:"name"`
	Use  string `json:"use"` // purpose of the policy
}

func policyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "print a bundled policy, as the start of your own file",
		Long: `show prints the text of a bundled policy.

Exit status: 0; 1 no bundled policy has the name; 2 the command line is not
valid.`,
		Example: "  belljar policy show default > policy.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			text := policies.BundledText(args[0])
			if text == "" {
				return failure(fmt.Errorf("show policy %s: no bundled policy has that name; they are %s", args[0], strings.Join(policies.Bundled(), ", ")))
			}
			_, err := io.WriteString(c.OutOrStdout(), text)
			return failure(err)
		},
	}
}
