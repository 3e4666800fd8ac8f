package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// linting contains the flags of lint.
type linting struct {
	logs   []string
	asJSON bool
	strict bool
}

func policyLintCommand() *cobra.Command {
	var l linting
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "find rules that decide nothing, or allow more than they seem to",
		Long: `lint looks for rules that can decide nothing, for allows that open more than
they show, and for denies that only the sandbox can enforce, in the policy and in the
files that it names. Each finding has an id, its place, why it matters and what to
do. docs/policy.md lists the ids.

  error    the text does not do what it says
  warning  it opens more than its reader sees
  note     it could be better

With --audit it also names the rules that spoke about no call of a log, and those
whose questions people keep answering with a yes for more than the call. A log is
a directory, or one of its files.

With --json it prints an object with "findings", each with "check", "severity",
"rule" or "profile", "file", "line", "col", "message", "why", "instead" and "text".

Exit status: 0 no errors and no warnings; 1 there are some, or with --strict
notes, or a policy has faults, or a log cannot be read; 2 the command line is
not valid.`,
		Example: "  belljar policy lint policy.yaml --audit ~/.local/state/belljar/audit",
		Args:    atLeastOne("the policies to look at"),
		RunE:    func(c *cobra.Command, names []string) error { return l.run(c, names) },
	}
	c.Flags().StringArrayVar(&l.logs, "audit", nil, "an audit `log` that says how the rules are used; may be repeated")
	c.Flags().BoolVar(&l.asJSON, "json", false, "print JSON for programs")
	c.Flags().BoolVar(&l.strict, "strict", false, "let notes count in the exit status too")
	return c
}

func (l *linting) run(c *cobra.Command, names []string) error {
	found := []policies.Finding{}
	faulty := 0
	for _, name := range names {
		of, err := l.lint(c.Context(), name)
		var faults *policies.ParseError
		switch {
		case errors.As(err, &faults):
			faulty++
			fmt.Fprintln(c.ErrOrStderr(), err)
		case err != nil:
			return failure(err)
		}
		found = append(found, of...)
	}
	if err := l.print(c.OutOrStdout(), found, len(names)-faulty); err != nil {
		return failure(err)
	}
	counted := slices.ContainsFunc(found, func(f policies.Finding) bool { return l.strict || f.Severity != policies.LintNote })
	switch {
	case faulty > 0:
		return failure(fmt.Errorf("lint policies: %d of %d cannot be used; the lines above say why", faulty, len(names)))
	case counted:
		return &statusError{code: exitFailed}
	}
	return nil
}

// lint checks one policy in the form in which each of its projects has it.
func (l *linting) lint(ctx context.Context, name string) ([]policies.Finding, error) {
	p, err := config.CheckPolicy(name, "")
	if err != nil {
		return nil, err
	}
	files := config.Files("")
	text := []byte(policies.BundledText(name))
	if !config.IsBundled(name) {
		if text, err = files.Read(name); err != nil {
			return nil, err
		}
	}
	use, err := readUse(ctx, p, l.logs)
	if err != nil {
		return nil, err
	}
	var all []policies.Finding
	for _, workspace := range append([]string{""}, p.Projects()...) {
		if files.Workspace = workspace; workspace != "" {
			files.Workspace = config.RealPath(workspace)
		}
		found, err := policies.Lint(name, text, files, use)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// print shows the findings.
func (l *linting) print(w io.Writer, found []policies.Finding, looked int) error {
	if l.asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(struct {
			Findings []policies.Finding `json:"findings"`
		}{found})
	}
	count := make(map[policies.Severity]int)
	for _, f := range found {
		count[f.Severity]++
		fmt.Fprintln(w, f)
	}
	_, err := fmt.Fprintf(w, "looked at %s: %s, %s, %s\n", number(looked, "policy", "policies"),
		number(count[policies.LintError], "error", "errors"), number(count[policies.LintWarning], "warning", "warnings"), number(count[policies.LintNote], "note", "notes"))
	return err
}

// openQuestions bounds the questions of a log for which readUse still expects answers.
const openQuestions = 10_000

// readUse reads from logs how the rules of a policy are used; it returns nil without a log.
func readUse(ctx context.Context, p *policies.Policy, logs []string) (*policies.Use, error) {
	if len(logs) == 0 {
		return nil, nil //nolint:nilnil // without a log there is nothing to report
	}
	u := &useReader{p: p, asked: make(map[string]string), use: &policies.Use{Spoke: make(map[string]int), Asked: make(map[string]int), Kept: make(map[string]int)}}
	for _, log := range logs {
		if err := audit.ReadLog(ctx, log, audit.Filter{}, u.see); err != nil {
			return nil, err
		}
	}
	return u.use, nil
}

// useReader counts what the records of logs say about rules.
type useReader struct {
	p     *policies.Policy
	use   *policies.Use
	asked map[string]string // rule that asked a question, by the id of the call
	order []string          // keys of asked, oldest first
}

func (u *useReader) see(e audit.Entry) error {
	if e.Kind == audit.KindDecision {
		return u.decided(e)
	}
	rule, known := u.asked[e.CallID]
	switch {
	case e.Kind != audit.KindApproval || !known:
	case e.Event == "given" && e.Scope != "" && e.Scope != "once":
		u.use.Kept[rule]++
		u.use.Asked[rule]++
	case e.Event == "given", e.Event == "refused", e.Event == "expired":
		u.use.Asked[rule]++
	}
	return nil
}

func (u *useReader) decided(e audit.Entry) error {
	past, err := e.Past()
	if err != nil {
		return err
	}
	u.use.Calls++
	if past.Lacks == "" {
		for _, id := range u.p.Speaks(past.Facts) {
			u.use.Spoke[id]++
		}
	}
	for _, r := range past.Rules {
		u.use.Spoke[r.ID]++
	}
	if past.Verdict == policies.Ask && len(past.Rules) > 0 {
		if _, twice := u.asked[e.CallID]; !twice {
			u.order = append(u.order, e.CallID)
		}
		u.asked[e.CallID] = past.Rules[0].ID
		if len(u.order) > openQuestions {
			delete(u.asked, u.order[0])
			u.order = u.order[1:]
		}
	}
	return nil
}
