package main

import (
	"github.com/spf13/cobra"

	"belljar.dev/policies"
)

func policySchemaCommand() *cobra.Command {
	var layer bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of policies, for editors",
		Long: `schema prints the JSON Schema (2020-12) of a policy, or with --layer that of a
file of rules that a policy names. Editors that have yaml-language-server offer
the keys, explain them and mark what is wrong while a policy is written, once its
first line names the file:

  # yaml-language-server: $schema=policy-v1.schema.json

It is generated from the definitions by which belljar reads policies. It checks one
mapping at a time: whether two places fit together, for example a rule and the
profile that it names, only "belljar policy check" finds out.

Exit status: 0; 2 the command line is not valid.`,
		Example: "  belljar policy schema > policy-v1.schema.json",
		RunE: func(c *cobra.Command, _ []string) error {
			text := policies.Schema()
			if layer {
				text = policies.LayerSchema()
			}
			_, err := c.OutOrStdout().Write(text)
			return failure(err)
		},
	}
	c.Flags().BoolVar(&layer, "layer", false, "the schema of a file of rules that a policy names")
	return c
}
