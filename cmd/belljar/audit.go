package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/printable"
	"belljar.dev/policies/audit"
)

// auditing is the flags that the audit commands share.
type auditing struct {
	log, state, policy string

	tenant, session, tool, verdict, since string
	asJSON                                bool
}

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "read and verify the log of what agents did",
		Long: `audit reads the log that ` + "`belljar serve`" + ` keeps of every call: what was
asked for, what was decided and what became of it. Its records are chained by
their hashes and signed, so that ` + "`belljar audit verify`" + ` finds what was changed.
` + exitHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(auditShowCommand(), auditTailCommand(), auditVerifyCommand(), auditCastCommand(), auditPlayCommand())
	return c
}

// flags are those that say which log is meant.
func (a *auditing) flags(c *cobra.Command) {
	c.Flags().StringVar(&a.log, "log", "", "`directory` of the log (default: the policy's, else audit in the state directory)")
	c.Flags().StringVar(&a.state, "state", "", "state `directory` (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&a.policy, "policy", "", "policy `file` that may say where the log is (default: as for serve)")
}

// filters are those that say which records are meant.
func (a *auditing) filters(c *cobra.Command) {
	c.Flags().StringVar(&a.tenant, "tenant", "", "only records of this tenant")
	c.Flags().StringVar(&a.session, "session", "", "only records of this session, or of its box")
	c.Flags().StringVar(&a.tool, "tool", "", "only calls of this tool")
	c.Flags().StringVar(&a.verdict, "verdict", "", "only what was answered with allow, ask or deny")
	c.Flags().StringVar(&a.since, "since", "", "only records from this `time` on: 2h, 2006-01-02 or 2006-01-02T15:04:05Z")
	c.Flags().BoolVar(&a.asJSON, "json", false, "print the records as they are, one JSON object a line")
}

// dir is the directory of the log.
func (a *auditing) dir() (string, error) {
	dir := a.log
	if dir == "" {
		_, p, err := config.FindPolicy(a.policy, "")
		if err != nil {
			return "", failure(err)
		}
		said, _ := p.Audit()
		dir = said.Path
	}
	if dir == "" {
		state, err := config.FindState(a.state)
		if err != nil {
			return "", failure(err)
		}
		dir = config.AuditDir(state)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", failure(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", failure(fmt.Errorf("open audit log: %s does not exist; `belljar serve` begins a log, and --log names another directory", dir))
	}
	return dir, nil
}

// filter is what the flags mean.
func (a *auditing) filter(now time.Time) (audit.Filter, error) {
	f := audit.Filter{Tenant: a.tenant, Session: control.ShortID(a.session), Tool: a.tool, Verdict: a.verdict}
	switch a.verdict {
	case "", "allow", "ask", "deny":
	default:
		return f, usage("audit: --verdict %q: want allow, ask or deny", a.verdict)
	}
	if a.since == "" {
		return f, nil
	}
	if d, err := time.ParseDuration(a.since); err == nil && d >= 0 {
		f.Since = now.Add(-d)
		return f, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, a.since, time.Local); err == nil {
			f.Since = t
			return f, nil
		}
	}
	return f, usage("audit: --since %q: want a time such as 2h, 2006-01-02 or 2006-01-02T15:04:05Z", a.since)
}

func auditShowCommand() *cobra.Command {
	var a auditing
	c := &cobra.Command{
		Use:   "show",
		Short: "show records",
		Long: `show prints the records of the log, one a line, or with --json as they are. It
checks nothing: ` + "`belljar audit verify`" + ` does.
` + exitHelp,
		Args: cobra.NoArgs,
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

// tailMost bounds the records that tail prints of those that are there.
const tailMost = 10_000

func auditTailCommand() *cobra.Command {
	var (
		a      auditing
		last   int
		follow bool
	)
	c := &cobra.Command{
		Use:   "tail",
		Short: "show the last records, and those that come",
		Long: `tail prints the last records, and with -f each one that is written, until it
is interrupted.
` + exitHelp,
		Args: cobra.NoArgs,
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
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those that come")
	return c
}

// tail prints the last records that the filter wants, and goes on if asked.
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

// auditLine is a record for a person. What an agent wrote is quoted where it
// could do something to a terminal.
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
	case audit.KindCast, audit.KindApproval, audit.KindLogin, audit.KindEgress, audit.KindPolicy, audit.KindSession, audit.KindServer,
		audit.KindFile, audit.KindRemoved, audit.KindTorn, audit.KindDropped, audit.KindMissing:
		// The rest of a record behind what all have.
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

// clipped is s, cut after so many characters.
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
