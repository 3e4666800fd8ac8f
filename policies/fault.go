package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxFaults bounds the faults of one ParseError: a reader fixes the first ones
// first, and a hostile file must not cause a report larger than itself.
const maxFaults = 50

// maxShown bounds the part of a source line that a fault shows, in characters.
const maxShown = 100

// Fault is one thing that is wrong with a policy text.
type Fault struct {
	File    string
	Line    int    // from 1
	Col     int    // from 1, in characters
	Message string // what is wrong, in one line
	Hint    string // what to do about it; may be empty
	Text    string // the source line
}

// ParseError is what Parse found wrong with a policy: every fault, up to 50,
// in the order of the text.
type ParseError struct {
	Faults []Fault
	More   int      // faults beyond those listed
	Files  []string // the further files that the policy names, as far as it was read
}

// Error lists all faults, each with its source line and a caret under the
// column.
func (e *ParseError) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// String is the fault as a reader of a terminal wants it: place and message,
// the source line with a caret under the column, and what to do.
func (f Fault) String() string {
	line, caret := excerpt(f.Text, f.Col)
	number := fmt.Sprint(f.Line)
	margin := strings.Repeat(" ", len(number))
	text := fmt.Sprintf("%s:%d:%d: %s\n  %s | %s\n  %s | %s", f.File, f.Line, f.Col, f.Message, number, line, margin, caret)
	if f.Hint != "" {
		text += "\n  " + margin + " = " + f.Hint
	}
	return text
}

// excerpt is the part of line around column col, and a line of the same shape
// with a caret under it. Tabs stay in both so that the caret stays in place.
func excerpt(line string, col int) (shown, caret string) {
	runes := []rune(line)
	at := min(max(col-1, 0), len(runes))
	from := 0
	if len(runes) > maxShown {
		from = max(0, min(at-maxShown/2, len(runes)-maxShown))
		runes = runes[from : from+maxShown]
	}
	var pad strings.Builder
	for i, r := range runes {
		if r != '\t' && !legible(r) {
			runes[i] = utf8.RuneError
		}
		if i < at-from {
			if r != '\t' {
				r = ' '
			}
			pad.WriteRune(r)
		}
	}
	return string(runes), pad.String() + "^"
}

// shown is a text of a policy in quotes, for a message.
func shown(s string) string { return `"` + Clip(s, maxShown) + `"` }

// newParseError sorts the faults by place and cuts their number.
func newParseError(faults []Fault) *ParseError {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	faults = slices.CompactFunc(faults, func(a, b Fault) bool {
		return a.File == b.File && a.Line == b.Line && a.Col == b.Col && a.Message == b.Message
	})
	if len(faults) <= maxFaults {
		return &ParseError{Faults: faults}
	}
	return &ParseError{Faults: faults[:maxFaults], More: len(faults) - maxFaults}
}

// suggest returns a hint with the known word that was probably meant by name, or
// with all known words.
func suggest(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest returns the word of known that differs from name in case only or by at
// most two letters (one where name is short), or "".
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
		if d < least && d < utf8.RuneCountInString(k) {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to turn a into b.
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
