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
			return doctor(c.OutOrStdout(), sandbox.Probe().Checks, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return c
}

// check is a sandbox.Check as --json prints it.
type check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail,omitempty"`
	Degraded string `json:"degraded,omitempty"`
	Mend     string `json:"mend,omitempty"`
}

// doctor prints the checks and is an error if a box cannot run.
func doctor(out io.Writer, checks []sandbox.Check, asJSON bool) error {
	runs := true
	for _, k := range checks {
		runs = runs && (k.OK || !k.Required)
	}
	var err error
	if asJSON {
		report := struct {
			OK     bool    `json:"ok"`
			Checks []check `json:"checks"`
		}{OK: runs, Checks: make([]check, 0, len(checks))}
		for _, k := range checks {
			report.Checks = append(report.Checks, check(k))
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = table(out, checks, runs)
	}
	if err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if !runs {
		return failure(errors.New("no box can run on this host: see the lines marked MISSING and how to mend them"))
	}
	return nil
}

// table prints the checks for people, with what to do under each that is not
// met.
func table(out io.Writer, checks []sandbox.Check, runs bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range checks {
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
	if runs {
		fmt.Fprintln(w, "\nBoxes can run on this host.")
	}
	return w.Flush()
}
