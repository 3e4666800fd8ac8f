package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/webcheck"
)

// webDoctoring is what `doctor --http` was asked.
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
	c.Flags().DurationVar(&d.Idle, "idle", 20*time.Second, "with --http, how `long` a silent stream must stay open")
	c.Flags().Lookup("idle").Annotations = map[string][]string{httpFlag: {"true"}}
}

// maxTokenFile bounds a file with a token.
const maxTokenFile = 16 << 10

// run looks at a server and prints what was found.
func (d *webDoctoring) run(c *cobra.Command, asJSON bool) error {
	if d.tokenFile != "" {
		text, err := readBounded(d.tokenFile, maxTokenFile)
		if err != nil {
			return failure(fmt.Errorf("read the token: %w", err))
		}
		d.Token = strings.TrimSpace(string(text))
	}
	if d.caFile != "" {
		text, err := readBounded(d.caFile, 1<<20)
		if err != nil {
			return failure(fmt.Errorf("read the authorities: %w", err))
		}
		d.Roots = x509.NewCertPool()
		if !d.Roots.AppendCertsFromPEM(text) {
			return failure(fmt.Errorf("%s has no certificate", d.caFile))
		}
	}
	found, err := webcheck.Run(c.Context(), d.Config)
	if err != nil {
		return failure(err)
	}
	wrong := 0
	for _, f := range found {
		if f.Verdict == webcheck.Wrong {
			wrong++
		}
	}
	if err := printFindings(c.OutOrStdout(), found, wrong, asJSON); err != nil {
		return failure(fmt.Errorf("print the report: %w", err))
	}
	if wrong > 0 {
		return failure(errors.New("the server is not reached as it should be: see what is WRONG and how to fix it"))
	}
	return nil
}

// readBounded reads a file that has at most so many bytes.
func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, most+1)
	n, err := io.ReadFull(f, text)
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s has more than %d bytes", name, most)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return text[:n], nil
	}
	return nil, err
}

// printFindings prints a line for each check, with what to do under each that is not ok.
func printFindings(out io.Writer, found []webcheck.Finding, wrong int, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(struct {
			OK     bool               `json:"ok"`
			Checks []webcheck.Finding `json:"checks"`
		}{wrong == 0, found})
	}
	w := newTable(out)
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Verdict, f.Check, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t  fix: %s\n", f.Fix)
		}
	}
	return w.Flush()
}
