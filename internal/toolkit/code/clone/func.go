package clone

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/toolkit/code"
)

// maxFuncs is the maximum number of functions that are compared. Those beyond it are left
// out, with a gap.
const maxFuncs = 1 << 18

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

// function is a function of the row that is compared with others.
type function struct {
	span

	file  int
	label string
	// distinct runs of three tokens, the rarest first: each is the run in the low 32 bits,
	// and above them how often it occurs
	set  []uint64
	sum  uint64 // hash of all of set, which functions with the same set share
	bits sketch
}

// functions returns the functions of the row that are long enough, with their sets.
func (r *row) functions(ctx context.Context, minTokens, minLines, workers int) ([]function, []code.Gap) {
	all, gaps := r.long(minTokens, minLines)
	r.measure(ctx, all, workers)
	return all, gaps
}

// long returns the functions of the row that are long enough.
func (r *row) long(minTokens, minLines int) (all []function, gaps []code.Gap) {
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
	return all, gaps
}

// measure computes the sets of functions.
func (r *row) measure(ctx context.Context, all []function, workers int) {
	inSteps(ctx, len(all), workers, func(from, to int, w *idioms) {
		for i := range all[from:to] {
			f := &all[from+i]
			f.set, f.sum = w.set(r, f.file, f.span)
			f.bits = newSketch(f.set)
		}
	})
	// The frequency of a run decides its position in a set. Runs that share a counter only
	// get another position.
	counters := make([]uint32, 1<<18)
	for i := range all {
		for _, run := range all[i].set {
			counters[run%uint64(len(counters))]++
		}
	}
	inSteps(ctx, len(all), workers, func(from, to int, _ *idioms) {
		for _, f := range all[from:to] {
			for k, run := range f.set {
				f.set[k] = uint64(counters[run%uint64(len(counters))])<<32 | run
			}
			slices.Sort(f.set)
		}
	})
}

// inSteps calls do for all of n functions, 64 at a time, in up to workers goroutines. Each
// goroutine has its own T to work with. When ctx ends, inSteps leaves out the rest.
func inSteps[T any](ctx context.Context, n, workers int, do func(from, to int, with *T)) {
	const step = 64
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, min(workers, n/step)) {
		wg.Go(func() {
			var with T
			for {
				from := int(next.Add(step)) - step
				if from >= n || ctx.Err() != nil {
					return
				}
				do(from, min(from+step, n), &with)
			}
		})
	}
	wg.Wait()
}

// idioms rewrites the tokens of functions so that common idioms are written in one way.
type idioms struct {
	tokens []uint32
	closes []bool // for each open parenthesis: whether its tokens are kept
	runs   []uint64
	seen   []uint64 // hash table of the runs so far; each has bit 32 set, which no run has
	// scatter is a random factor for the places of runs in the table, so that no text can
	// be made whose runs all have the same place.
	scatter uint64
}

// set returns the distinct runs of three tokens of a function, and a hash of them.
func (w *idioms) set(r *row, file int, s span) (set []uint64, sum uint64) {
	w.rewrite(r, file, s)
	if w.scatter == 0 {
		w.scatter = rand.Uint64() | 1
	}
	size := bits.Len(uint(2*len(w.tokens) + 1)) // logarithm of the size of the table, to base 2
	if len(w.seen) < 1<<size {
		w.seen = make([]uint64, 1<<size)
	}
	seen := w.seen[:1<<size]
	clear(seen)
	w.runs = w.runs[:0]
	for i := 0; i+3 <= len(w.tokens); i++ {
		h := uint64(w.tokens[i])
		h = h*multiplier + uint64(w.tokens[i+1])
		h = h*multiplier + uint64(w.tokens[i+2])
		h ^= h >> 31
		run := h * 0xBF58476D1CE4E5B9 >> 32
		at := run * w.scatter >> (64 - size)
		for seen[at] != 0 && seen[at] != run|1<<32 {
			at = (at + 1) & uint64(len(seen)-1)
		}
		if seen[at] == 0 {
			seen[at] = run | 1<<32
			w.runs = append(w.runs, run)
			sum += (run ^ run<<29) * multiplier
		}
	}
	return slices.Clone(w.runs), sum
}

// rewrite puts the rewritten tokens of a function into w.tokens.
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
		word := f.Of(t)
		switch word {
		case "nil", "null", "None", "undefined", "true", "false", "True", "False":
			w.tokens = append(w.tokens, anyLiteral)
		case "self", "this":
			if i+1 < s.end && r.text(file, i+1) == "." {
				i++
				continue
			}
			w.tokens = append(w.tokens, anyName)
		default:
			if t.Kind == code.Keyword || reserved(f.Language, word) {
				w.keyword(word, r.canon[i])
				continue
			}
			w.tokens = append(w.tokens, r.canon[i])
		}
	}
}

// reserved reports whether a word that the language's lexer gives as a name is hardly ever a
// name: the language reserves it only in some places, or in some of its versions.
func reserved(l code.Language, word string) bool {
	switch word {
	case "let":
		return l == code.JavaScript || l == code.TypeScript || l == code.TSX
	case "var":
		return l == code.Java
	case "not", "and", "or":
		return l == code.CPP
	}
	return false
}

// keyword appends the tokens for a keyword. canon is its token if it belongs to no idiom.
func (w *idioms) keyword(word string, canon uint32) {
	switch word {
	case "var", "let", "const", "mut", "final", "auto": // left out, so that a declaration equals an assignment
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
		w.tokens = append(w.tokens, canon)
	}
}

// operator appends the tokens for the operator at token i of the row.
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
		stays := false // true for a call; false for an expression in parentheses
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

// plainOperator returns the token that stands for an operator and for similar ones; 0 for
// any other text.
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

// sketch has a bit for each run of a set; several runs may share a bit.
type sketch [4]uint64

func newSketch(set []uint64) (s sketch) {
	for _, run := range set {
		s[run>>6&3] |= 1 << (run & 63)
	}
	return s
}

// without returns a lower bound for the number of runs that are in the set of s and not in
// that of t: each bit that only s has stands for at least one such run.
func (s sketch) without(t sketch) (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i] &^ t[i])
	}
	return n
}
