package toolkit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// ComplexityResult is the result of analyze_complexity.
type ComplexityResult struct {
	Base
	ComplexityPart
}

// ComplexityPart is the complexity of some files.
type ComplexityPart struct {
	Summary        ComplexitySummary `json:"summary" jsonschema:"numbers over all functions"`
	Thresholds     thresholds        `json:"thresholds" jsonschema:"numbers above which a function is a violation"`
	Violations     []Violation       `json:"violations" jsonschema:"functions above a threshold, the furthest above first"`
	ViolationsMore int               `json:"violations_more,omitempty" jsonschema:"number of further violations"`
	TopFiles       TopFiles          `json:"top_files" jsonschema:"files with the highest total_score"`
}

// ComplexitySummary contains numbers over all functions.
type ComplexitySummary struct {
	Functions        int     `json:"functions" jsonschema:"functions that were measured"`
	CodeLines        int     `json:"code_lines" jsonschema:"lines with code in their files"`
	MaxCyclomatic    int     `json:"max_cyclomatic" jsonschema:"highest number of a function"`
	MaxCognitive     int     `json:"max_cognitive" jsonschema:"highest number of a function"`
	MedianCyclomatic int     `json:"median_cyclomatic" jsonschema:"median; the upper of the two middle numbers"`
	AvgCyclomatic    float64 `json:"avg_cyclomatic" jsonschema:"mean over the functions"`
	AvgCognitive     float64 `json:"avg_cognitive" jsonschema:"mean over the functions"`
	Violations       int     `json:"violations" jsonschema:"number of all violations, listed or not"`
}

// Violation is a function with a number above its threshold.
type Violation struct {
	File     string `json:"file" jsonschema:"path from project_path"`
	Line     int    `json:"line" jsonschema:"first line of the function"`
	EndLine  int    `json:"end_line" jsonschema:"its last line"`
	Function string `json:"function" jsonschema:"its name, with the type that it belongs to"`
	Rule     string `json:"rule" jsonschema:"cyclomatic or cognitive"`
	Value    int    `json:"value" jsonschema:"its complexity"`
	Limit    int    `json:"limit" jsonschema:"the threshold"`
}

// TopFiles are the files with the highest scores.
type TopFiles struct {
	Requested int          `json:"requested" jsonschema:"top_files of the call"`
	Returned  int          `json:"returned" jsonschema:"files that are ranked here"`
	Rankings  []RankedFile `json:"rankings" jsonschema:"the highest total_score first"`
}

// RankedFile contains the numbers of a file's functions.
type RankedFile struct {
	Rank          int     `json:"rank" jsonschema:"from 1"`
	File          string  `json:"file" jsonschema:"path from project_path"`
	Functions     int     `json:"function_count" jsonschema:"functions in the file"`
	MaxCyclomatic int     `json:"max_cyclomatic" jsonschema:"highest number of a function"`
	AvgCognitive  float64 `json:"avg_cognitive" jsonschema:"mean over the functions"`
	Effort        float64 `json:"halstead_effort" jsonschema:"sum over the functions"`
	// Score is the sum of the cyclomatic and the cognitive numbers of the functions.
	Score int `json:"total_score" jsonschema:"sum of the cyclomatic and cognitive numbers of the functions"`
}

// effort returns Halstead's effort of one function (Elements of Software Science, 1977).
func effort(h code.Halstead) float64 {
	words, all := h.DistinctOperators+h.DistinctOperands, h.Operators+h.Operands
	if words == 0 || h.DistinctOperands == 0 {
		return 0
	}
	volume := float64(all) * math.Log2(float64(words))
	difficulty := float64(h.DistinctOperators) / 2 * float64(h.Operands) / float64(h.DistinctOperands)
	return volume * difficulty
}

// complexityOf returns the complexity of the files.
func complexityOf(files []*code.File, limits thresholds) (r ComplexityPart) {
	r.Thresholds, r.Violations = limits, []Violation{}
	var cyclomatic []int
	cognitive, ranked := 0, []RankedFile{}
	for _, f := range files {
		if !measured(f.Language) {
			continue
		}
		r.Summary.CodeLines += f.Lines.Code
		one := RankedFile{File: f.Path, Functions: len(f.Funcs)}
		inFile := 0
		for i := range f.Funcs {
			fn := &f.Funcs[i]
			cyclomatic = append(cyclomatic, fn.Cyclomatic)
			inFile += fn.Cognitive
			r.Summary.MaxCognitive = max(r.Summary.MaxCognitive, fn.Cognitive)
			one.MaxCyclomatic = max(one.MaxCyclomatic, fn.Cyclomatic)
			one.Score += fn.Cyclomatic + fn.Cognitive
			one.Effort += effort(fn.Halstead)
			v := Violation{File: f.Path, Line: fn.First, EndLine: fn.Last, Function: fn.Label}
			if fn.Cyclomatic > limits.Cyclomatic {
				v.Rule, v.Value, v.Limit = "cyclomatic", fn.Cyclomatic, limits.Cyclomatic
				r.Violations = append(r.Violations, v)
			}
			if fn.Cognitive > limits.Cognitive {
				v.Rule, v.Value, v.Limit = "cognitive", fn.Cognitive, limits.Cognitive
				r.Violations = append(r.Violations, v)
			}
		}
		cognitive += inFile
		if one.Functions > 0 {
			one.AvgCognitive = round(float64(inFile)/float64(one.Functions), 2)
			one.Effort = round(one.Effort, 0)
			ranked = append(ranked, one)
		}
	}
	r.Summary.Functions = len(cyclomatic)
	if n := len(cyclomatic); n > 0 {
		slices.Sort(cyclomatic)
		sum := 0
		for _, c := range cyclomatic {
			sum += c
		}
		r.Summary.MaxCyclomatic, r.Summary.MedianCyclomatic = cyclomatic[n-1], cyclomatic[n/2]
		r.Summary.AvgCyclomatic = round(float64(sum)/float64(n), 2)
		r.Summary.AvgCognitive = round(float64(cognitive)/float64(n), 2)
	}
	r.Summary.Violations = len(r.Violations)
	order.By(r.Violations, func(a, b *Violation) int {
		return cmp.Or(cmp.Compare(b.over(), a.over()), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	r.rank(ranked)
	return r
}

// over returns by which factor a violation exceeds its threshold.
func (v Violation) over() float64 { return float64(v.Value) / float64(max(v.Limit, 1)) }

// rank keeps the files with the highest scores.
func (r *ComplexityPart) rank(all []RankedFile) {
	order.By(all, func(a, b *RankedFile) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.File, b.File))
	})
	all = all[:min(len(all), r.Thresholds.top)]
	for i := range all {
		all[i].Rank = i + 1
	}
	r.TopFiles = TopFiles{Requested: r.Thresholds.top, Returned: len(all), Rankings: all}
}

func (c *Complexity) run(r *reading) (result, error) {
	limits, err := c.limits()
	if err != nil {
		return nil, err
	}
	s := selection{speaks: func(l code.Language) bool { return measured(l) && speaks(c.Toolchain, l) }, halstead: true}
	if c.Toolchain == "" {
		s.lacks = complexityField
	}
	if err := r.readOrRecall(c, s, dependencies{}); err != nil {
		return nil, err
	}
	done := r.stage("complexity")
	res := ComplexityResult{ComplexityPart: complexityOf(r.files, limits)}
	done()
	res.Violations, res.ViolationsMore = shorten(res.Violations, maxListed)
	res.Base = r.base()
	return &res, nil
}

func (r *ComplexityPart) findings() []finding {
	all := make([]finding, 0, len(r.Violations))
	for _, v := range r.Violations {
		all = append(all, v.finding())
	}
	return all
}

func (v Violation) finding() finding {
	return finding{
		rule: v.Rule, path: v.File, line: v.Line, end: v.EndLine, warning: v.over() < 2,
		message: "%s has %s complexity %d, more than %d", args: []any{v.Function, v.Rule, v.Value, v.Limit},
	}
}

func (r *ComplexityResult) tell(t *text, detailed bool) {
	s := r.Summary
	if s.Functions == 0 {
		t.line("No function to measure in %s", count(r.Files, "file"))
		r.tellGaps(t)
		return
	}
	t.line("%s in %s, %d lines of code: cyclomatic median %d, mean %g, highest %d; cognitive mean %g, highest %d",
		count(s.Functions, "function"), count(r.Files, "file"), s.CodeLines, s.MedianCyclomatic, s.AvgCyclomatic, s.MaxCyclomatic, s.AvgCognitive, s.MaxCognitive)
	t.line("%s", r.violations())
	shows := 15
	if detailed || r.Thresholds.top == 0 {
		shows = maxListed
	}
	told := r.tellViolations(t, shows, "")
	if more := s.Violations - told; more > 0 {
		t.line("and %d more", more)
	}
	if r.TopFiles.Returned == 0 {
		return
	}
	t.line("Files by the sum of both numbers:")
	var fold folded
	for _, f := range r.TopFiles.Rankings {
		t.line("%d. %s %d (%s, highest cyclomatic %d)", f.Rank, fold.path(f.File), f.Score, count(f.Functions, "function"), f.MaxCyclomatic)
	}
}

// violations returns the number of violations and the thresholds in words.
func (r *ComplexityPart) violations() string {
	return fmt.Sprintf("%s (cyclomatic over %d or cognitive over %d)", count(r.Summary.Violations, "violation"), r.Thresholds.Cyclomatic, r.Thresholds.Cognitive)
}

// tellViolations writes some functions, each on one line with the thresholds that it
// exceeds, and returns the number of violations that it has written.
func (r *ComplexityPart) tellViolations(t *text, shows int, before string) (told int) {
	type place struct {
		file, function string
		line, end      int
	}
	at := map[place]int{} // index in functions
	var functions [][]Violation
	for _, v := range r.Violations {
		p := place{v.File, v.Function, v.Line, v.EndLine}
		if i, known := at[p]; known && functions[i][0].Rule != v.Rule {
			functions[i] = append(functions[i], v)
			continue
		}
		at[p] = len(functions)
		functions = append(functions, []Violation{v})
	}
	var fold folded
	for _, of := range functions[:min(len(functions), shows)] {
		var said []string
		for _, v := range of {
			said = append(said, fmt.Sprintf("%s %d", v.Rule, v.Value))
		}
		t.line("%s%s:%d %s %s", before, fold.path(of[0].File), of[0].Line, shown(of[0].Function), strings.Join(said, ", "))
		told += len(of)
	}
	return told
}
