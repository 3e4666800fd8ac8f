package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp/upstream/config"
	"belljar.dev/policies"
)

// clientFiles are where clients keep their servers, below the home directory.
var clientFiles = map[string]string{
	"claude-desktop": ".config/Claude/claude_desktop_config.json",
	"claude-code":    ".claude.json",
	"codex":          ".codex/config.toml",
	"cursor":         ".cursor/mcp.json",
	"gemini":         ".gemini/settings.json",
	"vscode":         ".config/Code/User/mcp.json",
}

func importCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "import CLIENT|FILE [NAME...]", Short: "write the servers of a client into a file, without the secrets in them",
		Long: `import reads the servers of a client, from a file or from where the client keeps them, and
writes their entries into a file of servers, as add does. The clients are
` + strings.Join(slices.Sorted(maps.Keys(clientFiles)), ", ") + `. A NAME chooses an entry.

What looks like a secret in a variable or a header is put into a file of its own, in the
directory secrets beside the file of servers, and the entry refers to it. The last lines
of the output are what your policy needs for that. The client's file stays as it is: take
the servers out of it, so that the client does not start them as well.

  belljar upstream import claude-desktop
  belljar upstream import .mcp.json github --to servers.json
` + exitHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return failure(importUpstreams(c, args[0], args[1:], to))
		},
	}
	toFlag(c, &to)
	return c
}

// importUpstreams is upstream import.
func importUpstreams(c *cobra.Command, from string, names []string, to string) error {
	entries, err := readClient(from)
	if err != nil {
		return fmt.Errorf("upstream import: %w", err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e config.Entry) bool { return e.Name == name }) {
			return fmt.Errorf("upstream import: %s has no entry %q. Nothing was written", policies.Clip(from, 200), policies.Clip(name, 64))
		}
	}
	var drafts []config.Draft
	var needs []need
	var notes []string
	for _, e := range entries {
		if len(names) > 0 && !slices.Contains(names, e.Name) {
			continue
		}
		d, secrets, more := config.NewDraft(e)
		drafts = append(drafts, d)
		for _, s := range secrets {
			needs = append(needs, need{s, e.Name})
		}
		for _, n := range more {
			notes = append(notes, fmt.Sprintf("warning: %s: %s", e.Name, n))
		}
	}
	if len(drafts) == 0 {
		return fmt.Errorf("upstream import: %s has no entry of a server", policies.Clip(from, 200))
	}
	file, err := serversFile(to)
	if err != nil {
		return fmt.Errorf("upstream import: %w", err)
	}
	store := filepath.Join(filepath.Dir(file), "secrets")
	kept, err := keepSecrets(store, needs)
	if err == nil {
		_, err = addTo(c, to, drafts...)
	}
	if err != nil { // the values are still where they were
		for _, name := range kept {
			err = errors.Join(err, os.Remove(name))
		}
		return fmt.Errorf("upstream import: %w", err)
	}
	for _, n := range notes {
		fmt.Fprintln(c.OutOrStdout(), policies.Clip(n, 1000))
	}
	printUse(c.OutOrStdout(), file)
	printNeeds(c.OutOrStdout(), file, store, needs)
	return nil
}

// need is a secret that an entry refers to.
type need struct {
	config.Secret

	server string
}

// readClient returns the entries of a client, or of a file. A file with an error, also of one entry, is
// an error: it would be imported in part.
func readClient(from string) ([]config.Entry, error) {
	file := from
	if at, known := clientFiles[from]; known {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(home, at)
	}
	data, err := readBounded(file)
	if err != nil {
		if _, known := clientFiles[from]; known || strings.ContainsAny(from, "/.") {
			return nil, err
		}
		return nil, fmt.Errorf("%w; the clients are %s", err, strings.Join(slices.Sorted(maps.Keys(clientFiles)), ", "))
	}
	entries, faults := config.Read(file, data)
	for _, f := range faults {
		if f.Level == config.Error {
			return nil, errors.New(strings.TrimSuffix(f.String(), "\n"))
		}
	}
	return entries, nil
}

// keepSecrets writes each value into a file of its own, and returns these files, also with an error.
// A file that exists is not replaced: another entry may use it.
func keepSecrets(dir string, needs []need) (kept []string, err error) {
	for _, n := range needs {
		if n.Value == "" { // which the operator has to write
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return kept, err
		}
		name := filepath.Join(dir, n.Name)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return kept, fmt.Errorf("keep the secret of %s: %w", n.Of, err)
		}
		kept = append(kept, name)
		_, err = io.WriteString(f, n.Value)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// printNeeds says what the policy needs for the secrets of entries.
func printNeeds(out io.Writer, file, store string, needs []need) {
	if len(needs) == 0 {
		return
	}
	quote := func(s string) string { return string(printable.JSON([]byte(fmt.Sprintf("%q", s)))) } // which is YAML too
	fmt.Fprintf(out, "\nSecrets were taken out. Your policy needs these keys, and `door` in place of `env` keeps a value out of the box:\n\nupstreams:\n  from: %s\n  servers:\n", quote(file))
	of := make(map[string][]string)
	var order []string
	for _, n := range needs {
		if of[n.server] == nil {
			order = append(order, n.server)
		}
		of[n.server] = append(of[n.server], n.Name+": env")
	}
	for _, server := range order {
		fmt.Fprintf(out, "    %s: {secrets: {%s}}\n", quote(server), strings.Join(of[server], ", "))
	}
	fmt.Fprintln(out, "secrets:")
	for _, n := range needs {
		missing := ""
		if n.Value == "" {
			missing = " # write the value there"
		}
		fmt.Fprintf(out, "  %s: {file: %s} # %s of %s%s\n", n.Name, quote(filepath.Join(store, n.Name)), policies.Clip(n.Of, 200), policies.Clip(n.server, 100), missing)
	}
}
