package clone

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Bounds of the comparison of functions. Pairs beyond them are left out, with a gap.
const (
	maxPostings   = 1 << 10 // postings in one bucket
	maxCandidates = 1 << 10 // functions that one function is compared with
	maxAlike      = 1 << 5  // pairs of one function with functions before it in the order
)

// alike is a pair of functions with the Jaccard index of their sets.
type alike struct {
	a, b    int // indices of the functions, a < b
	jaccard float64
}

// similarFunctions returns the pairs of functions whose sets have a Jaccard index of at
// least threshold, and whether a bound cut the search. Of functions with the same set only
// the first is compared with other functions; each of the rest makes one pair, with the
// first.
func similarFunctions(ctx context.Context, all []function, threshold float64, workers int) (pairs []alike, cut bool, err error) {
	order := make([]int32, 0, len(all)) // one function of each set, those with smaller sets first
	first := make(map[uint64]int32, len(all))
	for i := range all {
		if j, ok := first[all[i].sum]; ok && slices.Equal(all[j].set, all[i].set) {
			pairs = append(pairs, alike{int(j), i, 1})
			continue
		}
		first[all[i].sum] = int32(i)
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(len(all[a].set), len(all[b].set)) })
	s := search{all: all, order: order, threshold: threshold, needs: shared(threshold, all)}
	cut = s.index()
	var mu sync.Mutex
	inSteps(ctx, len(order), workers, func(from, to int, c *comparison) {
		found, ended := s.compare(from, to, c)
		mu.Lock()
		defer mu.Unlock()
		pairs, cut = append(pairs, found...), cut || ended
	})
	slices.SortFunc(pairs, func(p, q alike) int { return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b)) })
	return pairs, cut, context.Cause(ctx)
}

// search finds similar functions by the rarest runs of their sets.
type search struct {
	all       []function
	order     []int32
	threshold float64
	needs     []int // number of runs that two sets must share, by the sum of their sizes

	begin    []int32 // index of the first posting of each bucket, and after them the number of postings
	postings []posting
}

// posting is an occurrence of a run in the set of a function. The postings of a bucket are
// sorted by rank.
type posting struct {
	run  uint32
	rank int32 // index of the function in search.order
	at   int32 // index of run in the function's set
	size int32 // number of runs in that set
}

// buckets is the number of lists that the postings are divided into.
const buckets = 1 << 17

// index makes the postings, and reports whether a bound left some out. A posting is only
// looked up for functions later in the order, whose sets are at least as large. Two such
// sets must share more runs than a set and a smaller one, so postings for fewer of a
// function's runs are enough.
func (s *search) index() (cut bool) {
	each := func(do func(rank, at int, run uint32)) {
		for rank, x := range s.order {
			set := s.all[x].set
			if len(set) == 0 {
				continue
			}
			prefix := len(set) - atLeast(2*s.threshold/(1+s.threshold)*float64(len(set))) + 1
			for at, run := range set[:prefix] {
				do(rank, at, uint32(run))
			}
		}
	}
	s.begin = make([]int32, buckets+1)
	each(func(_, _ int, run uint32) {
		n := &s.begin[run%buckets+1]
		*n = min(*n+1, maxPostings+1)
	})
	for i := range buckets {
		cut = cut || s.begin[i+1] > maxPostings
		s.begin[i+1] = s.begin[i] + min(s.begin[i+1], maxPostings)
	}
	s.postings = make([]posting, s.begin[buckets])
	next := slices.Clone(s.begin)
	each(func(rank, at int, run uint32) {
		if n := &next[run%buckets]; *n < s.begin[run%buckets+1] {
			s.postings[*n] = posting{run, int32(rank), int32(at), int32(len(s.all[s.order[rank]].set))}
			*n++
		}
	})
	return cut
}

// comparison is the state of a goroutine that compares one function after another.
type comparison struct {
	counts []int32 // number of shared runs by rank, or -1 if they are too few
	seen   []int32 // ranks of the functions that share a rare run
}

// compare compares each function with a rank in [from, to) with the functions before it.
func (s *search) compare(from, to int, c *comparison) (pairs []alike, cut bool) {
	if c.counts == nil {
		c.counts = make([]int32, len(s.order))
	}
	for rank := from; rank < to; rank++ {
		cut = s.candidates(rank, c) || cut
		x := s.order[rank]
		set := s.all[x].set
		kept := 0
		for _, other := range c.seen {
			y := s.order[other]
			need := s.needs[len(set)+len(s.all[y].set)]
			switch {
			case c.counts[other] < 0 || len(set)-s.all[x].bits.without(s.all[y].bits) < need || len(s.all[y].set)-s.all[y].bits.without(s.all[x].bits) < need:
			case kept == maxAlike:
				cut = true
			default:
				if j := jaccard(set, s.all[y].set, s.threshold); j >= s.threshold {
					pairs = append(pairs, alike{int(min(x, y)), int(max(x, y)), j})
					kept++
				}
			}
			c.counts[other] = 0
		}
		c.seen = c.seen[:0]
	}
	return pairs, cut
}

// candidates finds the functions before the one with this rank that share a rare run with
// it, and reports whether a bound left some out.
func (s *search) candidates(rank int, c *comparison) (cut bool) {
	set := s.all[s.order[rank]].set
	if len(set) == 0 {
		return false
	}
	least := s.threshold * float64(len(set)) // minimum number of runs in the other function's set
	prefix := len(set) - atLeast(least) + 1
	for i, run := range set[:prefix] {
		bucket := uint32(run) % buckets
		in := s.postings[s.begin[bucket]:s.begin[bucket+1]]
		before, _ := slices.BinarySearchFunc(in, int32(rank), func(p posting, rank int32) int { return cmp.Compare(p.rank, rank) })
		for k := before - 1; k >= 0; k-- {
			p := &in[k]
			if float64(p.size) < least {
				break // the sets of earlier postings are not larger
			}
			n := &c.counts[p.rank]
			if p.run != uint32(run) || *n < 0 {
				continue
			}
			if *n == 0 {
				if len(c.seen) == maxCandidates {
					cut = true
					continue
				}
				c.seen = append(c.seen, p.rank)
			}
			*n++
			// The runs that follow must suffice to reach the number that both sets must
			// share.
			if int(*n)+min(len(set)-i, int(p.size-p.at))-1 < s.needs[len(set)+int(p.size)] {
				*n = -1
			}
		}
	}
	return cut
}

// shared returns the number of runs that two sets must share, by the sum of their sizes.
func shared(threshold float64, all []function) []int {
	most := 0
	for i := range all {
		most = max(most, len(all[i].set))
	}
	needs := make([]int, 2*most+1)
	for n := range needs {
		needs[n] = atLeast(threshold / (1 + threshold) * float64(n))
	}
	return needs
}

// atLeast rounds up, but not if only a rounding error separates x from a smaller whole
// number.
func atLeast(x float64) int {
	n := int(x)
	if x-float64(n) > 1e-9 {
		n++
	}
	return n
}

// jaccard returns the size of the intersection of two sets divided by the size of their
// union, or 0 as soon as the result is certain to be below threshold.
func jaccard(a, b []uint64, threshold float64) float64 {
	// number of runs that may lack a partner in the other set
	spare := len(a) + len(b) - 2*atLeast(threshold/(1+threshold)*float64(len(a)+len(b)))
	shared, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			shared, i, j = shared+1, i+1, j+1
			continue
		}
		if i+j-2*shared > spare {
			return 0
		}
	}
	if union := len(a) + len(b) - shared; union > 0 {
		return float64(shared) / float64(union)
	}
	return 0
}
