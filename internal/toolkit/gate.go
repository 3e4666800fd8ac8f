package toolkit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/history"
)

// GateResult is the result of quality_gate.
type GateResult struct {
	Base
	// Passed is false if a check failed. A check that was not measured neither passes nor
	// fails.
	Passed     bool        `json:"passed" jsonschema:"false if a check failed; a check that was not measured neither passes nor fails"`
	Against    string      `json:"base,omitempty" jsonschema:"git ref of the call"`
	Changed    *int        `json:"changed_files,omitempty" jsonschema:"number of files that were changed since base"`
	Checks     []Check     `json:"checks" jsonschema:"complexity, duplication, coverage, defect_probability"`
	Violations []GateFault `json:"violations" jsonschema:"places that make a check fail, for each check the worst first"`
	More       int         `json:"violations_more,omitempty" jsonschema:"number of further places"`

	fails bool
}

// Check is one condition of the gate.
type Check struct {
	Name      string   `json:"name" jsonschema:"what is checked"`
	Status    string   `json:"status" jsonschema:"pass, fail or not_measured"`
	Value     *float64 `json:"value,omitempty" jsonschema:"what was measured"`
	Threshold float64  `json:"threshold" jsonschema:"limit of the value"`
	Reason    string   `json:"reason,omitempty" jsonschema:"why it was not measured"`
}

// GateFault is a place that makes a check fail.
type GateFault struct {
	Check   string `json:"check" jsonschema:"the check that fails"`
	File    string `json:"file" jsonschema:"path from project_path"`
	Line    int    `json:"line" jsonschema:"first line"`
	EndLine int    `json:"end_line" jsonschema:"last line"`
	Message string `json:"message" jsonschema:"what is wrong there"`

	said bool // another fault reports the same two places
}

// Statuses of a check.
const (
	pass        = "pass"
	fail        = "fail"
	notMeasured = "not_measured"
)

// judging is a gate while its checks are made.
type judging struct {
	*reading
	*GateResult

	changes map[string]history.Change // changes since the base; nil without a base
}

func (g *Gate) run(r *reading) (result, error) {
	if err := r.read(selection{speaks: known, lacks: complexityField}); err != nil {
		return nil, err
	}
	j := judging{reading: r, GateResult: &GateResult{Against: g.Base, Checks: []Check{}, Violations: []GateFault{}, fails: g.FailOnViolation}}
	if g.Base != "" {
		if err := j.since(g.Base); err != nil {
			return nil, err
		}
	}
	if err := g.judge(&j); err != nil {
		return nil, err
	}
	j.Passed = !slices.ContainsFunc(j.Checks, func(c Check) bool { return c.Status == fail })
	j.Violations, j.More = shorten(j.Violations, maxListed)
	j.GateResult.Base = r.base()
	return j.GateResult, nil
}

// judge makes all checks.
func (g *Gate) judge(j *judging) error {
	limits, err := g.limits()
	if err != nil {
		return err
	}
	j.complexity(limits.complexity)
	j.duplication(limits.duplication)
	if err := j.coverage(limits.coverage, g.CoverageFile); err != nil {
		return err
	}
	j.unmeasured("defect_probability", limits.defect, "no model of defects was shown to be valid for other projects, so the gate gives no probability")
	return nil
}

// since finds the changes since a commit.
func (j *judging) since(base string) error {
	if j.git == nil {
		return fmt.Errorf("base: %s", noGit)
	}
	done := j.stage("changes")
	defer done()
	all, gaps, err := history.Changed(j.ctx, j.git, path.Join(j.workspace, j.within), j.workspace, base)
	if err != nil {
		return fmt.Errorf("base: %w", err)
	}
	// A gap with a path is a submodule: the changes outside of it are known.
	if len(all) == 0 && len(gaps) > 0 && gaps[0].Path == "" {
		return fmt.Errorf("base: the changes are not known: %s", gaps[0].Reason)
	}
	if gaps, err = j.named(gaps); err != nil {
		return err
	}
	j.lacks(gaps...)
	j.changes = make(map[string]history.Change, len(all))
	n := 0
	for _, c := range all {
		if j.allowed[c.Path] {
			j.changes[c.Path] = c
			n++
		}
	}
	j.Changed = &n
	return nil
}

// touches reports whether the checks cover some lines: all lines without a base, else
// those that were changed.
func (j *judging) touches(file string, first, last int) bool {
	if j.changes == nil {
		return true
	}
	c, changed := j.changes[file]
	return changed && c.Touches(first, last)
}

// check adds a check that was measured.
func (j *judging) check(name string, value, threshold float64, passes bool) {
	status := fail
	if passes {
		status = pass
	}
	j.Checks = append(j.Checks, Check{Name: name, Status: status, Value: &value, Threshold: threshold})
}

func (j *judging) unmeasured(name string, threshold float64, reason string) {
	j.Checks = append(j.Checks, Check{Name: name, Status: notMeasured, Threshold: threshold, Reason: reason})
	j.lacks(code.Gap{Field: name, Reason: reason})
}

// complexity checks the cyclomatic number of each function.
func (j *judging) complexity(most int) {
	highest, functions := 0, 0
	type fault struct {
		GateFault
		value int
	}
	var faults []fault
	for _, f := range j.files {
		for i := range f.Funcs {
			fn := &f.Funcs[i]
			if !measured(f.Language) || !j.touches(f.Path, fn.First, fn.Last) {
				continue
			}
			functions++
			highest = max(highest, fn.Cyclomatic)
			if fn.Cyclomatic > most {
				faults = append(faults, fault{GateFault{Check: "complexity", File: f.Path, Line: fn.First, EndLine: fn.Last, Message: fmt.Sprintf("%s has cyclomatic complexity %d, more than %d", shown(fn.Label), fn.Cyclomatic, most)}, fn.Cyclomatic})
			}
		}
	}
	order.By(faults, func(a, b *fault) int { return cmp.Compare(b.value, a.value) })
	for _, f := range faults {
		j.Violations = append(j.Violations, f.GateFault)
	}
	if functions == 0 {
		j.unmeasured("complexity", float64(most), "there is no function to judge")
		return
	}
	j.check("complexity", float64(highest), float64(most), highest <= most)
}

// duplication checks the share of lines that are part of an exact clone. For a gate, code
// with other names does not count as copied, because calls, tables and tests are similar
// everywhere.
func (j *judging) duplication(most float64) {
	found := j.clonesOf(clone.Options{Kinds: []clone.Kind{clone.Exact}})
	if j.ctx.Err() != nil {
		j.unmeasured("duplication", most, "the time was up")
		return
	}
	copied, all := map[string]map[int]bool{}, 0
	var faults []GateFault
	touched := func(p clone.Place) bool { return j.touches(p.Path, p.First, p.Last) }
	for _, c := range found.Clones {
		copiedAgain := slices.ContainsFunc(c.Places[1:], touched) // then the fault of another place reports the first place
		for i, p := range c.Places {
			if !touched(p) {
				continue
			}
			other := c.Places[0]
			if i == 0 {
				other = c.Places[1]
			}
			if copied[p.Path] == nil {
				copied[p.Path] = map[int]bool{}
			}
			fresh := 0
			for line := p.First; line <= p.Last; line++ {
				if !copied[p.Path][line] {
					copied[p.Path][line] = true
					fresh++
				}
			}
			if 2*fresh > p.Last-p.First { // else a larger clone has reported the lines
				faults = append(faults, GateFault{
					Check: "duplication", File: p.Path, Line: p.First, EndLine: p.Last,
					Message: fmt.Sprintf("%s as %s:%d", likeness(c), shown(other.Path), other.First), said: i == 0 && copiedAgain,
				})
			}
		}
	}
	lines := 0
	for _, f := range j.files {
		for line := range codeLines(f) {
			if j.touches(f.Path, line, line) {
				if all++; copied[f.Path][line] {
					lines++
				}
			}
		}
	}
	if all == 0 {
		j.unmeasured("duplication", most, "no line of code was found to judge")
		return
	}
	share := round(100*float64(lines)/float64(all), 2)
	if share > most {
		j.Violations = append(j.Violations, faults...)
	}
	j.check("duplication", share, most, share <= most)
}

// codeLines returns the lines of a file on which a token other than a comment begins.
func codeLines(f *code.File) map[int]bool {
	all := make(map[int]bool, f.Lines.Code)
	for _, t := range f.Tokens {
		if t.Kind != code.Comment && t.Start < t.End {
			all[int(t.Line)] = true
		}
	}
	return all
}

// coverage checks the share of lines that tests have run.
func (j *judging) coverage(least float64, file string) error {
	if file == "" {
		j.unmeasured("coverage", least, "no coverage_file was given")
		return nil
	}
	text, err := j.beside(file)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(j.files))
	for _, f := range j.files {
		known[f.Path] = true
	}
	ran, err := readCoverage(text, known)
	if err != nil {
		return fmt.Errorf("coverage_file: %s: %w", shown(file), err)
	}
	share, lines, any := ran.share(func(file string, line int) bool { return j.touches(file, line, line) })
	if !any {
		j.unmeasured("coverage", least, "the coverage file contains no line to judge")
		return nil
	}
	if share < least {
		j.Violations = append(j.Violations, GateFault{Check: "coverage", File: file, Line: 1, EndLine: 1, Message: fmt.Sprintf("tests run %g %% of %s, less than %g %%", share, count(lines, "line"), least)})
	}
	j.check("coverage", share, least, share >= least)
	return nil
}

// beside reads a file of the project that the arguments name. It asks the server whether it
// may open the file, as for any other file.
func (j *judging) beside(file string) (string, error) {
	denied, err := j.ask([]string{path.Join(j.within, file)})
	if err != nil {
		return "", err
	}
	if len(denied) > 0 {
		return "", fmt.Errorf("coverage_file: %s is denied by the policy", shown(file))
	}
	in := code.NewReader(j.root)
	defer in.Close()
	text, gap := in.Read(path.Clean(file))
	if gap != nil {
		if _, err := j.root.Stat(path.Clean(file)); errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("coverage_file: %s does not exist", shown(file))
		}
		return "", fmt.Errorf("coverage_file: %s: %s", shown(file), gap.Reason)
	}
	return text, nil
}

func (r *GateResult) failed() bool { return r.fails && !r.Passed }

func (r *GateResult) findings() []finding {
	all := make([]finding, 0, len(r.Violations))
	for _, v := range r.Violations {
		all = append(all, finding{rule: v.Check, path: v.File, line: v.Line, end: v.EndLine, message: "%s", args: []any{v.Message}})
	}
	return all
}

func (r *GateResult) tell(t *text, detailed bool) {
	verdict := "The gate is passed"
	if !r.Passed {
		verdict = "The gate is NOT passed"
	}
	if r.Changed != nil {
		verdict += fmt.Sprintf(", judging %s changed since %s", count(*r.Changed, "file"), shown(r.Against))
	}
	t.line("%s", verdict)
	for _, c := range r.Checks {
		if c.Value == nil {
			t.line("%s: not measured: %s", c.Name, c.Reason)
			continue
		}
		t.line("%s: %s: %g (threshold %g)", c.Name, c.Status, *c.Value, c.Threshold)
	}
	shows := 20
	if detailed {
		shows = maxListed
	}
	var fold folded
	all := slices.DeleteFunc(slices.Clone(r.Violations), func(v GateFault) bool { return v.said })
	for _, v := range all[:min(len(all), shows)] {
		t.line("%s:%d %s", fold.path(v.File), v.Line, v.Message)
	}
	if more := len(all) + r.More - min(len(all), shows); more > 0 {
		t.line("and %d more", more)
	}
}
