package toolkit

import (
	"fmt"
	"path"
	"time"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/history"
)

// ChurnResult is the result of analyze_code_churn.
type ChurnResult struct {
	Base
	PeriodDays int           `json:"period_days" jsonschema:"length of the period in days"`
	Commits    *int          `json:"commits,omitempty" jsonschema:"commits that changed a file of the project"`
	Newest     *time.Time    `json:"newest_commit,omitempty" jsonschema:"time of the newest commit, if no commit is in the period"`
	Changed    []ChurnedFile `json:"churn" jsonschema:"files that still exist, the highest score first"`
	More       int           `json:"churn_more,omitempty" jsonschema:"number of further files"`
}

// ChurnedFile is the history of a file in the period.
type ChurnedFile struct {
	File    string    `json:"path" jsonschema:"path from project_path"`
	Commits int       `json:"commits" jsonschema:"commits that changed it"`
	Added   int       `json:"added" jsonschema:"lines that were added"`
	Deleted int       `json:"deleted" jsonschema:"lines that were deleted"`
	Authors []string  `json:"authors" jsonschema:"authors of these commits"`
	Last    time.Time `json:"last" jsonschema:"time of the last commit"`
	Score   float64   `json:"score" jsonschema:"0 to 1: 0.6 times commits plus 0.4 times lines, each divided by the highest of all files"`
}

// noGit is the reason of the gap if the box has no git.
const noGit = "git is not installed in the sandbox"

// churn returns the history of those files of the tree that may be read. If there is no
// history, its gaps say why.
func (r *reading) churn(days int) history.History {
	if r.git == nil {
		return history.History{Gaps: []code.Gap{{Field: "churn", Reason: noGit}}}
	}
	r.shared.mu.Lock()
	h, known := r.shared.pasts[days]
	r.shared.mu.Unlock()
	if known {
		return h
	}
	done := r.stage("churn")
	defer done()
	h, err := history.Measure(r.ctx, r.git, path.Join(r.workspace, r.within), r.workspace, time.Now().AddDate(0, 0, -days))
	if err != nil {
		return history.History{Gaps: []code.Gap{over("churn")}}
	}
	if h.Gaps, err = r.named(h.Gaps); err != nil {
		return history.History{Gaps: []code.Gap{{Field: "churn", Reason: "the server did not report which files may be named"}}}
	}
	kept := h.Files[:0]
	for _, f := range h.Files {
		if r.allowed[f.Path] {
			kept = append(kept, f)
		}
	}
	h.Files = kept
	r.shared.mu.Lock()
	r.shared.pasts[days] = h
	r.shared.mu.Unlock()
	return h
}

func (c *Churn) run(r *reading) (result, error) {
	period, err := days(c.PeriodDays)
	if err != nil {
		return nil, err
	}
	if _, err := r.list(selection{}); err != nil {
		return nil, err
	}
	h := r.churn(period)
	r.lacks(h.Gaps...)
	res := &ChurnResult{PeriodDays: period, Changed: []ChurnedFile{}}
	if len(h.Gaps) == 0 || h.Commits > 0 {
		res.Commits = &h.Commits
	}
	if h.Commits == 0 && !h.Newest.IsZero() {
		newest := h.Newest.UTC()
		res.Newest = &newest
	}
	for _, f := range h.Files {
		res.Changed = append(res.Changed, churned(f))
	}
	res.Changed, res.More = shorten(res.Changed, maxListed)
	res.Base = r.base()
	res.Files = len(r.allowed)
	return res, nil
}

func churned(f history.File) ChurnedFile {
	return ChurnedFile{f.Path, f.Commits, f.Added, f.Deleted, f.Authors, f.Last.UTC(), round(f.Score, 4)}
}

// quiet returns the text for a period in which no commit changed a file. It suggests a
// period that would show something.
func quiet(days int, newest time.Time) string {
	said := fmt.Sprintf("No commit changed a file in %s; the date of the newest commit is %s", count(days, "day"), newest.Format(time.DateOnly))
	if ago := int(time.Since(newest).Hours()/24) + 1; ago > days {
		said += fmt.Sprintf(", so period_days=%d would show something", ago+days)
	}
	return said
}

func (*ChurnResult) findings() []finding { return nil }

func (r *ChurnResult) tell(t *text, detailed bool) {
	if r.Commits == nil {
		t.line("No history: %s", r.NotMeasured[0].Reason)
		return
	}
	if r.Newest != nil {
		t.line("%s", quiet(r.PeriodDays, *r.Newest))
		return
	}
	t.line("%s in %s changed %s that still exist", count(*r.Commits, "commit"), count(r.PeriodDays, "day"), count(len(r.Changed)+r.More, "file"))
	shows := 20
	if detailed {
		shows = maxListed
	}
	var fold folded
	for _, f := range r.Changed[:min(len(r.Changed), shows)] {
		t.line("%s %.2f: %s, +%d -%d lines, %s, last %s", fold.path(f.File), f.Score, count(f.Commits, "commit"), f.Added, f.Deleted, count(len(f.Authors), "author"), f.Last.Format(time.DateOnly))
	}
	if more := len(r.Changed) + r.More - min(len(r.Changed), shows); more > 0 {
		t.line("and %d more", more)
	}
}
