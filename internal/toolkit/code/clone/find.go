package clone

import (
	"context"
	"slices"
	"sync"

	"belljar.dev/internal/toolkit/code"
)

// maxClones is the maximum number of clones that a result lists.
const maxClones = 10_000

// Result is the clones of a set of files.
type Result struct {
	Clones     []Clone      `json:"clones"`     // the largest first
	Files      []Duplicated `json:"files"`      // files with lines in a clone, those with the most such lines first
	Lines      int          `json:"lines"`      // number of lines with code that are in a clone; each line counts once
	Code       int          `json:"code"`       // number of lines with code in all files
	Percentage float64      `json:"percentage"` // Lines as a percentage of Code
	Shares     []Share      `json:"shares"`     // parts of Lines, one for each kind that was looked for
	Tokens     int          `json:"tokens"`     // number of tokens that were compared
	Functions  int          `json:"functions"`  // number of functions that were compared with each other
	Gaps       []code.Gap   `json:"gaps,omitempty"`
}

// Find returns the clones in files. If ctx ends first, it returns the cause, and a result
// without clones that has a gap for each requested kind.
func Find(ctx context.Context, files []*code.File, o Options) (Result, error) {
	o, err := o.with()
	if err != nil {
		return Result{}, err
	}
	r, gaps := newRow(ctx, files, o.Workers)
	w := newWork(o, r)
	if err = w.run(ctx); err != nil {
		w.found = newWork(o, r).found
		for _, k := range o.Kinds {
			gaps = append(gaps, code.Gap{Field: string(k) + " clones", Reason: "the time was up before they were found"})
		}
	}
	res := Result{Tokens: len(r.canon), Functions: len(w.functions)}
	asked := w.askedBuilders()
	var counted sync.WaitGroup
	counted.Go(func() {
		var shares []int
		res.Files, res.Lines, res.Code, shares = r.duplicated(asked)
		for i, b := range asked {
			res.Shares = append(res.Shares, Share{b.kind, shares[i]})
		}
	})
	var cut []code.Gap
	if !o.CountOnly {
		res.Clones, cut = cutList(clonesOf(asked))
	}
	res.Gaps = slices.Concat(gaps, w.gaps, cut)
	counted.Wait()
	if res.Code > 0 {
		res.Percentage = 100 * float64(res.Lines) / float64(res.Code)
	}
	return res, err
}

// clonesOf returns the clones of all kinds, the largest first.
func clonesOf(kinds []*builder) []Clone {
	all := make([][]Clone, len(kinds))
	var wg sync.WaitGroup
	for i, b := range kinds {
		wg.Go(func() { all[i] = b.clones() })
	}
	wg.Wait()
	return bySize(slices.Concat(all...))
}

// work contains the results that the searches for the kinds share.
type work struct {
	Options
	*row

	found     map[Kind]*builder // one builder for each kind
	gapped    []aligned
	functions []function
	alike     []alike
	gaps      []code.Gap
}

// newWork returns a work without results.
func newWork(o Options, r *row) *work {
	w := &work{Options: o, row: r, found: make(map[Kind]*builder, len(kinds))}
	for _, k := range kinds {
		w.found[k] = newBuilder(r, k, o.MinLines)
	}
	return w
}

// askedBuilders returns the builders of the kinds that were asked for, the strictest first.
func (w *work) askedBuilders() (all []*builder) {
	for _, k := range kinds {
		if w.asked(k) {
			all = append(all, w.found[k])
		}
	}
	return all
}

// run finds the clones of each kind, with up to Workers searches at the same time. A search
// may use up to Workers goroutines itself.
func (w *work) run(ctx context.Context) error {
	const jobs = 4
	var errs [jobs]error
	var gapsOfFuncs, gapsOfJoin []code.Gap
	places := make(chan struct{}, w.Workers)
	var wg sync.WaitGroup
	start := func(job int, f func() error) {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[job] = f()
		})
	}
	if w.asked(Exact) {
		start(0, func() error { return w.exact(ctx, w.found[Exact]) })
	}
	if w.asked(Renamed) {
		start(1, func() error { return w.renamed(ctx, w.found[Renamed]) })
	}
	if w.asked(Gapped) {
		start(2, func() error {
			seeds, err := w.repeats(ctx, w.canon, max(anchor, w.MinTokens/2))
			if err != nil {
				return err
			}
			var cut bool
			w.gapped, cut, err = w.joinRepeats(ctx, seeds, w.floor(), w.Workers)
			if cut {
				gapsOfJoin = append(gapsOfJoin, code.Gap{Field: "gapped clones", Reason: "there are too many repetitions to search every gap"})
			}
			return err
		})
	}
	if w.asked(Semantic) || w.asked(Gapped) {
		start(3, func() (err error) {
			w.functions, gapsOfFuncs = w.row.functions(ctx, w.MinTokens, w.MinLines, w.Workers)
			var cut bool
			w.alike, cut, err = similarFunctions(ctx, w.functions, w.floor(), w.Workers)
			if cut {
				gapsOfFuncs = append(gapsOfFuncs, code.Gap{Field: "semantic clones", Reason: "too many functions are similar to compare every pair"})
			}
			return err
		})
	}
	wg.Wait()
	w.gaps = slices.Concat(gapsOfJoin, gapsOfFuncs)
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	w.addSimilar()
	return context.Cause(ctx)
}

// exact adds the runs of tokens with the same texts to b.
func (w *work) exact(ctx context.Context, b *builder) error {
	all, err := w.repeats(ctx, w.plain, w.MinTokens)
	for _, p := range all {
		if p.n = w.equalTexts(p); p.n >= w.MinTokens {
			b.keep(span{p.a, p.a + p.n}, span{p.b, p.b + p.n}, 1)
		}
	}
	return err
}

// renamed adds the runs of tokens to b that are equal except for names and literals. Runs of
// equal texts are left to exact, if that kind was asked for.
func (w *work) renamed(ctx context.Context, b *builder) error {
	all, err := w.repeats(ctx, w.canon, w.MinTokens)
	for _, p := range all {
		if w.asked(Exact) && w.equalTexts(p) == p.n {
			continue
		}
		b.keep(span{p.a, p.a + p.n}, span{p.b, p.b + p.n}, 1)
	}
	return err
}

// addSimilar adds the gapped clones that run found, and pairs of similar functions outside
// of these clones: as gapped clones if most of their tokens can be aligned, or else as
// semantic clones.
func (w *work) addSimilar() {
	if !w.asked(Gapped) && !w.asked(Semantic) {
		return
	}
	gapped, semantic := w.found[Gapped], w.found[Semantic]
	semantic.functions = w.functions
	// for each token: 1 + the index in w.gapped of the last kept clone whose later place has
	// the token, or 0
	joined := make([]int32, len(w.canon))
	for i, x := range w.gapped {
		if x.equal < w.MinTokens || w.stricter(x) || !gapped.long(x.a, x.b) {
			continue
		}
		for at := x.b.begin; at < x.b.end; at++ {
			joined[at] = int32(i) + 1
		}
		gapped.keep(x.a, x.b, x.similarity())
	}
	g := w.newAligner(w.floor(), len(w.canon))
	for _, s := range w.alike {
		x, y := w.functions[s.a], w.functions[s.b]
		if x.file == y.file && x.end > y.begin { // one function contains the other
			continue
		}
		if w.asked(Gapped) {
			// A clone with most of a function contains the token in the middle of the
			// function.
			if i := joined[(y.begin+y.end)/2]; i > 0 && hasMostOf(w.gapped[i-1].a, x.span) && hasMostOf(w.gapped[i-1].b, y.span) {
				continue
			}
			z := g.align(pair{a: x.begin, b: y.begin}, x.span, y.span)
			if whole := max(x.end-x.begin, y.end-y.begin); 2*max(z.a.end-z.a.begin, z.b.end-z.b.begin) > whole && z.equal >= w.MinTokens && gapped.long(z.a, z.b) {
				if !w.stricter(z) {
					gapped.keep(z.a, z.b, z.similarity())
				}
				continue
			}
		} else if w.asked(Renamed) && slices.Equal(w.canon[x.begin:x.end], w.canon[y.begin:y.end]) {
			continue
		} else if w.asked(Exact) && slices.Equal(w.plain[x.begin:x.end], w.plain[y.begin:y.end]) {
			continue
		}
		if w.asked(Semantic) {
			semantic.keep(x.span, y.span, s.jaccard)
		}
	}
	if w.asked(Gapped) && g.steps <= 0 {
		w.gaps = append(w.gaps, code.Gap{Field: "gapped clones", Reason: "too many functions are similar to align every pair"})
	}
}

// stricter reports whether places without a gap are clones of a stricter kind that was
// asked for.
func (w *work) stricter(x aligned) bool {
	if x.gaps > 0 {
		return false
	}
	n := x.a.end - x.a.begin
	return w.asked(Renamed) || w.asked(Exact) && w.equalTexts(pair{x.a.begin, x.b.begin, n}) == n
}
