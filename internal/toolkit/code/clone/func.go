package clone

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/toolkit/code"
)

// Bounds of the comparison of functions. Beyond them pairs are left out, with a gap.
const (
	maxPostings   = 1 << 10 // functions in which one run is looked up
	maxCandidates = 1 << 10 // functions that one function is compared with
	maxAlike      = 1 << 5  // pairs of one function with smaller ones
	maxFuncs      = 1 << 18
)

// Tokens of idioms. They are smaller than all hashes of the row.
const (
	opAssign uint32 = iota + 16
	opLess
	opLessEqual
	opEqual
	opNotEqual
	opNot
	opAnd
	opOr
	opLoop
	opElse
	opIf
	opFunc
	opCall
	opClose
	opPlus
	opMinus
	opTimes
	opOver
)

// function is one that is compared with others.
type function struct {
	span

	file  int
	label string
	set   []uint32 // of its runs of three tokens, the rarest first
	order []uint32 // the same in the order of their values
	sum   uint64   // of all of set, for functions with the same set
	bits  sketch
}

// functions returns the functions of the row that are long enough.
func (r *row) functions(ctx context.Context, minTokens, minLines, workers int) ([]function, []code.Gap) {
	var all []function
	var gaps []code.Gap
	for i, f := range r.files {
		tokens := r.token[r.begin[i]:r.begin[i+1]]
		for _, fn := range f.Funcs {
			if fn.Last-fn.First+1 < minLines {
				continue
			}
			begin, _ := slices.BinarySearch(tokens, int32(fn.Start))
			end, _ := slices.BinarySearch(tokens, int32(fn.End))
			if end-begin < minTokens {
				continue
			}
			if len(all) == maxFuncs {
				return all, append(gaps, code.Gap{Path: f.Path, Field: "semantic clones", Reason: "there are more functions than can be compared at once; name fewer files"})
			}
			all = append(all, function{span: span{r.begin[i] + begin, r.begin[i] + end}, file: i, label: fn.Label})
		}
	}
	r.measure(ctx, all, workers)
	return all, gaps
}

// measure makes the sets of functions.
func (r *row) measure(ctx context.Context, all []function, workers int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, min(workers, len(all)/64)) {
		wg.Go(func() {
			var w idioms
			for {
				const step = 64
				from := int(next.Add(step)) - step
				if from >= len(all) || ctx.Err() != nil {
					return
				}
				for i := from; i < min(from+step, len(all)); i++ {
					all[i].order, all[i].sum = w.set(r, all[i].file, all[i].span)
					all[i].bits = newSketch(all[i].order)
				}
			}
		})
	}
	wg.Wait()
	// How often a run occurs decides its place in a set. Runs that share a counter only
	// change that place.
	counters := make([]uint32, 1<<18)
	for i := range all {
		for _, g := range all[i].order {
			counters[g%uint32(len(counters))]++
		}
	}
	total := 0
	for i := range all {
		total += len(all[i].order)
	}
	sets, keys := make([]uint32, 0, total), []uint64(nil)
	for i := range all {
		keys = keys[:0]
		for _, g := range all[i].order {
			keys = append(keys, uint64(counters[g%uint32(len(counters))])<<32|uint64(g))
		}
		slices.Sort(keys)
		from := len(sets)
		for _, k := range keys {
			sets = append(sets, uint32(k))
		}
		all[i].set = sets[from:len(sets):len(sets)]
	}
}

// idioms writes the tokens of functions in one way.
type idioms struct {
	tokens []uint32
	runs   []uint32
	closes []bool // of each open bracket: whether it stays
}

// set returns the distinct runs of three tokens of a function, sorted, and a hash of them.
func (w *idioms) set(r *row, file int, s span) ([]uint32, uint64) {
	w.rewrite(r, file, s)
	w.runs = w.runs[:0]
	for i := 0; i+3 <= len(w.tokens); i++ {
		h := uint64(w.tokens[i])
		h = h*multiplier + uint64(w.tokens[i+1])
		h = h*multiplier + uint64(w.tokens[i+2])
		h ^= h >> 31
		w.runs = append(w.runs, uint32(h*0xBF58476D1CE4E5B9>>32))
	}
	slices.Sort(w.runs)
	set := slices.Clone(slices.Compact(w.runs))
	sum := uint64(len(set))
	for _, g := range set {
		sum = (sum ^ uint64(g)) * multiplier
		sum ^= sum >> 29
	}
	return set, sum
}

// rewrite puts the tokens of a function into w.tokens.
func (w *idioms) rewrite(r *row, file int, s span) {
	w.tokens, w.closes = w.tokens[:0], w.closes[:0]
	f := r.files[file]
	for i := s.begin; i < s.end; i++ {
		if r.canon[i] == anyLiteral || r.canon[i] == indent || r.canon[i] == dedent {
			w.tokens = append(w.tokens, r.canon[i])
			continue
		}
		t := f.Tokens[r.token[i]]
		if t.Kind == code.Operator {
			w.operator(r, file, s, i, f.Of(t))
			continue
		}
		switch f.Of(t) {
		case "nil", "null", "None", "undefined", "true", "false", "True", "False":
			w.tokens = append(w.tokens, anyLiteral)
		case "self", "this":
			if i+1 < s.end && r.text(file, i+1) == "." {
				i++
				continue
			}
			w.tokens = append(w.tokens, anyName)
		case "var", "let", "const", "mut", "final", "auto": // a declaration or an assignment
		case "while", "for", "loop":
			w.tokens = append(w.tokens, opLoop)
		case "elif":
			w.tokens = append(w.tokens, opElse, opIf)
		case "else":
			w.tokens = append(w.tokens, opElse)
		case "if":
			w.tokens = append(w.tokens, opIf)
		case "func", "fn", "def", "function":
			w.tokens = append(w.tokens, opFunc)
		case "not":
			w.tokens = append(w.tokens, opNot)
		case "and":
			w.tokens = append(w.tokens, opAnd)
		case "or":
			w.tokens = append(w.tokens, opOr)
		default:
			w.tokens = append(w.tokens, r.canon[i])
		}
	}
}

// operator appends the operator at token i of the row.
func (w *idioms) operator(r *row, file int, s span, i int, text string) {
	switch text {
	case ";":
	case ",":
		if i+1 < s.end {
			if after := r.text(file, i+1); after == ")" || after == "]" || after == "}" {
				return
			}
		}
		w.tokens = append(w.tokens, r.canon[i])
	case "(":
		stays := false // a call, or else an expression in brackets
		if i > s.begin {
			before := r.text(file, i-1)
			stays = r.canon[i-1] == anyName || before == ")" || before == "]"
		}
		w.closes = append(w.closes, stays)
		if stays {
			w.tokens = append(w.tokens, opCall)
		}
	case ")":
		stays := true
		if n := len(w.closes); n > 0 {
			stays, w.closes = w.closes[n-1], w.closes[:n-1]
		}
		if stays {
			w.tokens = append(w.tokens, opClose)
		}
	case "++":
		w.tokens = append(w.tokens, opAssign, anyName, opPlus, anyLiteral)
	case "--":
		w.tokens = append(w.tokens, opAssign, anyName, opMinus, anyLiteral)
	case "+=":
		w.tokens = append(w.tokens, opAssign, anyName, opPlus)
	case "-=":
		w.tokens = append(w.tokens, opAssign, anyName, opMinus)
	case "*=":
		w.tokens = append(w.tokens, opAssign, anyName, opTimes)
	case "/=":
		w.tokens = append(w.tokens, opAssign, anyName, opOver)
	default:
		if op := plainOperator(text); op != 0 {
			w.tokens = append(w.tokens, op)
			return
		}
		w.tokens = append(w.tokens, r.canon[i])
	}
}

// plainOperator returns the token that stands for an operator and those like it.
func plainOperator(text string) uint32 {
	switch text {
	case "=", ":=":
		return opAssign
	case "<", ">":
		return opLess
	case "<=", ">=":
		return opLessEqual
	case "==", "===":
		return opEqual
	case "!=", "!==":
		return opNotEqual
	case "!":
		return opNot
	case "&&":
		return opAnd
	case "||":
		return opOr
	case "+":
		return opPlus
	case "-":
		return opMinus
	case "*":
		return opTimes
	case "/":
		return opOver
	}
	return 0
}

// sketch has a bit for each run of a set; runs may share one.
type sketch [4]uint64

func newSketch(set []uint32) (s sketch) {
	for _, run := range set {
		s[run>>6&3] |= 1 << (run & 63)
	}
	return s
}

// without returns a number of runs that are in the set of s and not in that of t: for
// each bit that only s has, there is one at least.
func (s sketch) without(t sketch) (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i] &^ t[i])
	}
	return n
}

// alike is two functions with the Jaccard index of their sets.
type alike struct {
	a, b    int // indices, a before b in the row
	jaccard float64
}

// posting is a function in whose set a run stands, in the list of its bucket.
type posting struct {
	run  uint32
	fn   int32
	at   int32 // of run in the function's set
	size int32 // of that set
	next int32 // index of the next posting, from 1
}

// similar returns the pairs of functions whose sets have a Jaccard index of at least
// threshold, and whether a bound cut the search. Of functions with the same set, each is
// compared with the first of them only.
func similar(ctx context.Context, all []function, threshold float64) (pairs []alike, cut bool, err error) {
	order := make([]int32, 0, len(all)) // one function of each set, the smaller sets first
	first := make(map[uint64]int32, len(all))
	for i := range all {
		if j, ok := first[all[i].sum]; ok && slices.Equal(all[j].order, all[i].order) {
			pairs = append(pairs, alike{int(j), i, 1})
			continue
		}
		first[all[i].sum] = int32(i)
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(len(all[a].set), len(all[b].set)) })

	needs := shared(threshold, all)
	heads, lengths := make([]int32, 1<<17), make([]int32, 1<<17)
	var postings []posting
	counts, seen := make([]int32, len(all)), []int32(nil) // of each function: shared runs, or -1 for too few
	for k, x := range order {
		if k%256 == 0 && ctx.Err() != nil {
			return pairs, cut, context.Cause(ctx)
		}
		set := all[x].set
		prefix := len(set) - atLeast(threshold*float64(len(set))) + 1
		if len(set) == 0 {
			continue
		}
		for i, run := range set[:prefix] {
			bucket := run % uint32(len(heads))
			for p := heads[bucket]; p != 0; p = postings[p-1].next {
				entry := &postings[p-1]
				y, other := entry.fn, int(entry.size)
				if float64(other) < threshold*float64(len(set)) {
					break // those behind it are no larger
				}
				if entry.run != run || counts[y] < 0 {
					continue
				}
				if counts[y] == 0 {
					if len(seen) == maxCandidates {
						cut = true
						continue
					}
					seen = append(seen, y)
				}
				counts[y]++
				// Together they need so many shared runs; the rest of both must suffice.
				if int(counts[y])+min(len(set)-i, other-int(entry.at))-1 < needs[len(set)+other] {
					counts[y] = -1
				}
			}
		}
		kept := 0
		for _, y := range seen {
			need := needs[len(set)+len(all[y].set)]
			switch {
			case counts[y] < 0 || len(set)-all[x].bits.without(all[y].bits) < need || len(all[y].set)-all[y].bits.without(all[x].bits) < need:
			case kept == maxAlike:
				cut = true
			default:
				if j := jaccard(all[x].order, all[y].order, threshold); j >= threshold {
					pairs = append(pairs, alike{int(min(x, y)), int(max(x, y)), j})
					kept++
				}
			}
			counts[y] = 0
		}
		seen = seen[:0]
		// Functions that are still to come have sets at least as large, with which it
		// must share more.
		prefix = len(set) - atLeast(2*threshold/(1+threshold)*float64(len(set))) + 1
		for i, run := range set[:prefix] {
			bucket := run % uint32(len(heads))
			if lengths[bucket] == maxPostings {
				cut = true
				continue
			}
			lengths[bucket]++
			postings = append(postings, posting{run, x, int32(i), int32(len(set)), heads[bucket]})
			heads[bucket] = int32(len(postings))
		}
	}
	slices.SortFunc(pairs, func(p, q alike) int { return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b)) })
	return pairs, cut, nil
}

// shared returns how many runs two sets must share, by the number of runs that they have
// together.
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

// atLeast rounds up, but for what only a rounding error separates from a whole number.
func atLeast(x float64) int {
	n := int(x)
	if x-float64(n) > 1e-9 {
		n++
	}
	return n
}

// jaccard returns the size of the intersection of two sorted sets over that of their
// union, or 0 once it is certain to be below threshold.
func jaccard(a, b []uint32, threshold float64) float64 {
	spare := len(a) + len(b) - 2*atLeast(threshold/(1+threshold)*float64(len(a)+len(b))) // runs that may have no partner
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
