package toolkit

import (
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/lex"
)

// DuplicatesResult is the result of analyze_duplicates.
type DuplicatesResult struct {
	Base
	DetectionType string             `json:"detection_type" jsonschema:"kind of clones that was looked for"`
	Threshold     float64            `json:"threshold" jsonschema:"threshold of the call, a share of tokens; the similarity of gapped and semantic clones is at least its cube"`
	MinLines      int                `json:"min_lines" jsonschema:"shortest clone"`
	Summary       *DuplicatesSummary `json:"summary,omitempty" jsonschema:"numbers over all clones; absent for a snippet"`
	Clones        []clone.Clone      `json:"clones" jsonschema:"code that exists at two places or more"`
	ClonesMore    int                `json:"clones_more,omitempty" jsonschema:"number of further clones"`
	ByFile        []clone.Duplicated `json:"files_with_clones,omitempty" jsonschema:"files with lines of a clone"`
	ByFileMore    int                `json:"files_with_clones_more,omitempty" jsonschema:"number of further files"`
	Hits          []clone.Hit        `json:"hits,omitempty" jsonschema:"places where the snippet exists, the best first"`
	GPU           GPU                `json:"gpu" jsonschema:"states that no GPU was used"`
	Perf          []Stage            `json:"perf,omitempty" jsonschema:"asked for by perf: how long each stage took"`

	snippet bool
}

// DuplicatesSummary contains numbers over all clones.
type DuplicatesSummary struct {
	Clones          int           `json:"clones" jsonschema:"number of all clones, listed or not"`
	DuplicatedLines int           `json:"duplicated_lines" jsonschema:"lines with code that are part of a clone"`
	CodeLines       int           `json:"code_lines" jsonschema:"lines with code in all files"`
	Percentage      float64       `json:"percentage" jsonschema:"duplicated_lines as a percentage of code_lines"`
	Kinds           []clone.Share `json:"kinds" jsonschema:"these lines by kind, the strictest first"`
	Functions       int           `json:"functions" jsonschema:"functions that were compared"`
	Tokens          int           `json:"tokens" jsonschema:"tokens that were compared"`
}

// GPU states that no GPU was used.
type GPU struct {
	Used   bool   `json:"used" jsonschema:"always false"`
	Reason string `json:"reason" jsonschema:"why"`
}

// clonesOf finds the clones of files, except of files such as go.mod that only configure
// imports.
func (r *reading) clonesOf(o clone.Options) clone.Result {
	done := r.stage("clones")
	defer done()
	files := slices.DeleteFunc(slices.Clone(r.files), func(f *code.File) bool { return !known(f.Language) })
	found, err := clone.Find(r.ctx, files, o)
	if err != nil && len(found.Gaps) == 0 {
		found.Gaps = append(found.Gaps, code.Gap{Field: "clones", Reason: err.Error()})
	}
	r.lacks(found.Gaps...)
	return found
}

func (d *Duplicates) run(r *reading) (result, error) {
	o, err := d.options()
	if err != nil {
		return nil, err
	}
	if err := r.readOrRecall(d, selection{speaks: known, lacks: "semantic clones"}, dependencies{timed: d.Perf}); err != nil {
		return nil, err
	}
	res := &DuplicatesResult{
		DetectionType: d.DetectionType, Threshold: o.Threshold, MinLines: o.MinLines, Clones: []clone.Clone{},
		GPU: GPU{Reason: "no analysis of belljar runs on a GPU"}, snippet: d.Snippet != "",
	}
	if res.DetectionType == "" {
		res.DetectionType = "all"
	}
	if res.snippet {
		if err := d.match(r, res, o); err != nil {
			return nil, err
		}
	} else {
		found := r.clonesOf(o)
		part := r.duplicatesPart(found, maxListed)
		res.Summary, res.Clones, res.ClonesMore = &part.Summary, part.Clones, part.ClonesMore
		res.ByFile, res.ByFileMore = shorten(found.Files, maxListed)
	}
	res.Base = r.base()
	if d.Perf {
		res.Perf = r.stages
	}
	return res, nil
}

// duplicatesPart returns the clones that were found. It leaves out clones that add nothing
// new, and puts the clones of tests last.
func (r *reading) duplicatesPart(found clone.Result, most int) *DuplicatesPart {
	tests := make(map[string][]code.Range, len(r.files)) // line ranges of the tests of each file
	for _, f := range r.files {
		tests[f.Path] = f.Tests()
	}
	all := clone.Distinct(found.Clones, func(p clone.Place) bool {
		middle := (p.First + p.Last) / 2
		return slices.ContainsFunc(tests[p.Path], func(l code.Range) bool { return l.First <= middle && middle <= l.Last })
	})
	p := &DuplicatesPart{Summary: DuplicatesSummary{len(all), found.Lines, found.Code, round(found.Percentage, 2), found.Shares, found.Functions, found.Tokens}}
	p.Clones, p.ClonesMore = shorten(all, most)
	return p
}

// match searches for the snippet. The snippet is read in the language of most of the code.
func (d *Duplicates) match(r *reading, res *DuplicatesResult, o clone.Options) error {
	done := r.stage("snippet")
	defer done()
	found, err := clone.Match(r.ctx, r.files, lex.Parse("snippet", commonest(r.files), d.Snippet), o)
	if err != nil {
		return fmt.Errorf("snippet: %w", err)
	}
	res.Hits = found.Hits
	r.lacks(found.Gaps...)
	return nil
}

// commonest returns the language with the most lines of code.
func commonest(files []*code.File) (most code.Language) {
	lines := map[code.Language]int{}
	for _, f := range files {
		lines[f.Language] += f.Lines.Code
		if n := lines[f.Language]; n > lines[most] || n == lines[most] && f.Language < most {
			most = f.Language
		}
	}
	return most
}

func (r *DuplicatesResult) findings() (all []finding) {
	for _, c := range r.Clones {
		first := c.Places[0]
		for _, p := range c.Places[1:] {
			all = append(all, finding{
				rule: "clone-" + string(c.Kind), path: p.Path, line: p.First, end: p.Last, warning: true,
				message: "%s as %s:%d", args: []any{likeness(c), first.Path, first.First},
			})
		}
	}
	return all
}

// likeness returns in words how similar the places of a clone are.
func likeness(c clone.Clone) string {
	switch c.Kind {
	case clone.Exact:
		return "the same code"
	case clone.Renamed:
		return "the same code with other names"
	case clone.Gapped, clone.Semantic:
	}
	return fmt.Sprintf("%.0f %% the same code (%s)", 100*c.Similarity, c.Kind)
}

// maxOfFile is the number of clones of one kind that begin in the same file and are listed
// in a short text.
const maxOfFile = 2

func (r *DuplicatesResult) tell(t *text, detailed bool) {
	shows := 20
	if detailed {
		shows = maxListed
	}
	var fold folded
	if r.snippet {
		if len(r.Hits) == 0 {
			t.line("No similar code in %s", count(r.Files, "file"))
		}
		for _, h := range r.Hits[:min(len(r.Hits), shows)] {
			t.line("%s:%d-%d %s %s, %.0f %% of the snippet (likeness %.2f)", fold.path(h.Path), h.First, h.Last, shown(h.Func), h.Kind, 100*h.Share, h.Similarity)
		}
		return
	}
	s := r.Summary
	t.line("%s in %s: %s", count(s.Clones, "clone"), count(r.Files, "file"), s.shares())
	each := max(1, shows/4)
	for _, kind := range []clone.Kind{clone.Exact, clone.Renamed, clone.Gapped, clone.Semantic} {
		of := slices.DeleteFunc(slices.Clone(r.Clones), func(c clone.Clone) bool { return c.Kind != kind })
		told, from := 0, map[string]int{}
		for _, c := range of {
			if from[c.Places[0].Path]++; told < each && (detailed || from[c.Places[0].Path] <= maxOfFile) {
				t.line("%s", cloneLine(c))
				told++
			}
		}
		if more := len(of) - told; more > 0 {
			t.line("and %d more %s", more, kind)
		}
	}
}

// shares returns in words how many lines of code are part of clones of each kind.
func (s *DuplicatesSummary) shares() string {
	said := fmt.Sprintf("%d of %d lines of code (%g %%)", s.DuplicatedLines, s.CodeLines, s.Percentage)
	if len(s.Kinds) < 2 || s.DuplicatedLines == 0 {
		return said
	}
	var parts []string
	for _, k := range s.Kinds {
		parts = append(parts, fmt.Sprintf("%s %g", k.Kind, round(100*float64(k.Lines)/float64(s.CodeLines), 2)))
	}
	return said + ": " + strings.Join(parts, ", ")
}

// cloneLine returns a clone as one line.
func cloneLine(c clone.Clone) string {
	var fold folded
	line := fmt.Sprintf("%s, %d tokens:", c.Kind, c.Tokens)
	if c.Kind == clone.Gapped || c.Kind == clone.Semantic {
		line = fmt.Sprintf("%s %.2f, %d tokens:", c.Kind, c.Similarity, c.Tokens)
	}
	for i, p := range c.Places {
		if i == 6 {
			return line + fmt.Sprintf(" and %d more", len(c.Places)+c.PlacesMore-i)
		}
		line += fmt.Sprintf(" %s:%d-%d", fold.path(p.Path), p.First, p.Last)
	}
	return line
}
