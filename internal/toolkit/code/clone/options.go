package clone

import (
	"fmt"
	"runtime"
	"slices"
)

// Kind is how alike the places of a clone are.
type Kind string

// The kinds, the strictest first. A clone of one kind is also of the kinds below it; it
// is listed once, with the strictest kind of those that were asked for.
const (
	Exact    Kind = "exact"
	Renamed  Kind = "renamed"
	Gapped   Kind = "gapped"
	Semantic Kind = "semantic"
)

// kinds are all kinds, the strictest first.
var kinds = []Kind{Exact, Renamed, Gapped, Semantic}

// Options say what is a clone. The zero value means the defaults.
type Options struct {
	Kinds     []Kind  // all where it is empty
	Threshold float64 // share of tokens that are equal, over 0 and at most 1; 0.85
	MinLines  int     // of each place of each kind; 5
	MinTokens int     // of each place of each kind; 50
	Workers   int     // goroutines, at most; as many as there are processors
	CountOnly bool    // lines are counted, and no clones are listed
}

// with checks the options and puts in the defaults.
func (o Options) with() (Options, error) {
	if o.Threshold == 0 {
		o.Threshold = 0.85
	}
	if !(o.Threshold > 0 && o.Threshold <= 1) { // a NaN is refused as well
		return o, fmt.Errorf("threshold %v: must be over 0 and at most 1", o.Threshold)
	}
	if o.MinLines < 0 || o.MinTokens < 0 || o.Workers < 0 {
		return o, fmt.Errorf("min_lines %d, min_tokens %d, workers %d: must not be negative", o.MinLines, o.MinTokens, o.Workers)
	}
	for _, k := range o.Kinds {
		if !slices.Contains(kinds, k) {
			return o, fmt.Errorf("kind %q: must be exact, renamed, gapped or semantic", k)
		}
	}
	if len(o.Kinds) == 0 {
		o.Kinds = kinds
	}
	if o.MinLines == 0 {
		o.MinLines = 5
	}
	if o.MinTokens == 0 {
		o.MinTokens = 50
	}
	o.MinTokens = max(o.MinTokens, 2*anchor)
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o, nil
}

// floor is the lowest similarity of gapped and semantic clones. A run of three tokens is
// whole where its tokens are, so that of two functions that share 85 % of their tokens
// some 61 % of the runs are left.
func (o Options) floor() float64 { return o.Threshold * o.Threshold * o.Threshold }

// asked reports whether clones of a kind are looked for.
func (o Options) asked(k Kind) bool { return slices.Contains(o.Kinds, k) }
