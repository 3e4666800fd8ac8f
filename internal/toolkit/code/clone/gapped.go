package clone

import "context"

const (
	maxGap = 5  // lines between two equal pieces of a gapped clone
	window = 40 // tokens between them, at most
	anchor = 8  // tokens that must be equal behind a gap
)

// aligned is two places that are equal but for gaps.
type aligned struct {
	a, b  span
	equal int // tokens
	gaps  int
}

// similarity is the share of equal tokens in the longer place.
func (x aligned) similarity() float64 {
	longer := max(x.a.end-x.a.begin, x.b.end-x.b.begin)
	if longer == 0 {
		return 0
	}
	return float64(x.equal) / float64(longer)
}

// aligner extends equal pieces over gaps.
type aligner struct {
	*row

	floor   float64  // lowest similarity
	steps   int      // comparisons that are left
	anchors []uint32 // of each token: a hash of it and of those behind it, an anchor together
}

// newAligner gives an aligner a budget that grows with the row.
func (r *row) newAligner(floor float64) *aligner {
	g := &aligner{row: r, floor: floor, steps: 1<<22 + 128*len(r.canon), anchors: make([]uint32, len(r.canon))}
	roll(r.canon, span{0, len(r.canon)}, anchor, func(h uint64, at int) int {
		g.anchors[at] = uint32((h ^ h>>29) * multiplier >> 32)
		return at + 1
	})
	return g
}

// extend joins pieces behind and before a pair within the spans.
func (g *aligner) extend(p pair, inA, inB span) aligned {
	for p.n > 0 && p.a+p.n < inA.end && p.b+p.n < inB.end && g.canon[p.a+p.n] == g.canon[p.b+p.n] {
		p.n++
	}
	for p.n > 0 && p.a > inA.begin && p.b > inB.begin && g.canon[p.a-1] == g.canon[p.b-1] {
		p = pair{p.a - 1, p.b - 1, p.n + 1}
	}
	g.steps -= p.n
	x := aligned{a: span{p.a, p.a + p.n}, b: span{p.b, p.b + p.n}, equal: p.n}
	for {
		i, j, ok := g.resume(x.a.end, x.b.end, inA.end, inB.end)
		if !ok {
			break
		}
		n := anchor
		for i+n < inA.end && j+n < inB.end && g.canon[i+n] == g.canon[j+n] {
			n++
		}
		g.steps -= n
		y := aligned{span{x.a.begin, i + n}, span{x.b.begin, j + n}, x.equal + n, x.gaps}
		if i > x.a.end || j > x.b.end {
			y.gaps++
		}
		if y.similarity() < g.floor {
			break
		}
		x = y
	}
	for {
		i, j, ok := g.resumeBefore(x.a.begin, x.b.begin, inA.begin, inB.begin)
		if !ok {
			break
		}
		n := anchor
		for i-n > inA.begin && j-n > inB.begin && g.canon[i-n-1] == g.canon[j-n-1] {
			n++
		}
		g.steps -= n
		y := aligned{span{i - n, x.a.end}, span{j - n, x.b.end}, x.equal + n, x.gaps + 1}
		if y.similarity() < g.floor {
			break
		}
		x = y
	}
	return x
}

// resume returns the nearest tokens behind i and j from which on both places are equal
// again.
func (g *aligner) resume(i, j, endA, endB int) (int, int, bool) {
	mostA, mostB := g.ahead(i, endA-anchor), g.ahead(j, endB-anchor)
	for d := 0; d <= mostA+mostB && g.steps > 0; d++ {
		for skip := max(0, d-mostB); skip <= min(d, mostA); skip++ {
			g.steps--
			if a, b := i+skip, j+d-skip; g.anchors[a] == g.anchors[b] && g.same(a, b) {
				return a, b, true
			}
		}
	}
	return 0, 0, false
}

// resumeBefore is resume towards the beginning: it returns the ends of what is equal.
func (g *aligner) resumeBefore(i, j, beginA, beginB int) (int, int, bool) {
	mostA, mostB := g.back(i, beginA+anchor), g.back(j, beginB+anchor)
	for d := 0; d <= mostA+mostB && g.steps > 0; d++ {
		for skip := max(0, d-mostB); skip <= min(d, mostA); skip++ {
			g.steps--
			if a, b := i-skip, j-d+skip; g.anchors[a-anchor] == g.anchors[b-anchor] && g.same(a-anchor, b-anchor) {
				return a, b, true
			}
		}
	}
	return 0, 0, false
}

// ahead returns how many tokens behind token i a gap may have, or -1 where i is behind
// last.
func (g *aligner) ahead(i, last int) int {
	if i > last {
		return -1
	}
	n, line := 0, g.line[max(i-1, 0)]
	for n < window && i+n+1 <= last && g.line[i+n+1]-line <= maxGap+1 {
		n++
	}
	return n
}

// back is ahead towards the beginning.
func (g *aligner) back(i, first int) int {
	if i < first {
		return -1
	}
	n, line := 0, g.line[i]
	for n < window && i-n-1 >= first && line-g.line[i-n-2] <= maxGap+1 {
		n++
	}
	return n
}

// same reports whether as many tokens as an anchor has are equal.
func (g *aligner) same(a, b int) bool {
	for k := range anchor {
		if g.canon[a+k] != g.canon[b+k] {
			return false
		}
	}
	return true
}

// join extends the repeats of a row over gaps, each later place once per earlier file.
func (g *aligner) join(ctx context.Context, seeds []pair) ([]aligned, error) {
	var all []aligned
	for i, p := range seeds {
		if i%256 == 0 && ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		if n := len(all); n > 0 && inside(span{p.a, p.a + p.n}, all[n-1].a) && inside(span{p.b, p.b + p.n}, all[n-1].b) {
			continue
		}
		fa, fb := g.fileOf(p.a), g.fileOf(p.b)
		inA, inB := span{g.begin[fa], g.begin[fa+1]}, span{g.begin[fb], g.begin[fb+1]}
		if fa == fb { // places of one file do not overlap
			middle := (p.a + p.n + p.b) / 2
			inA.end, inB.begin = middle, middle
		}
		all = append(all, g.extend(p, inA, inB))
	}
	return all, nil
}

// inside reports whether all of s is in t.
func inside(s, t span) bool { return t.begin <= s.begin && s.end <= t.end }
