package toolkit

import (
	"fmt"
	"strings"

	"belljar.dev/internal/toolkit/code/names"
)

// NamesResult is the result of analyze_name_similarity.
type NamesResult struct {
	Base
	Query    string      `json:"query" jsonschema:"name that was looked for"`
	Scope    string      `json:"scope" jsonschema:"functions, types, variables or all"`
	Compared int         `json:"compared" jsonschema:"different names"`
	Names    []names.Hit `json:"names" jsonschema:"names, the most similar first"`
}

func (n *Names) run(r *reading) (result, error) {
	top, err := n.top()
	if err != nil {
		return nil, err
	}
	if err := r.read(selection{speaks: declares, lacks: "names"}); err != nil {
		return nil, err
	}
	done := r.stage("names")
	scope := names.All
	if n.Scope != "" {
		scope = names.Scope(n.Scope)
	}
	found, err := names.Rank(r.ctx, n.Query, names.Symbols(r.files), names.Options{TopK: top, Phonetic: n.Phonetic, Scope: scope})
	done()
	if err != nil {
		return nil, err
	}
	r.lacks(found.Gaps...)
	res := &NamesResult{Query: n.Query, Scope: string(scope), Compared: found.Compared, Names: found.Hits}
	if res.Names == nil {
		res.Names = []names.Hit{}
	}
	res.Base = r.base()
	return res, nil
}

func (*NamesResult) findings() []finding { return nil }

func (r *NamesResult) tell(t *text, detailed bool) {
	t.line("%s of %s (%s) in %s", count(len(r.Names), "name"), count(r.Compared, "name"), r.Scope, count(r.Files, "file"))
	places := 3
	if detailed {
		places = 20
	}
	for _, h := range r.Names {
		var at []string
		for _, s := range h.Symbols[:min(len(h.Symbols), places)] {
			at = append(at, fmt.Sprintf("%s:%d", shown(s.Path), s.Line))
		}
		line := fmt.Sprintf("%.2f %s: %s", h.Score, shown(h.Name), strings.Join(at, " "))
		if more := h.Count - len(at); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		t.line("%s", line)
	}
}
