package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies/audit"
)

// auditing contains the flags that the audit commands share.
type auditing struct {
	log, state, policy string

	tenant, session, tool, verdict, since string
	asJSON                                bool
}

// flags adds the flags that choose the log.
func (a *auditing) flags(c *cobra.Command) {
	c.Flags().StringVar(&a.log, "log", "", "`directory` of the log (default: the policy's, else audit in the state directory)")
	c.Flags().StringVar(&a.state, "state", "", "state `directory` (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&a.policy, "policy", "", "policy `file` that may say where the log is (default: as for serve)")
}

// filters adds the flags that choose the records.
func (a *auditing) filters(c *cobra.Command) {
	c.Flags().StringVar(&a.tenant, "tenant", "", "only records of this tenant")
	c.Flags().StringVar(&a.session, "session", "", "only records of this session, or of its box")
	c.Flags().StringVar(&a.tool, "tool", "", "only calls of this tool")
	c.Flags().StringVar(&a.verdict, "verdict", "", "only records with the verdict allow, ask or deny")
	c.Flags().StringVar(&a.since, "since", "", "only records from this `time` on: 2h, 2006-01-02 or 2006-01-02T15:04:05Z")
	c.Flags().BoolVar(&a.asJSON, "json", false, "print the records as they are, one JSON object a line")
}

// dir returns the directory of the log.
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

// filter returns the filter that the flags describe.
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
