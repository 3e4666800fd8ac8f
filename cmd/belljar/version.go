package main

import (
	"io"

	"github.com/spf13/cobra"

	"belljar.dev/internal/buildinfo"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Long: `version prints belljar's version, the Go version it was built with, the platform
and the commit it was built from, with a note if files differed from it.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(c.OutOrStdout(), buildinfo.Read())
			}
			return printVersion(c.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

// printVersion prints the version for people, for `belljar version` and `belljar
// --version`.
func printVersion(w io.Writer) error {
	_, err := io.WriteString(w, buildinfo.Read().String())
	return failure(err)
}
