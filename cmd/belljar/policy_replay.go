package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// Bounds of a replay, whatever the size of the log.
const (
	maxChanges  = 1000 // groups of calls with the same change
	maxExamples = 100  // calls that are shown of one group
)

// replaying is what the flags of replay say.
type replaying struct {
	recorded  bool
	workspace string
	examples  int
	fail      bool
	asJSON    bool
}

func policyReplayCommand() *cobra.Command {
	var r replaying
	c := &cobra.Command{
		Use:   "replay [OLD] NEW AUDIT...",
		Short: "list the calls of an audit log that another policy decides otherwise",
		Long: `replay decides each call of the logs again, under the policy OLD and under NEW,
and lists those whose verdict or profile changes: in groups of one tool, one
change and the same two rules, those that open more first, each with some of its
calls and the part of them that decides. A log is a directory, or one of its files.

With --recorded there is no OLD: what the log says was decided is held against NEW.
What somebody approved counts as asked.

A record without the arguments of its call, such as one of the level meta, cannot be
decided again: replay says how many there are, and why. Calls are decided at the
time at which they came. A log does not have rate limits, nor the layer of a
session's plan mode.

With --json it prints an object with "calls", "replayed", "skipped" by reason,
"changed", and "changes", each with "tool", "before" and "after" ("verdict",
"rule", "file", "line", "profile"), "calls" and "examples".

Exit status: 0 whatever changes; 1 something does, with --fail, or a policy has
faults, or a log cannot be read; 2 the command line makes no sense.`,
		Example: `  belljar policy replay old.yaml new.yaml ~/.local/state/belljar/audit
  belljar policy replay --recorded --fail new.yaml audit.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case r.recorded && len(args) < 2:
				return &lacking{"a policy and at least one log, with --recorded"}
			case !r.recorded && len(args) < 3:
				return &lacking{"two policies and at least one log; with --recorded, one policy"}
			case r.examples < 0 || r.examples > maxExamples:
				return usage("--examples is %d, outside 0 to %d", r.examples, maxExamples)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return r.run(c, args) },
	}
	c.Flags().BoolVar(&r.recorded, "recorded", false, "hold NEW against what the log says was decided; there is no OLD")
	c.Flags().StringVar(&r.workspace, "workspace", "", "the `directory` that is the workspace, for what the policies say of projects (default: the current one)")
	c.Flags().IntVar(&r.examples, "examples", 3, "how many calls of each group to show, as a `number`")
	c.Flags().BoolVar(&r.fail, "fail", false, "exit with 1 if a decision changes")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print JSON for programs")
	return c
}

func (r *replaying) run(c *cobra.Command, args []string) error {
	count := 2
	if r.recorded {
		count = 1
	}
	var all []*policies.Policy
	if err := policiesFor(c, args[:count], r.workspace, func(_ string, p *policies.Policy) { all = append(all, p) }); err != nil {
		return err
	}
	run := replay{now: all[len(all)-1], examples: r.examples, groups: make(map[change]*changed), Skipped: make(map[string]int)}
	if !r.recorded {
		run.old = all[0]
	}
	for _, log := range args[count:] {
		if err := run.read(c.Context(), log); err != nil {
			return failure(err)
		}
	}
	run.sort()
	if err := run.print(c.OutOrStdout(), r.asJSON); err != nil {
		return failure(err)
	}
	if r.fail && run.Changed > 0 {
		return &statusError{code: exitFailed}
	}
	return nil
}

// side is what one of the two policies says to a call.
type side struct {
	Verdict policies.Verdict `json:"-"`
	Word    string           `json:"verdict"`
	Rule    string           `json:"rule"`
	File    string           `json:"file,omitempty"`
	Line    int              `json:"line,omitempty"`
	Profile string           `json:"profile,omitempty"` // granted
}

// String is the side for people.
func (s side) String() string {
	text := s.Word + " by " + by(s.Rule, policies.Source{File: s.File, Line: s.Line})
	if s.Profile != "" {
		text += " in profile " + s.Profile
	}
	return text
}

// change is what changes for the calls of one tool.
type change struct {
	Tool   string `json:"tool"`
	Before side   `json:"before"`
	After  side   `json:"after"`
}

// changed is a change and the calls that have it.
type changed struct {
	change

	Calls    int           `json:"calls"`
	Examples []exampleCall `json:"examples"`
}

// exampleCall is one call whose decision changes.
type exampleCall struct {
	CallID string    `json:"call_id"`
	Time   time.Time `json:"time"`
	Part   string    `json:"part"`  // that decides under the policy that is stricter
	Parts  int       `json:"parts"` // of the call
}

// replay is a replay while it runs, and its report.
type replay struct {
	old, now *policies.Policy // old is nil for what was recorded
	examples int
	groups   map[change]*changed

	Calls    int            `json:"calls"`
	Replayed int            `json:"replayed"`
	Skipped  map[string]int `json:"skipped"` // by the reason
	Changed  int            `json:"changed"`
	Others   int            `json:"others,omitempty"` // changed calls of further groups than are listed
	Changes  []*changed     `json:"changes"`
}

// read decides the calls of a log.
func (r *replay) read(ctx context.Context, log string) error {
	return audit.ReadPast(ctx, log, func(p audit.Past) error {
		r.Calls++
		if why := r.skips(p); why != "" {
			r.Skipped[why]++ // of a handful of reasons
			return nil
		}
		r.Replayed++
		after := r.now.Decide(p.Facts)
		before, part := past(p), after
		if r.old != nil {
			d := r.old.Decide(p.Facts)
			before = sideOf(d)
			if d.Verdict < after.Verdict {
				part = d
			}
		}
		if now := sideOf(after); now.Verdict != before.Verdict || now.Profile != before.Profile && now.Verdict == policies.Allow {
			r.note(change{p.Facts.Tool, before, now}, exampleCall{p.CallID, p.Time, part.Part, part.Parts})
		}
		return nil
	})
}

// beside has the rules of decisions that no policy made. A record has them where it
// would otherwise have the policy's rule.
var beside = map[string]string{
	"audit":     "the log could not be written then, which no policy decides",
	"arguments": "their arguments could not be read, which no policy decides",
}

// skips is why a record cannot be decided again, or "".
func (r *replay) skips(p audit.Past) string {
	if p.Lacks != "" {
		return p.Lacks
	}
	if r.old == nil && p.Verdict == policies.Deny && len(p.Rules) > 0 {
		return beside[p.Rules[0].ID]
	}
	return ""
}

func sideOf(d policies.Decision) side {
	return side{d.Verdict, d.Verdict.String(), d.Rule, d.Source.File, d.Source.Line, d.Grant.Profile()}
}

// past is what a record says.
func past(p audit.Past) side {
	s := side{Verdict: p.Verdict, Word: p.Verdict.String(), Rule: "default"}
	if p.Verdict == policies.Allow {
		s.Profile = p.Profile
	}
	if len(p.Rules) > 0 && p.Rules[0].Mode == "" {
		s.Rule, s.File, s.Line = p.Rules[0].ID, p.Rules[0].File, p.Rules[0].Line
	}
	return s
}

// note counts a call whose decision changes.
func (r *replay) note(c change, call exampleCall) {
	r.Changed++
	g := r.groups[c]
	if g == nil {
		if len(r.groups) >= maxChanges {
			r.Others++
			return
		}
		g = &changed{change: c, Examples: []exampleCall{}}
		r.groups[c] = g
	}
	g.Calls++
	if len(g.Examples) < r.examples {
		g.Examples = append(g.Examples, call)
	}
}

// sort puts what opens most first, and of equal changes those of most calls.
func (r *replay) sort() {
	r.Changes = []*changed{}
	for _, g := range r.groups {
		r.Changes = append(r.Changes, g)
	}
	slices.SortFunc(r.Changes, func(a, b *changed) int {
		opens := func(g *changed) int { return int(g.After.Verdict - g.Before.Verdict) }
		return cmp.Or(cmp.Compare(opens(b), opens(a)), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.key(), b.key()))
	})
}

func (g *changed) key() string { return fmt.Sprint(g.Tool, g.Before, g.After) }

// print shows the report.
func (r *replay) print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	for _, g := range r.Changes {
		fmt.Fprintf(w, "%s of %s: %s\n  was  %s\n  now  %s\n", number(g.Calls, "call", "calls"), g.Tool, g.kind(), g.Before, g.After)
		for _, e := range g.Examples {
			fmt.Fprintf(w, "       %s %s %s\n", e.Time.UTC().Format(time.DateTime), e.CallID, e.text())
		}
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "and %s of other kinds\n", number(r.Others, "call", "calls"))
	}
	fmt.Fprintf(w, "%s replayed, %d would be decided otherwise\n", number(r.Replayed, "call", "calls"), r.Changed)
	reasons := make([]string, 0, len(r.Skipped))
	for why := range r.Skipped {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Skipped[b], r.Skipped[a]), strings.Compare(a, b))
	})
	for _, why := range reasons {
		fmt.Fprintf(w, "%s could not be replayed: %s\n", number(r.Skipped[why], "call", "calls"), why)
	}
	return nil
}

// kind says in a word what the change does.
func (g *changed) kind() string {
	switch {
	case g.After.Verdict > g.Before.Verdict:
		return "OPENED"
	case g.After.Verdict < g.Before.Verdict:
		return "closed"
	}
	return "another profile"
}

// text is the part of a call that decides.
func (e exampleCall) text() string {
	switch {
	case e.Part == "":
		return "the call as a whole"
	case e.Parts > 1:
		return fmt.Sprintf("%s (of %d parts)", e.Part, e.Parts)
	}
	return e.Part
}
