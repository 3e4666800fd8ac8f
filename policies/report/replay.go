package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// maxChanges bounds the groups of calls with the same change, whatever the size of a log.
const maxChanges = 1000

// Side is what one of the two policies decides about a call.
type Side struct {
	Verdict policies.Verdict `json:"-"`
	Word    string           `json:"verdict"`
	Rule    string           `json:"rule"`
	File    string           `json:"file,omitempty"`
	Line    int              `json:"line,omitempty"`
	Profile string           `json:"profile,omitempty"` // profile that was granted
}

// Change is what changes for the calls of one tool.
type Change struct {
	Tool   string `json:"tool"`
	Before Side   `json:"before"`
	After  Side   `json:"after"`
}

// Changed is a change and the calls that have it.
type Changed struct {
	Change

	Calls    int       `json:"calls"`
	Examples []Example `json:"examples"`
}

// Example is one call whose decision changes.
type Example struct {
	CallID string    `json:"call_id"`
	Time   time.Time `json:"time"`
	Part   string    `json:"part"`  // the part that decides under the stricter policy
	Parts  int       `json:"parts"` // number of parts of the call
}

// Replay is a replay while it runs, and its report.
type Replay struct {
	old, now *policies.Policy // old is nil if the log's decisions are compared
	examples int
	groups   map[Change]*Changed

	Calls    int            `json:"calls"`
	Replayed int            `json:"replayed"`
	Skipped  map[string]int `json:"skipped"` // number of skipped calls by reason
	Changed  int            `json:"changed"`
	Others   int            `json:"others,omitempty"` // changed calls of groups that are not listed
	Changes  []*Changed     `json:"changes"`
}

// NewReplay returns a replay under the policy now, with at most so many examples of each
// change. If old is nil, now is compared with the decisions in the log.
func NewReplay(old, now *policies.Policy, examples int) *Replay {
	return &Replay{old: old, now: now, examples: examples, groups: make(map[Change]*Changed), Skipped: make(map[string]int)}
}

// Read adds the calls of a log.
func (r *Replay) Read(ctx context.Context, log string) error {
	return audit.ReadPast(ctx, log, func(p audit.Past) error {
		r.Add(p)
		return nil
	})
}

// Add decides a call and counts it.
func (r *Replay) Add(p audit.Past) {
	r.Calls++
	if why := r.skips(p); why != "" {
		r.Skipped[why]++ // there are only a few reasons
		return
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
		r.note(Change{p.Facts.Tool, before, now}, Example{p.CallID, p.Time, part.Part, part.Parts})
	}
}

// beside returns why a decision was made that no policy made. The record of such a decision
// has this reason in the place of the policy's rule.
func beside(rule string) string {
	switch rule {
	case "audit":
		return "the log could not be written then, which no policy decides"
	case "arguments":
		return "their arguments could not be read, which no policy decides"
	}
	return ""
}

// skips returns why a record cannot be decided again, or "".
func (r *Replay) skips(p audit.Past) string {
	if p.Lacks != "" {
		return p.Lacks
	}
	if r.old == nil && p.Verdict == policies.Deny && len(p.Rules) > 0 {
		return beside(p.Rules[0].ID)
	}
	return ""
}

func sideOf(d policies.Decision) Side {
	return Side{d.Verdict, d.Verdict.String(), d.Rule, d.Source.File, d.Source.Line, d.Grant.Profile()}
}

// past returns the decision in a record.
func past(p audit.Past) Side {
	s := Side{Verdict: p.Verdict, Word: p.Verdict.String(), Rule: "default"}
	if p.Verdict == policies.Allow {
		s.Profile = p.Profile
	}
	if len(p.Rules) > 0 && p.Rules[0].Mode == "" {
		s.Rule, s.File, s.Line = p.Rules[0].ID, p.Rules[0].File, p.Rules[0].Line
	}
	return s
}

// note counts a call whose decision changes.
func (r *Replay) note(c Change, call Example) {
	r.Changed++
	g := r.groups[c]
	if g == nil {
		if len(r.groups) >= maxChanges {
			r.Others++
			return
		}
		g = &Changed{Change: c, Examples: []Example{}}
		r.groups[c] = g
	}
	g.Calls++
	if len(g.Examples) < r.examples {
		g.Examples = append(g.Examples, call)
	}
}

// Sort sorts the changes: first those that open most, and of equal ones first those of most
// calls.
func (r *Replay) Sort() {
	r.Changes = []*Changed{}
	for _, g := range r.groups {
		r.Changes = append(r.Changes, g)
	}
	slices.SortFunc(r.Changes, func(a, b *Changed) int {
		opens := func(g *Changed) int { return int(g.After.Verdict - g.Before.Verdict) }
		return cmp.Or(cmp.Compare(opens(b), opens(a)), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.key(), b.key()))
	})
}

func (g *Changed) key() string { return fmt.Sprint(g.Tool, g.Before, g.After) }
