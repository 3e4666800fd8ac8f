package main

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/mcp/upstream/config"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// trustCommand returns the command upstream trust.
func trustCommand(u *upstreams) *cobra.Command {
	d := &deciding{pinning: pinning{upstreams: u}, trust: true}
	c := &cobra.Command{
		Use: "trust FILE", Short: "trust all that the servers of a file run and list now",
		Long: `trust is approve for a whole file. The servers of a file in a workspace are held until a
person has agreed, and so is each change. trust shows what waits of each server that has an
entry in the file, and asks once. The decision is about what was shown.

Trust a file twice: first what its servers run, and then, when they have run, what they
list. An entry that is new in the file is held again.

  belljar upstream trust .mcp.json
` + exitHelp,
		RunE: func(c *cobra.Command, args []string) error { return d.trustFile(c, args[0]) },
	}
	d.flags(c, true)
	c.Flags().BoolVar(&d.yes, "yes", false, "do not ask")
	return c
}

// trustFile trusts the definitions that wait, of all servers of a file.
func (d *deciding) trustFile(c *cobra.Command, name string) error {
	file, err := filepath.Abs(name)
	if err != nil {
		return failure(err)
	}
	// pins name a workspace by its path without symbolic links
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		file = filepath.Join(dir, filepath.Base(file))
	}
	data, err := readBounded(file)
	if err != nil {
		return failure(fmt.Errorf("upstream trust: %w", err))
	}
	entries, faults := config.Read(file, data)
	if config.Failed(faults) {
		return failure(fmt.Errorf("upstream trust: %s cannot be read, so nothing of it can run; `belljar upstream test` says why", policies.Clip(file, 200)))
	}
	if err := d.find(c); err != nil {
		return err
	}
	return d.with(false, func(b *pin.Book) error {
		if !d.chosen {
			if d.place, err = d.placeOf(c, b, file); err != nil {
				return err
			}
			d.chosen = true
		}
		all, unseen, err := d.waiting(c, b, entries)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s (sha256:%x)\n", policies.Clip(file, 200), sha256.Sum256(data))
		if len(unseen) > 0 {
			fmt.Fprintf(c.OutOrStdout(), "These entries have never run, so nothing of them can be trusted yet: %s. Start a server that reads the file.\n", policies.Clip(strings.Join(unseen, ", "), 500))
		}
		for i := range d.cut {
			fmt.Fprintf(c.OutOrStdout(), "%s is left out, since it cannot be shown whole; name it with approve to trust it anyway.\n", policies.Clip(d.cut[i].Ref.String(), 1500))
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(c.OutOrStdout(), "Nothing in this file waits for a decision.")
			return err
		}
		for _, of := range all {
			for _, one := range of {
				if err := printQuestions(c.OutOrStdout(), one.Server, one.questions); err != nil {
					return err
				}
			}
		}
		if err := d.ask(c, filepath.Base(file)); err != nil {
			return err
		}
		for _, of := range all {
			if err := d.record(c, b, of[0].entry(), of); err != nil {
				return err
			}
		}
		return nil
	})
}

// entry returns the name of the server's entry, also if the server is a package that is
// fetched for that entry.
func (a about) entry() string { return entryName(a.Name) }

// placeOf returns the place under which the pins of a file's servers are kept: the
// workspace that contains the file, or empty for a file of the operator.
func (d *deciding) placeOf(c *cobra.Command, b *pin.Book, file string) (place string, err error) {
	all, err := b.All(c.Context())
	for _, s := range all {
		if s.Place != "" && strings.HasPrefix(file, s.Place+string(filepath.Separator)) && len(s.Place) > len(place) {
			place = s.Place
		}
	}
	return place, err
}

// waiting returns the definitions that wait, grouped by entry, and the names of the entries
// whose servers no belljar has started yet.
func (d *deciding) waiting(c *cobra.Command, b *pin.Book, entries []config.Entry) (all [][]about, unseen []string, err error) {
	known, err := b.All(c.Context())
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[string]bool)
	for _, s := range known {
		if s.Place == d.place && (d.tenant == "" || s.Tenant == d.tenant) {
			seen[entryName(s.Name)] = true
		}
	}
	for _, e := range entries {
		if !seen[e.Name] {
			unseen = append(unseen, e.Name)
			continue
		}
		of, err := d.chooses(c, b, e.Name, nil)
		if err != nil {
			return nil, nil, err
		}
		if len(of) > 0 {
			all = append(all, of)
		}
	}
	return all, unseen, nil
}
