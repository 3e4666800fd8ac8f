package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"belljar.dev/sandbox"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "say what this host offers to a sandbox",
		Long: `doctor tries what boxes need from this host and prints what is there, what is
degraded by what is not, and how to mend it.

Exit status: 0 boxes can run here; 1 no box can run here; 2 the command line
makes no sense.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return doctor(c.OutOrStdout(), sandbox.Probe(), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

// doctor prints what was found and is an error if a box cannot run.
func doctor(out io.Writer, host sandbox.Host, asJSON bool) error {
	var err error
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(struct {
			OK     bool            `json:"ok"`
			Kernel string          `json:"kernel"`
			Checks []sandbox.Check `json:"checks"`
		}{host.OK(), host.Kernel, host.Checks})
	} else {
		err = table(out, host)
	}
	if err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if !host.OK() {
		return failure(errors.New("no box can run on this host: see what is MISSING and how to mend it"))
	}
	return nil
}

// table prints the checks for people, with what to do under each that is not
// met.
func table(out io.Writer, host sandbox.Host) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range host.Checks {
		word := "ok"
		switch {
		case k.OK && k.Degraded != "":
			word = "weak"
		case !k.OK && k.Required:
			word = "MISSING"
		case !k.OK:
			word = "absent"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", word, k.Name, k.Detail)
		if k.Degraded != "" {
			fmt.Fprintf(w, "\t\t  so: %s\n", k.Degraded)
		}
		if k.Mend != "" && (!k.OK || k.Degraded != "") {
			fmt.Fprintf(w, "\t\t  mend: %s\n", k.Mend)
		}
	}
	if host.OK() {
		fmt.Fprintln(w, "\nBoxes can run on this host.")
	}
	return w.Flush()
}
