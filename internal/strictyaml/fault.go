package strictyaml

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// MaxFaults is the most faults of one Report: a reader fixes the first faults first, and a
// hostile file must not cause a report larger than itself.
const MaxFaults = 50

// maxShown is the most characters of a source line that a fault shows.
const maxShown = 100

// Report contains the faults of one or more files, at most MaxFaults.
type Report struct {
	Faults []Fault
	More   int // number of faults that are not in Faults
}

// NewReport returns a report with the first of faults.
func NewReport(faults []Fault) Report {
	if len(faults) <= MaxFaults {
		return Report{Faults: faults}
	}
	return Report{Faults: faults[:MaxFaults], More: len(faults) - MaxFaults}
}

// Error lists all faults, each with its source line and a caret under the
// column.
func (r *Report) Error() string {
	var b strings.Builder
	for i, f := range r.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", r.More)
	}
	return b.String()
}

// Fault is one fault of a text.
type Fault struct {
	File    string
	Line    int    // number of the line, from 1
	Col     int    // number of the character in the line, from 1
	Message string // what is wrong, in one line of text
	Hint    string // how to fix it; may be empty
	Text    string // the source line
}

// String returns the fault for a terminal: place and message, the source line with a caret
// under the column, and the hint.
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

// excerpt returns the part of line around column col, and a second line with a caret under
// this column. Tabs stay in both lines, so that the caret is in the right place.
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
		if r != '\t' && !printable.InLine(r) {
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
