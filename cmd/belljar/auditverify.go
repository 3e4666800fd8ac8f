package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies/audit"
)

// smallMost is the largest size, in bytes, of the files that are passed to verify.
const smallMost = 4 << 10

func auditVerifyCommand() *cobra.Command {
	var (
		a               auditing
		key, checkpoint string
		witnesses       []string
		asJSON, fleet   bool
	)
	c := &cobra.Command{
		Use:   "verify",
		Short: "find out whether the log is as it was written",
		Long: `verify reads the whole log and checks the hash and the number of each record,
the signature of each checkpoint, and what the log says about files that it
removed as old. It names the first record that was changed, removed or moved.

A user who can read audit.key can replace the log by another one. To notice that
too, keep a copy of audit.pub, and now and then one of audit.checkpoint, on
another machine, and give them to --key and --checkpoint.

In a fleet, two other workers keep the checkpoints of each worker in their own logs.
With --fleet, the front of --state has each worker compare its log with those, and
prints a line for each: "ok", "WRONG" (the log contradicts itself, or the checkpoints
of others) or "UNKNOWN" (this is not known, for example because a worker does not
answer). --witness does the same for one log, without a front: it names the directory
of the log of another worker, or of a copy.

Exit status: 0 the log is as it was written; 1 it is not, or cannot be read,
and the last line of standard error says where and why (with --fleet, standard
output does); 2 the command line is not valid; 3 nothing is wrong, and something
is unknown: with --fleet a line is UNKNOWN, with --witness some witnesses
contradict what others say.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			if fleet {
				if key != "" || checkpoint != "" || a.log != "" || a.policy != "" || len(witnesses) > 0 {
					return usage("audit verify: --fleet allows only --state and --json with it: each worker knows its own log")
				}
				return verifyFleet(ctx, c.OutOrStdout(), a.state, asJSON)
			}
			dir, err := a.dir()
			if err != nil {
				return err
			}
			var against audit.Against
			if against.Witnesses, err = sightings(ctx, dir, witnesses); err != nil {
				return failure(fmt.Errorf("verify audit log: --witness: %w", err))
			}
			if key != "" {
				text, err := readSmall(key, smallMost)
				if err != nil {
					return failure(fmt.Errorf("verify audit log: --key: %w", err))
				}
				against.Key = string(text)
			}
			if checkpoint != "" {
				if against.Checkpoint, err = readSmall(checkpoint, smallMost); err != nil {
					return failure(fmt.Errorf("verify audit log: --checkpoint: %w", err))
				}
			}
			report, err := audit.Verify(ctx, dir, against)
			if asJSON {
				if err := verifiedJSON(c.OutOrStdout(), dir, report, err); err != nil {
					return failure(err)
				}
			} else if err == nil {
				verified(c.OutOrStdout(), dir, report)
			}
			if err != nil {
				return failure(fmt.Errorf("verify audit log %s: %w", dir, err))
			}
			if len(report.Disputes) > 0 {
				return &statusError{code: exitUnknown}
			}
			return nil
		},
	}
	a.flags(c)
	c.Flags().StringVar(&key, "key", "", "`file` with the public key of the log, kept elsewhere (default: audit.pub of the log)")
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "`file` with an earlier checkpoint, kept elsewhere, that the log must still contain")
	c.Flags().StringArrayVar(&witnesses, "witness", nil, "`directory` of the log of another worker, that has checkpoints of this one; may be repeated")
	c.Flags().BoolVar(&fleet, "fleet", false, "have all workers of the front of --state verify their logs")
	c.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return c
}

// verified prints that a log is unchanged since it was written.
func verified(out io.Writer, dir string, r audit.Report) {
	fmt.Fprintf(out, "%s: as it was written: %s in %s\n", dir, numbered(r.Records, "record"), numbered(uint64(r.Files), "file"))
	fmt.Fprintf(out, "records     %d to %d\n", r.First, r.Last)
	if r.Removed > 0 {
		fmt.Fprintf(out, "removed     1 to %d, in files that the log states it removed as old\n", r.Removed)
	}
	fmt.Fprintf(out, "signed      up to %d, by %d checkpoints\n", r.Signed, r.Checkpoints)
	if r.Witnessed > 0 {
		fmt.Fprintf(out, "witnessed   up to %d, by %s\n", r.Witnessed, strings.Join(r.Witnesses, ", "))
	}
	fmt.Fprintf(out, "head        %s\n", r.Head)
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	for _, d := range r.Disputes {
		fmt.Fprintf(out, "unknown     %s\n", d)
	}
}

// verifiedJSON prints the result of verify for programs, with the fault if there is one.
func verifiedJSON(out io.Writer, dir string, r audit.Report, err error) error {
	type fault struct {
		File string `json:"file,omitempty"`
		Line int    `json:"line,omitempty"`
		Seq  uint64 `json:"seq,omitempty"`
		Why  string `json:"why"`
	}
	found := struct {
		Log         string   `json:"log"`
		OK          bool     `json:"ok"`
		Fault       *fault   `json:"fault,omitempty"`
		Files       int      `json:"files"`
		Records     uint64   `json:"records"`
		First       uint64   `json:"first"`
		Last        uint64   `json:"last"`
		Removed     uint64   `json:"removed"`
		Signed      uint64   `json:"signed"`
		Checkpoints int      `json:"checkpoints"`
		Witnessed   uint64   `json:"witnessed,omitempty"`
		Witnesses   []string `json:"witnesses,omitempty"`
		Head        string   `json:"head"`
		Notes       []string `json:"notes,omitempty"`
		Disputes    []string `json:"disputes,omitempty"`
	}{
		Log: dir, OK: err == nil && len(r.Disputes) == 0, Files: r.Files, Records: r.Records, First: r.First, Last: r.Last,
		Removed: r.Removed, Signed: r.Signed, Checkpoints: r.Checkpoints, Witnessed: r.Witnessed, Witnesses: r.Witnesses, Head: r.Head, Notes: r.Notes, Disputes: r.Disputes,
	}
	if err != nil {
		found.Fault = &fault{Why: err.Error()}
		if f, ok := errors.AsType[*audit.Fault](err); ok {
			found.Fault = &fault{f.File, f.Line, f.Seq, f.Why}
		}
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(found)
}

// readSmall reads a file. It is an error if the file's size exceeds most, in bytes.
func readSmall(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := config.ReadBounded(f, most)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
