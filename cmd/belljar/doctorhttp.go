package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/webcheck"
)

// webDoctoring contains the flags of `doctor --http`.
type webDoctoring struct {
	webcheck.Config
	tokenFile, caFile string
}

func (d *webDoctoring) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.URL, httpFlag, "", "look at the server at this `URL` from outside, such as https://belljar.example/mcp")
	for _, f := range []struct {
		to          *string
		name, usage string
	}{
		{&d.tokenFile, "token-file", "with --http, `file` with the token of a client"},
		{&d.caFile, "ca", "with --http, PEM `file` with the authorities of the server's certificate (default: those of this machine)"},
		{&d.AccessLog, "access-log", "with --http, the server's access log, a `file` on this machine"},
	} {
		c.Flags().StringVar(f.to, f.name, "", f.usage)
		c.Flags().Lookup(f.name).Annotations = map[string][]string{httpFlag: {"true"}}
	}
	d.Idle = 20 * time.Second
	c.Flags().Var((*spanFlag)(&d.Idle), "idle", "with --http, how `long` a silent stream must stay open")
	c.Flags().Lookup("idle").Annotations = map[string][]string{httpFlag: {"true"}}
}

// Bounds of the files that flags name, in bytes.
const (
	maxTokenFile = 16 << 10
	maxCAFile    = 1 << 20
)

// run checks a server and prints the findings.
func (d *webDoctoring) run(c *cobra.Command, asJSON bool) error {
	if d.tokenFile != "" {
		text, err := readSmall(d.tokenFile, maxTokenFile)
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			err = fmt.Errorf("%s is empty", d.tokenFile)
		}
		if err != nil {
			return failure(fmt.Errorf("doctor: --token-file: %w", err))
		}
		d.Token = string(bytes.TrimSpace(text))
	}
	if d.caFile != "" {
		text, err := readSmall(d.caFile, maxCAFile)
		if err != nil {
			return failure(fmt.Errorf("doctor: --ca: %w", err))
		}
		d.Roots = x509.NewCertPool()
		if !d.Roots.AppendCertsFromPEM(text) {
			return failure(fmt.Errorf("doctor: --ca: %s has no certificate in PEM", d.caFile))
		}
	}
	found, err := webcheck.Run(c.Context(), d.Config)
	if errors.Is(err, webcheck.ErrURL) {
		return usage("doctor: --http %w", err)
	}
	if err != nil {
		return failure(err)
	}
	ok := !slices.ContainsFunc(found, func(f webcheck.Finding) bool { return f.Verdict == webcheck.Wrong })
	if err := printFindings(c.OutOrStdout(), found, ok, asJSON); err != nil {
		return err
	}
	if !ok {
		return failure(errors.New("the server is not reached as it should be: see what is WRONG and how to fix it"))
	}
	return nil
}

// printFindings prints a line for each check, with what to do under each check that is not
// ok.
func printFindings(out io.Writer, found []webcheck.Finding, ok, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			OK     bool               `json:"ok"`
			Checks []webcheck.Finding `json:"checks"`
		}{ok, found})
	}
	w := newTable(out)
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Verdict, f.Check, cell(f.Detail)) // the server chooses some of its words
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t  fix: %s\n", cell(f.Fix))
		}
	}
	return failure(w.Flush())
}
