package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/order"
	"belljar.dev/internal/strictyaml"
)

// maxShown bounds a text of a policy in a message, in characters.
const maxShown = 100

// Fault is one fault of a policy text.
type Fault = strictyaml.Fault

// ParseError contains the first 50 faults that Parse found in a policy, by file, line and
// column.
type ParseError struct {
	strictyaml.Report
	Files []string // further files that the policy names, as far as the policy was read
}

// newParseError sorts the faults by place and reports each fault once.
func newParseError(faults []Fault) *ParseError {
	order.By(faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	faults = slices.CompactFunc(faults, func(a, b Fault) bool {
		return a.File == b.File && a.Line == b.Line && a.Col == b.Col && a.Message == b.Message
	})
	return &ParseError{Report: strictyaml.NewReport(faults)}
}

// suggest returns a hint with the known word that was probably meant by name, or
// with all known words.
func suggest(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "use one of: " + strings.Join(known, ", ")
}

// Nearest returns the word of known that differs from name only in case or by at most two
// letters (one letter if name is short), or "".
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 3
	if utf8.RuneCountInString(name) < 5 {
		least = 2
	}
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d < least && d < utf8.RuneCountInString(k) { // not if all letters would be replaced
			best, least = k, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	last := make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			change := last[j-1]
			if x[i-1] != y[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}

// near returns a hint with the word that was probably meant, or "".
func near(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}
