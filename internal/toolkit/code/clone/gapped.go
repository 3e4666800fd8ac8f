package clone

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	maxGap = 5  // maximum number of lines between two equal pieces of a gapped clone
	reach  = 40 // maximum number of tokens between two equal pieces
	anchor = 8  // number of tokens that must be equal after a gap
)

// aligned is a pair of places that are equal except for gaps.
type aligned struct {
	a, b  span
	equal int // number of equal tokens
	gaps  int
}

// similarity returns the share of equal tokens in the longer place.
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

	floor float64 // lowest similarity of a result
	steps int     // number of comparisons that are left
}

// newAligner returns an aligner with a budget that grows with the number of tokens that it
// works on.
func (r *row) newAligner(floor float64, tokens int) *aligner {
	r.anchored.Do(func() {
		r.anchors = make([]uint32, len(r.canon))
		roll(r.canon, span{0, len(r.canon)}, anchor, func(h uint64, at int) int {
			r.anchors[at] = uint32((h ^ h>>29) * multiplier >> 32)
			return at + 1
		})
	})
	return &aligner{row: r, floor: floor, steps: 1<<22 + 128*tokens}
}

// align extends a pair within the spans: over equal tokens in both directions, then over
// gaps to equal pieces after and before it.
func (g *aligner) align(p pair, inA, inB span) aligned {
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

// resume returns the nearest positions from i and j on at which both places are equal
// again.
func (g *aligner) resume(i, j, endA, endB int) (int, int, bool) {
	skip, other, ok := g.nearest(i, g.ahead(i, endA-anchor), j, g.ahead(j, endB-anchor), 1)
	return i + skip, j + other, ok
}

// resumeBefore does the same as resume towards the beginning: it returns the ends of the
// equal pieces.
func (g *aligner) resumeBefore(i, j, beginA, beginB int) (int, int, bool) {
	skip, other, ok := g.nearest(i-anchor, g.back(i, beginA+anchor), j-anchor, g.back(j, beginB+anchor), -1)
	return i - skip, j - other, ok
}

// nearest returns how many tokens to skip from i and from j, at most mostA and mostB, until
// both places are equal. It chooses the smallest sum, and of equal sums the one that skips
// the fewest from i. step is 1, or -1 towards the beginning.
func (g *aligner) nearest(i, mostA, j, mostB, step int) (skipA, skipB int, ok bool) {
	if mostA < 0 || mostB < 0 || g.steps <= 0 {
		return 0, 0, false
	}
	// Bits of the hashes show that most positions from j on match none from i on.
	var filter [4]uint64
	for skip := range mostA + 1 {
		h := g.anchors[i+step*skip]
		filter[h>>6&3] |= 1 << (h & 63)
	}
	g.steps -= mostA + mostB
	best := mostA + mostB + 1 // number of tokens to skip; at first one more than the maximum
	for other := 0; other <= min(mostB, best); other++ {
		b := j + step*other
		h := g.anchors[b]
		if filter[h>>6&3]&(1<<(h&63)) == 0 {
			continue
		}
		for skip := 0; skip <= min(mostA, best-other); skip++ {
			g.steps--
			if a := i + step*skip; g.anchors[a] == h && g.same(a, b) {
				if d := skip + other; d < best || d == best && skip < skipA {
					best, skipA, skipB, ok = d, skip, other, true
				}
				break
			}
		}
	}
	return skipA, skipB, ok
}

// ahead returns how many tokens a gap at token i may have, or -1 if i is after last.
func (g *aligner) ahead(i, last int) int {
	if i > last {
		return -1
	}
	n, line := 0, g.line[max(i-1, 0)]
	for n < reach && i+n+1 <= last && g.line[i+n+1]-line <= maxGap+1 {
		n++
	}
	return n
}

// back does the same as ahead towards the beginning. It returns -1 if i is before first.
func (g *aligner) back(i, first int) int {
	if i < first {
		return -1
	}
	n, line := 0, g.line[i]
	for n < reach && i-n-1 >= first && line-g.line[i-n-2] <= maxGap+1 {
		n++
	}
	return n
}

// same reports whether the tokens from a and from b on are equal, for the length of an
// anchor.
func (g *aligner) same(a, b int) bool {
	for k := range anchor {
		if g.canon[a+k] != g.canon[b+k] {
			return false
		}
	}
	return true
}

// pieceTokens is the number of tokens of later places, rounded up to whole files, on which
// a goroutine works at a time.
const pieceTokens = 1 << 15

// joinRepeats extends the repeats of the row over gaps, in up to workers goroutines. It
// reports whether a budget ended before all gaps were searched.
func (r *row) joinRepeats(ctx context.Context, seeds []pair, floor float64, workers int) (all []aligned, cut bool, err error) {
	pieces := r.pieces(seeds)
	found, tired := make([][]aligned, len(pieces)), make([]bool, len(pieces))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, min(workers, len(pieces))) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(pieces) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				g := r.newAligner(floor, pieces[i].tokens)
				found[i] = g.alignAll(ctx, pieces[i].seeds)
				tired[i] = g.steps <= 0
			}
		})
	}
	wg.Wait()
	return slices.Concat(found...), slices.Contains(tired, true), context.Cause(ctx)
}

// piece is a group of repeats whose later places are in the same files.
type piece struct {
	seeds  []pair
	tokens int // number of tokens in these files
}

// pieces splits repeats into groups by the files of their later places. The repeats are
// sorted by these places.
func (r *row) pieces(seeds []pair) (all []piece) {
	for len(seeds) > 0 {
		from := r.begin[r.fileOf(seeds[0].b)]
		end := r.begin[r.fileOf(min(from+pieceTokens, len(r.canon)-1))+1]
		n, _ := slices.BinarySearchFunc(seeds, end, func(p pair, end int) int { return cmp.Compare(p.b, end) })
		all = append(all, piece{seeds[:n], end - from})
		seeds = seeds[n:]
	}
	return all
}

// alignAll extends repeats over gaps. It leaves out a repeat that lies within the last
// result.
func (g *aligner) alignAll(ctx context.Context, seeds []pair) (all []aligned) {
	for i, p := range seeds {
		if i%256 == 0 && ctx.Err() != nil {
			return all
		}
		if n := len(all); n > 0 && inside(span{p.a, p.a + p.n}, all[n-1].a) && inside(span{p.b, p.b + p.n}, all[n-1].b) {
			continue
		}
		fa, fb := g.fileOf(p.a), g.fileOf(p.b)
		inA, inB := span{g.begin[fa], g.begin[fa+1]}, span{g.begin[fb], g.begin[fb+1]}
		if fa == fb { // places in one file must not overlap
			middle := (p.a + p.n + p.b) / 2
			inA.end, inB.begin = middle, middle
		}
		all = append(all, g.align(p, inA, inB))
	}
	return all
}

// inside reports whether all of s is in t.
func inside(s, t span) bool { return t.begin <= s.begin && s.end <= t.end }
