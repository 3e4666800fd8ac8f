package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/printable"
	"belljar.dev/policies/audit"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "read and verify the log of what agents did",
		Long: `audit reads the log that ` + "`belljar serve`" + ` keeps of every call: what was
asked for, what was decided and what became of it. Its records are chained by
their hashes and signed, so that ` + "`belljar audit verify`" + ` finds what was changed.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(auditShowCommand(), auditTailCommand(), auditVerifyCommand(), auditCastCommand(), auditPlayCommand(), auditReelCommand())
	return c
}

func auditShowCommand() *cobra.Command {
	var a auditing
	c := &cobra.Command{
		Use:   "show",
		Short: "show records",
		Long: `show prints the records of the log, one a line, or with --json as they are. It
checks nothing: ` + "`belljar audit verify`" + ` does.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := a.filter(time.Now())
			if err != nil {
				return err
			}
			dir, err := a.dir()
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.OutOrStdout())
			err = audit.Read(c.Context(), dir, f, func(e audit.Entry) error { return a.print(out, e) })
			if err = errors.Join(err, out.Flush()); err != nil {
				return failure(fmt.Errorf("show audit log: %w", err))
			}
			return nil
		},
	}
	a.flags(c)
	a.filters(c)
	return c
}

// tailMost bounds how many existing records tail prints.
const tailMost = 10_000

func auditTailCommand() *cobra.Command {
	var (
		a      auditing
		last   int
		follow bool
	)
	c := &cobra.Command{
		Use:   "tail",
		Short: "show the last records, and new ones as they come",
		Long: `tail prints the last records, and with -f each one that is written, until it
is interrupted.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			if last < 0 || last > tailMost {
				return usage("audit tail: -n %d: want 0 to %d", last, tailMost)
			}
			f, err := a.filter(time.Now())
			if err != nil {
				return err
			}
			dir, err := a.dir()
			if err != nil {
				return err
			}
			ctx, cancel := signal.NotifyContext(c.Context(), stop...)
			defer cancel()
			return failure(a.tail(ctx, c.OutOrStdout(), dir, f, last, follow))
		},
	}
	a.flags(c)
	a.filters(c)
	c.Flags().IntVarP(&last, "lines", "n", 20, "records to begin with")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print new records as they come")
	return c
}

// tail prints the last records that the filter selects, and follows the log if follow is
// true.
func (a *auditing) tail(ctx context.Context, out io.Writer, dir string, f audit.Filter, last int, follow bool) error {
	var kept []audit.Entry
	seq := uint64(0)
	err := audit.Read(ctx, dir, audit.Filter{}, func(e audit.Entry) error {
		seq = e.Seq
		if !f.Wants(e) || last == 0 {
			return nil
		}
		if kept = append(kept, e); len(kept) >= 2*last {
			kept = append(kept[:0], kept[len(kept)-last:]...)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("show audit log: %w", err)
	}
	w := bufio.NewWriter(out)
	for _, e := range kept[max(0, len(kept)-last):] {
		if err := a.print(w, e); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil || !follow {
		return err
	}
	err = audit.Follow(ctx, dir, seq, f, func(e audit.Entry) error {
		return errors.Join(a.print(w, e), w.Flush())
	})
	if err != nil {
		return fmt.Errorf("follow audit log: %w", err)
	}
	return nil
}

// print writes a record as a line.
func (a *auditing) print(w io.Writer, e audit.Entry) error {
	line := string(printable.JSON(e.Raw))
	if !a.asJSON {
		line = auditLine(e)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// auditLine returns a record as a line for a person. Text of an agent is quoted if it could
// control a terminal.
func auditLine(e audit.Entry) string {
	words := []string{e.Time.UTC().Format(time.RFC3339), string(e.Kind)}
	switch e.Kind {
	case audit.KindDecision:
		rule := "-"
		if len(e.Rules) > 0 {
			rule = e.Rules[0].ID
		}
		words = append(words, e.CallID, e.Tenant, e.Session, e.Tool, e.Verdict, rule)
		if what := cmp.Or(e.Args.Command, e.Facts.Command); what != "" {
			words = append(words, strconv.QuoteToGraphic(clipped(what, 200)))
		}
	case audit.KindOutcome:
		words = append(words, e.CallID, e.Tenant, e.Session, e.Tool)
		if e.Exit != nil {
			words = append(words, "exit="+strconv.Itoa(*e.Exit))
		}
		if e.Failed {
			words = append(words, "failed")
		}
		words = append(words, fmt.Sprintf("%dms", e.DurMS))
	case audit.KindCheckpoint:
		words = append(words, fmt.Sprintf("signs the records up to %d", e.Seq-1))
	case audit.KindCast, audit.KindApproval, audit.KindLogin, audit.KindEgress, audit.KindPolicy, audit.KindSession, audit.KindServer, audit.KindUpstream, audit.KindWitness,
		audit.KindFile, audit.KindRemoved, audit.KindTorn, audit.KindDropped, audit.KindMissing:
		// This is the rest of a record after the fields that all records have.
		_, rest, _ := strings.Cut(string(e.Raw), `"pid":`)
		_, rest, _ = strings.Cut(rest, ",")
		words = append(words, "{"+clipped(rest, 400))
	}
	for i, w := range words {
		if w == "" {
			words[i] = "-"
		} else if strings.ContainsFunc(w, func(r rune) bool { return !strconv.IsGraphic(r) }) {
			words[i] = strconv.QuoteToGraphic(w)
		}
	}
	return strings.Join(words, "  ")
}

// clipped returns s, cut after most characters.
func clipped(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "..."
		}
		n++
	}
	return s
}
