package clone

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// maxHits is the maximum number of places that Match returns.
const maxHits = 100

// Hit is a place that resembles a snippet or a part of it.
type Hit struct {
	Place

	Kind       Kind    `json:"kind" jsonschema:"exact, renamed, gapped or semantic"`
	Similarity float64 `json:"similarity" jsonschema:"0 to 1, between the place and the part of the snippet"`
	Share      float64 `json:"share" jsonschema:"share of the tokens of the snippet that are in the part"`
	From       int     `json:"from" jsonschema:"first line of the part in the snippet"`
	To         int     `json:"to" jsonschema:"last line of the part in the snippet"`
}

// Matches is the result of [Match].
type Matches struct {
	Hits   []Hit      `json:"hits"`   // those with the largest product of similarity and share first
	Tokens int        `json:"tokens"` // number of tokens of the snippet
	Gaps   []code.Gap `json:"gaps,omitempty"`
}

// Match returns the places in files that resemble snippet, which may be shorter than the
// minimum lines and tokens of the options. If most of a function was found as an exact, a
// renamed or a gapped place, the function is not compared once more as a similar function.
func Match(ctx context.Context, files []*code.File, snippet *code.File, o Options) (Matches, error) {
	o, err := o.with()
	if err != nil {
		return Matches{}, err
	}
	r, gaps := newRow(ctx, append(slices.Clone(files), snippet), o.Workers)
	if n := len(r.files); n == 0 || r.files[n-1] != snippet {
		return Matches{}, fmt.Errorf("the snippet and the files: more than %d tokens", maxTokens)
	}
	last := len(r.files) - 1
	s := span{r.begin[last], r.begin[last+1]}
	n := s.end - s.begin
	res := Matches{Tokens: n, Gaps: gaps}
	if n < anchor {
		res.Gaps = append(res.Gaps, code.Gap{Field: "hits", Reason: fmt.Sprintf("the snippet has %d tokens, and snippets with fewer than %d are found everywhere", n, anchor)})
		return res, nil
	}
	if first, end := r.lines(s.begin, s.end); end-first+1 < o.MinLines {
		o.MinLines = max(1, end-first+1)
	}
	o.MinTokens = min(o.MinTokens, max(anchor, n/2))
	m := matcher{Options: o, row: r, snippet: s, width: min(25, max(anchor, n/3))}
	if err := m.scan(ctx); err != nil {
		return res, err
	}
	if o.asked(Semantic) {
		m.functions(ctx, last)
	}
	res.Hits = m.hits
	order.By(res.Hits, func(x, y *Hit) int {
		return cmp.Or(cmp.Compare(y.Similarity*y.Share, x.Similarity*x.Share), strings.Compare(x.Path, y.Path), cmp.Compare(x.First, y.First), cmp.Compare(x.Last, y.Last))
	})
	if len(res.Hits) > maxHits {
		res.Hits = res.Hits[:maxHits:maxHits]
		res.Gaps = append(res.Gaps, code.Gap{Field: "hits", Reason: "there are more hits than are listed; the best ones are listed"})
	}
	if m.cut {
		res.Gaps = append(res.Gaps, code.Gap{Field: "hits", Reason: "there are too many repetitions to search every place"})
	}
	return res, context.Cause(ctx)
}

// matcher looks for a snippet, which is the last file of a row, in the other files.
type matcher struct {
	Options
	*row

	snippet span
	width   int
	hits    []Hit
	places  []span // places of hits
	cut     bool
}

// scan searches the files for windows of the snippet.
func (m *matcher) scan(ctx context.Context) error {
	w := newWindows(m.canon, m.snippet.end-m.snippet.begin, m.width)
	roll(m.canon, m.snippet, m.width, func(h uint64, at int) int {
		w.first(h, m.canon, at, true)
		return at + 1
	})
	g := m.newAligner(m.floor(), len(m.canon))
	for file := range len(m.files) - 1 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		in := span{m.begin[file], m.begin[file+1]}
		roll(m.canon, in, m.width, func(h uint64, at int) int {
			from, ok := w.first(h, m.canon, at, false)
			if !ok {
				return at + 1
			}
			x := g.align(pair{at, from, m.width}, in, m.snippet)
			if !m.take(x) {
				return at + 1
			}
			in.begin = x.a.end
			return x.a.end
		})
	}
	m.cut = m.cut || g.steps <= 0
	return nil
}

// take adds a hit if a place is long enough and its kind was asked for, and reports whether
// it did.
func (m *matcher) take(x aligned) bool {
	kind := Gapped
	if x.gaps == 0 {
		kind = Renamed
		if m.equalTexts(pair{x.a.begin, x.b.begin, x.equal}) == x.equal {
			kind = Exact
		}
	}
	first, last := m.lines(x.a.begin, x.a.end)
	if x.equal < m.MinTokens || last-first+1 < m.MinLines || !m.asked(kind) {
		return false
	}
	m.hit(kind, x.similarity(), x.a, x.b, "")
	return true
}

// hit adds a hit: a place of the row that resembles a part of the snippet.
func (m *matcher) hit(kind Kind, similarity float64, at, part span, label string) {
	h := Hit{Kind: kind, Similarity: similarity, Place: Place{Path: m.files[m.fileOf(at.begin)].Path, Func: label}}
	h.First, h.Last = m.lines(at.begin, at.end)
	h.From, h.To = m.lines(part.begin, part.end)
	h.Share = float64(part.end-part.begin) / float64(m.snippet.end-m.snippet.begin)
	m.hits = append(m.hits, h)
	m.places = append(m.places, at)
}

// functions compares the functions of the snippet with the functions of the other files. A
// snippet without functions is compared as a whole.
func (m *matcher) functions(ctx context.Context, snippet int) {
	all, gaps := m.row.long(m.MinTokens, m.MinLines)
	m.cut = m.cut || len(gaps) > 0
	if !slices.ContainsFunc(all, func(f function) bool { return f.file == snippet }) {
		all = append(all, function{span: m.snippet, file: snippet})
	}
	m.measure(ctx, all, m.Workers)
	parts := slices.DeleteFunc(slices.Clone(all), func(f function) bool { return f.file != snippet })
	const maxParts = 64
	if len(parts) > maxParts {
		parts, m.cut = parts[:maxParts], true
	}
	found := slices.Clone(m.places)
	for _, part := range parts {
		for _, f := range all {
			if f.file == snippet || ctx.Err() != nil || slices.ContainsFunc(found, func(s span) bool { return hasMostOf(s, f.span) }) {
				continue
			}
			if j := jaccard(f.set, part.set, m.floor()); j >= m.floor() {
				m.hit(Semantic, j, f.span, part.span, f.label)
			}
		}
	}
}
