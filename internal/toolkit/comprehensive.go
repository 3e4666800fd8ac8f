package toolkit

import (
	"fmt"

	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/debt"
	"belljar.dev/internal/toolkit/code/graph"
)

// ComprehensiveResult is the result of analyze_comprehensive. A part that was not asked
// for is absent.
type ComprehensiveResult struct {
	Base
	Complexity *ComplexityResult `json:"complexity,omitempty"`
	Duplicates *DuplicatesPart   `json:"duplicates,omitempty"`
	DeadCode   *DeadPart         `json:"dead_code,omitempty"`
	Defects    *DefectsResult    `json:"defects,omitempty"`
	Debt       *DebtPart         `json:"debt,omitempty"`

	executive bool
}

// DuplicatesPart is the clones of a project.
type DuplicatesPart struct {
	Summary    DuplicatesSummary `json:"summary"`
	Clones     []clone.Clone     `json:"clones"`
	ClonesMore int               `json:"clones_more,omitempty"`
}

// DeadPart is the functions that nothing reaches.
type DeadPart struct {
	Functions int            `json:"functions"`
	Listed    []DeadFunction `json:"list"`
	More      int            `json:"list_more,omitempty"`
}

// DeadFunction is a function that nothing reaches.
type DeadFunction struct {
	File       string `json:"file"`
	Line       int    `json:"line"`
	EndLine    int    `json:"end_line"`
	Function   string `json:"function"`
	Confidence string `json:"confidence"` // high, medium or low
	Reason     string `json:"reason"`
}

// DebtPart is what comments admit.
type DebtPart struct {
	Remarks  int           `json:"remarks"`
	Comments int           `json:"comments"` // that were read
	Listed   []debt.Remark `json:"list"`
	More     int           `json:"list_more,omitempty"`
}

// listedInAll is how many of each list a result with all analyses has.
const listedInAll = 200

// on reports whether a part is asked for, which it is unless the call says no.
func on(flag *bool) bool { return flag == nil || *flag }

func (c *Comprehensive) run(r *reading) (result, error) {
	least, err := number("confidence_threshold", c.ConfidenceThreshold, 0.5, 0, 1)
	if err != nil {
		return nil, err
	}
	lines, err := whole("min_lines", c.MinLines, 10, 1, 100_000)
	if err != nil {
		return nil, err
	}
	s := linked
	s.include, s.exclude = c.IncludePatterns, c.ExcludePatterns
	if err := r.read(s); err != nil {
		return nil, err
	}
	res := &ComprehensiveResult{executive: c.ExecutiveSummary}
	most := listedInAll
	if c.ExecutiveSummary {
		most = 0
	}
	var found *clone.Result
	if on(c.IncludeComplexity) {
		done := r.stage("complexity")
		part := complexityOf(r.files, thresholds{Cyclomatic: 10, Cognitive: 15, top: min(10, most)})
		done()
		part.Violations, part.ViolationsMore = shorten(part.Violations, most)
		res.Complexity = &part
	}
	if on(c.IncludeDuplicates) {
		f := r.clonesOf(clone.Options{MinLines: lines})
		found = &f
		res.Duplicates = &DuplicatesPart{Summary: summaryOf(f)}
		res.Duplicates.Clones, res.Duplicates.ClonesMore = shorten(f.Clones, most)
	}
	if on(c.IncludeDeadCode) {
		res.DeadCode = deadPart(r.deadOf(), least, most)
	}
	if on(c.IncludeTDG) {
		res.Debt = r.debtOf(most)
	}
	if on(c.IncludeDefects) {
		if res.Defects, err = r.defectsOf(defectOptions{period: 90, confidence: least, found: found, most: most}); err != nil {
			return nil, err
		}
	}
	res.Base = r.base()
	if c.Perf {
		res.Perf = r.stages
	}
	return res, nil
}

// deadPart keeps the functions of which it is sure enough: the confidences are a
// person's words, and high counts as 1, medium as 0.5, low as 0.
func deadPart(all []graph.Unreached, least float64, most int) *DeadPart {
	p := &DeadPart{Listed: []DeadFunction{}}
	for _, d := range all {
		sure := map[graph.Confidence]float64{graph.High: 1, graph.Medium: 0.5, graph.Low: 0}[d.Confidence]
		if sure >= least {
			p.Listed = append(p.Listed, DeadFunction{d.Path, d.First, d.Last, d.Name, string(d.Confidence), d.Reason})
		}
	}
	p.Functions = len(p.Listed)
	p.Listed, p.More = shorten(p.Listed, most)
	return p
}

// debtOf finds what comments admit.
func (r *reading) debtOf(most int) *DebtPart {
	done := r.stage("debt")
	defer done()
	p := &DebtPart{}
	found, err := debt.Find(r.ctx, r.files)
	r.lacks(found.Gaps...)
	if err != nil {
		r.lacks(over("debt"))
	}
	p.Comments, p.Remarks = found.Comments, len(found.Remarks)
	p.Listed, p.More = shorten(found.Remarks, most)
	return p
}

func (r *ComprehensiveResult) findings() (all []finding) {
	if r.Complexity != nil {
		all = append(all, r.Complexity.findings()...)
	}
	if r.Duplicates != nil {
		all = append(all, (&DuplicatesResult{Clones: r.Duplicates.Clones}).findings()...)
	}
	if r.DeadCode != nil {
		for _, d := range r.DeadCode.Listed {
			all = append(all, d.finding())
		}
	}
	if r.Debt != nil {
		for _, d := range r.Debt.Listed {
			all = append(all, debtFinding(d))
		}
	}
	if r.Defects != nil {
		all = append(all, r.Defects.findings()...)
	}
	return all
}

func (d DeadFunction) finding() finding {
	return finding{rule: "dead-code", path: d.File, line: d.Line, end: d.EndLine, warning: true, message: "nothing reaches %s (confidence %s: %s)", args: []any{d.Function, d.Confidence, d.Reason}}
}

func debtFinding(d debt.Remark) finding {
	return finding{rule: "debt", path: d.Path, line: d.Line, end: d.Line, warning: true, message: "%s debt: %s", args: []any{string(d.Kind), d.Text}}
}

func (r *ComprehensiveResult) tell(t *text, detailed bool) {
	shows := 5
	if detailed {
		shows = listedInAll
	}
	var fold folded
	if p := r.Complexity; p != nil {
		s := p.Summary
		t.line("Complexity: %s in %s; cyclomatic median %d, highest %d; %s", count(s.Functions, "function"), count(r.Files, "file"), s.MedianCyclomatic, s.MaxCyclomatic, count(s.Violations, "violation"))
		for _, v := range p.Violations[:min(len(p.Violations), shows)] {
			t.line("  %s:%d %s %s %d (limit %d)", fold.path(v.File), v.Line, shown(v.Function), v.Rule, v.Value, v.Limit)
		}
	}
	if p := r.Duplicates; p != nil {
		t.line("Duplicates: %s, %d of %d lines of code (%g %%)", count(p.Summary.Clones, "clone"), p.Summary.DuplicatedLines, p.Summary.CodeLines, p.Summary.Percentage)
		for _, c := range p.Clones[:min(len(p.Clones), shows)] {
			t.line("  %s", cloneLine(c))
		}
	}
	if p := r.DeadCode; p != nil {
		t.line("Dead code: %s that nothing reaches", count(p.Functions, "function"))
		fold = folded{}
		for _, d := range p.Listed[:min(len(p.Listed), shows)] {
			t.line("  %s:%d %s (%s: %s)", fold.path(d.File), d.Line, shown(d.Function), d.Confidence, d.Reason)
		}
	}
	if p := r.Debt; p != nil {
		t.line("Debt in comments: %s", count(p.Remarks, "remark"))
		fold = folded{}
		for _, d := range p.Listed[:min(len(p.Listed), shows)] {
			t.line("  %s:%d %s %s: %s", fold.path(d.Path), d.Line, d.Severity, d.Kind, clip(shown(d.Text), 100))
		}
	}
	if r.Defects != nil {
		r.Defects.tell(t, detailed)
	}
	for _, gap := range r.NotMeasured[:min(len(r.NotMeasured), 3)] {
		t.line("not measured: %s", gapLine(gap.Path, gap.Field, gap.Reason))
	}
}

func gapLine(path, field, reason string) string {
	if path == "" {
		return field + ": " + reason
	}
	return fmt.Sprintf("%s of %s: %s", field, shown(path), reason)
}
