package toolkit

import (
	"fmt"
	"strings"

	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/defect"
	"belljar.dev/internal/toolkit/code/graph"
	"belljar.dev/internal/toolkit/code/history"
)

// DefectsResult is the result of analyze_defect_probability. It contains no probability,
// and its model states why.
type DefectsResult struct {
	Base
	DefectsPart
}

// DefectsPart contains the files of a project, sorted by their risk.
type DefectsPart struct {
	Model       Model       `json:"model" jsonschema:"how files are ranked"`
	Predictions []RiskyFile `json:"predictions" jsonschema:"files, the highest score first"`
	More        int         `json:"predictions_more,omitempty" jsonschema:"number of further files"`
	// Unsure is the number of files with less confidence than the call wants.
	Unsure int `json:"below_min_confidence,omitempty" jsonschema:"number of files with less confidence than min_confidence"`
}

// Model describes how files are ranked.
type Model struct {
	Name   string `json:"name" jsonschema:"name of the model"`
	Reason string `json:"reason" jsonschema:"why it gives no probability"`
}

// RiskyFile is a file with its rank.
type RiskyFile struct {
	File       string   `json:"file" jsonschema:"path from project_path"`
	Score      float64  `json:"score" jsonschema:"0 to 1; it orders the files of this project"`
	Confidence float64  `json:"confidence" jsonschema:"share of the six vectors that were measured"`
	Vectors    []Vector `json:"vectors,omitempty" jsonschema:"asked for by explain"`
	Missing    []string `json:"not_measured,omitempty" jsonschema:"vectors that were not measured"`
}

// Vector is one property that goes along with defects.
type Vector struct {
	Name         string  `json:"name" jsonschema:"property that correlates with defects"`
	Meaning      string  `json:"meaning" jsonschema:"how it is measured"`
	Value        float64 `json:"value" jsonschema:"value of this file"`
	Above        float64 `json:"above" jsonschema:"share of the other files that have a lower value"`
	Weight       float64 `json:"weight" jsonschema:"its share in the score"`
	Contribution float64 `json:"contribution" jsonschema:"what it adds to the score"`
}

// defectOptions configure the ranking of files.
type defectOptions struct {
	confidence float64 // least confidence of a file that is listed
	explain    bool
	most       int // largest number of files
}

// evidence is what files are ranked by, in addition to their texts.
type evidence struct {
	history history.History
	found   clone.Result
	graph   *graph.Graph
}

// past returns a function that finds the history of a period, and records the history's
// gaps.
func (e *evidence) past(period int) func(*reading) {
	return func(r *reading) {
		e.history = r.churn(period)
		r.lacks(e.history.Gaps...)
	}
}

// links finds the dependencies of the files.
func (e *evidence) links(r *reading) { e.graph = r.graphOf(graph.Full) }

// copies finds the clones that count as duplication if the call selects no kinds of clones.
func (e *evidence) copies(r *reading) {
	e.found = r.clonesOf(clone.Options{Kinds: []clone.Kind{clone.Exact, clone.Renamed}, CountOnly: true})
}

// defectDays is the period of history, in days, that counts if the call does not set one.
const defectDays = 365

func (d *Defects) run(r *reading) (result, error) {
	least, err := d.least()
	if err != nil {
		return nil, err
	}
	s := linked
	s.lacks = "defects"
	if err := r.readOrRecall(d, s, dependencies{days: defectDays}); err != nil {
		return nil, err
	}
	var e evidence
	r.together(e.links, e.past(defectDays), e.copies)
	part := r.defectsOf(&e, defectOptions{confidence: least, explain: d.Explain, most: maxListed})
	return &DefectsResult{r.base(), *part}, nil
}

// defectsOf ranks the files.
func (r *reading) defectsOf(e *evidence, o defectOptions) *DefectsPart {
	in := defect.Input{Files: r.files, Graph: e.graph, Duplicated: make(map[string]int, len(e.found.Files))}
	if len(e.history.Gaps) == 0 || e.history.Commits > 0 {
		in.History = &e.history
	}
	for _, f := range e.found.Files {
		in.Duplicated[f.Path] = f.Lines
	}
	done := r.stage("defects")
	defer done()
	ranked, err := defect.Rank(r.ctx, in, o.confidence)
	if err != nil {
		r.lacks(over("defects"))
		return &DefectsPart{Predictions: []RiskyFile{}}
	}
	r.lacks(ranked.Gaps...)
	res := &DefectsPart{Model: Model{ranked.Model.Name, ranked.Model.Reason}, Predictions: []RiskyFile{}, Unsure: ranked.Left}
	for _, f := range ranked.Files {
		one := RiskyFile{File: f.Path, Score: round(f.Score, 4), Confidence: round(f.Confidence, 4), Missing: f.Missing}
		for _, v := range f.Vectors {
			if o.explain {
				one.Vectors = append(one.Vectors, Vector{v.Name, v.Meaning, round(v.Value, 4), round(v.Above, 4), v.Weight, round(v.Contribution, 6)})
			}
		}
		res.Predictions = append(res.Predictions, one)
	}
	res.Predictions, res.More = shorten(res.Predictions, o.most)
	return res
}

func (r *DefectsResult) tell(t *text, detailed bool) {
	r.DefectsPart.tell(t, detailed)
	r.tellGaps(t)
}

func (r *DefectsPart) findings() []finding {
	all := make([]finding, 0, len(r.Predictions))
	for i, f := range r.Predictions {
		all = append(all, finding{rule: "defects", path: f.File, line: 1, end: 1, warning: true, message: "rank %d of %d by properties that correlate with defects", args: []any{i + 1, len(r.Predictions) + r.More}})
	}
	return all
}

func (r *DefectsPart) tell(t *text, detailed bool) {
	shows := 10
	if detailed {
		shows = maxListed
	}
	t.line("%s ranked by properties that correlate with defects; the score is not a probability", count(len(r.Predictions)+r.More, "file"))
	var fold folded
	for i, f := range r.Predictions[:min(len(r.Predictions), shows)] {
		words := []string{fmt.Sprintf("%d. %s %.2f", i+1, fold.path(f.File), f.Score)}
		for _, v := range f.Vectors {
			words = append(words, v.Name+"="+short(v.Value))
		}
		t.line("%s", strings.Join(words, " "))
	}
	if r.Unsure > 0 {
		t.line("%s below min_confidence", count(r.Unsure, "file"))
	}
}
