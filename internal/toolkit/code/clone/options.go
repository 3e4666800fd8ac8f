package clone

import (
	"fmt"
	"runtime"
	"slices"
)

// Kind says in which way the places of a clone are alike.
type Kind string

// The kinds, the strictest first. A clone of one kind also belongs to the kinds after it.
// It is listed once, with the strictest kind of those that were asked for.
const (
	Exact    Kind = "exact"
	Renamed  Kind = "renamed"
	Gapped   Kind = "gapped"
	Semantic Kind = "semantic"
)

// kinds lists all kinds, the strictest first.
var kinds = []Kind{Exact, Renamed, Gapped, Semantic}

// Options say what counts as a clone. The zero value means the defaults.
type Options struct {
	Kinds     []Kind  // kinds that are looked for; all if it is empty
	Threshold float64 // lowest share of equal tokens, above 0 and at most 1; 0.85 if it is 0
	MinLines  int     // minimum number of lines of each place of each kind; 5 if it is 0
	MinTokens int     // minimum number of tokens of each place of each kind; 50 if it is 0
	Workers   int     // maximum number of goroutines of one step; one for each processor if it is 0
	CountOnly bool    // count the lines, and list no clones
}

// with returns the options with defaults for zero values, or an error if an option is
// invalid.
func (o Options) with() (Options, error) {
	if o.Threshold == 0 {
		o.Threshold = 0.85
	}
	if !(o.Threshold > 0 && o.Threshold <= 1) { // a NaN is rejected too
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

// floor returns the lowest similarity of gapped and semantic clones. A run of three tokens
// is only equal if all its tokens are: two functions that share 85 % of their tokens share
// about 61 % of their runs.
func (o Options) floor() float64 { return o.Threshold * o.Threshold * o.Threshold }

// asked reports whether clones of a kind are looked for.
func (o Options) asked(k Kind) bool { return slices.Contains(o.Kinds, k) }
