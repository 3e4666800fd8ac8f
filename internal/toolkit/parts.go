package toolkit

import (
	"cmp"

	"belljar.dev/internal/toolkit/code/debt"
	"belljar.dev/internal/toolkit/code/graph"
)

// DeadPart is the functions that nothing reaches.
type DeadPart struct {
	Functions int            `json:"functions" jsonschema:"number of functions that nothing reaches"`
	Listed    []DeadFunction `json:"list" jsonschema:"the functions, or the first of them"`
	More      int            `json:"list_more,omitempty" jsonschema:"number of further functions"`
}

// DeadFunction is a function that nothing reaches.
type DeadFunction struct {
	File       string `json:"file" jsonschema:"path from project_path"`
	Line       int    `json:"line" jsonschema:"first line of the function"`
	EndLine    int    `json:"end_line" jsonschema:"its last line"`
	Function   string `json:"function" jsonschema:"its name, with the type that it belongs to"`
	Confidence string `json:"confidence" jsonschema:"high, medium or low"`
	Reason     string `json:"reason" jsonschema:"why nothing reaches it"`
}

// DebtPart is the debt that comments admit.
type DebtPart struct {
	Remarks  int           `json:"remarks" jsonschema:"number of remarks that admit debt"`
	Comments int           `json:"comments" jsonschema:"number of comments that were read"`
	Listed   []debt.Remark `json:"list" jsonschema:"the remarks, or the first of them"`
	More     int           `json:"list_more,omitempty" jsonschema:"number of further remarks"`
}

// deadPart returns the functions with at least the confidence least. Confidences are words;
// here high counts as 1, medium as 0.5 and low as 0.
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

// deadOf finds the functions that nothing reaches.
func (r *reading) deadOf() []graph.Unreached {
	done := r.stage("dead code")
	defer done()
	dead, err := r.project().Dead(r.ctx)
	if err != nil {
		r.lacks(over("dead code"))
		return nil
	}
	return dead
}

// debtOf finds the debt that comments admit.
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

// findings returns a finding for each function; nil if the call does not want this part.
func (p *DeadPart) findings() (all []finding) {
	if p == nil {
		return nil
	}
	for _, d := range p.Listed {
		all = append(all, finding{rule: "dead-code", path: d.File, line: d.Line, end: d.EndLine, warning: true, message: "nothing reaches %s (confidence %s: %s)", args: []any{d.Function, d.Confidence, d.Reason}})
	}
	return all
}

// findings returns a finding for each remark; nil if the call does not want this part.
func (p *DebtPart) findings() (all []finding) {
	if p == nil {
		return nil
	}
	for _, d := range p.Listed {
		all = append(all, finding{rule: "debt", path: d.Path, line: d.Line, end: d.Line, warning: true, message: "%s debt: %s", args: []any{string(d.Kind), admitted(d)}})
	}
	return all
}

// admitted returns the text of a remark, or its marker if no text follows the marker.
func admitted(d debt.Remark) string { return cmp.Or(d.Text, d.Marker) }
