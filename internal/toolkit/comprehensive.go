package toolkit

import (
	"slices"

	"belljar.dev/internal/toolkit/code/clone"
)

// ComprehensiveResult is the result of analyze_comprehensive. A part that the call does not
// want is absent.
type ComprehensiveResult struct {
	Base
	Languages  []LanguagePart  `json:"languages" jsonschema:"languages, the one with the most code first"`
	Complexity *ComplexityPart `json:"complexity,omitempty" jsonschema:"like the result of analyze_complexity"`
	Duplicates *DuplicatesPart `json:"duplicates,omitempty" jsonschema:"like the result of analyze_duplicates"`
	DeadCode   *DeadPart       `json:"dead_code,omitempty" jsonschema:"functions that nothing reaches"`
	Defects    *DefectsPart    `json:"defects,omitempty" jsonschema:"like the result of analyze_defect_probability"`
	Debt       *DebtPart       `json:"debt,omitempty" jsonschema:"debt that comments admit"`
	Perf       []Stage         `json:"perf,omitempty" jsonschema:"asked for by perf: how long each stage took; some are done at the same time"`

	executive bool
}

// DuplicatesPart is the clones of a project.
type DuplicatesPart struct {
	Summary    DuplicatesSummary `json:"summary" jsonschema:"numbers over all clones"`
	Clones     []clone.Clone     `json:"clones" jsonschema:"code that exists at two places or more"`
	ClonesMore int               `json:"clones_more,omitempty" jsonschema:"number of further clones"`
}

// listedInAll is the number of entries of each list in a result of all analyses.
const listedInAll = 200

// on reports whether the call wants a part. It wants a part unless its flag is false.
func on(flag *bool) bool { return flag == nil || *flag }

func (c *Comprehensive) run(r *reading) (result, error) {
	least, lines, err := c.bounds()
	if err != nil {
		return nil, err
	}
	s := linked
	s.speaks, s.lacks, s.halstead = known, functionsField, on(c.IncludeComplexity)
	s.include, s.exclude = c.IncludePatterns, c.ExcludePatterns
	needs := dependencies{timed: c.Perf}
	if on(c.IncludeDefects) {
		needs.days = defectDays
	}
	if err := r.readOrRecall(c, s, needs); err != nil {
		return nil, err
	}
	res := &ComprehensiveResult{Languages: languagesOf(r.files), executive: c.ExecutiveSummary}
	most := listedInAll
	if c.ExecutiveSummary {
		most = 0
	}
	if on(c.IncludeComplexity) {
		done := r.stage("complexity")
		part := complexityOf(r.files, thresholds{Cyclomatic: 10, Cognitive: 15, top: min(10, most)})
		done()
		part.Violations, part.ViolationsMore = shorten(part.Violations, most)
		res.Complexity = &part
	}
	var e evidence
	var parts []func(*reading)
	if on(c.IncludeDuplicates) {
		parts = append(parts, func(r *reading) {
			e.found = r.clonesOf(clone.Options{MinLines: lines})
			res.Duplicates = r.duplicatesPart(e.found, most)
		})
	}
	if on(c.IncludeDeadCode) {
		parts = append(parts, func(r *reading) { res.DeadCode = deadPart(r.deadOf(), least, most) })
	}
	if on(c.IncludeTDG) {
		parts = append(parts, func(r *reading) { res.Debt = r.debtOf(most) })
	}
	if on(c.IncludeDefects) {
		parts = append(parts, e.links, e.past(defectDays))
		if !on(c.IncludeDuplicates) {
			parts = append(parts, e.copies)
		}
	}
	r.together(parts...)
	if on(c.IncludeDefects) {
		res.Defects = r.defectsOf(&e, defectOptions{confidence: least, explain: true, most: min(most, maxHotspots)})
	}
	res.Base = r.base()
	if c.Perf {
		res.Perf = r.stages
	}
	return res, nil
}

func (r *ComprehensiveResult) findings() (all []finding) {
	if r.Complexity != nil {
		all = append(all, r.Complexity.findings()...)
	}
	if r.Duplicates != nil {
		all = append(all, (&DuplicatesResult{Clones: r.Duplicates.Clones}).findings()...)
	}
	all = slices.Concat(all, r.DeadCode.findings(), r.Debt.findings())
	if r.Defects != nil {
		all = append(all, r.Defects.findings()...)
	}
	return all
}

// measuredFiles returns the number of files in languages whose functions are measured.
func (r *ComprehensiveResult) measuredFiles() (n int) {
	for _, l := range r.Languages {
		if l.Measured == "functions" {
			n += l.Files
		}
	}
	return n
}

func (r *ComprehensiveResult) tell(t *text, detailed bool) {
	shows := 5
	if detailed {
		shows = listedInAll
	}
	var fold folded
	t.line("%s", linesOf(r.Languages))
	if p := r.Complexity; p != nil && p.Summary.Functions == 0 {
		t.line("Complexity: no function to measure")
	} else if p != nil {
		s := p.Summary
		t.line("Complexity: %s in %s; cyclomatic median %d, highest %d; %s", count(s.Functions, "function"), count(r.measuredFiles(), "file"), s.MedianCyclomatic, s.MaxCyclomatic, p.violations())
		p.tellViolations(t, shows, "  ")
	}
	if p := r.Duplicates; p != nil {
		t.line("Duplicates: %s, %s", count(p.Summary.Clones, "clone"), p.Summary.shares())
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
			t.line("  %s:%d %s %s: %s", fold.path(d.Path), d.Line, d.Severity, d.Kind, clip(shown(admitted(d)), 100))
		}
	}
	if r.Defects != nil {
		r.Defects.tell(t, detailed)
	}
	r.tellGaps(t)
}
