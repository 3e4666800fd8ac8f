package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/order"
)

// maxFaults bounds the faults of one file: a reader fixes the first faults first, and a
// hostile file must not cause a report that is larger than the file.
const maxFaults = 50

// Level is the severity of a fault.
type Level int

// The levels of faults. An error prevents an entry or a file from being loaded, a warning
// does not.
const (
	Error Level = iota
	Warning
)

// String returns the level as reports show it.
func (l Level) String() string {
	if l == Warning {
		return "warning"
	}
	return "error"
}

// Fault is one mistake in a file. It names keys and never shows a value or a line of the
// file: these files contain people's tokens, and faults go to logs.
type Fault struct {
	File    string
	Line    int // from 1
	Col     int // from 1, in characters
	Level   Level
	Entry   string // server that is not loaded because of the fault; empty for a fault of the whole file, and for a warning
	Message string
	Hint    string // what to do about the fault; may be empty
}

// String returns the fault in the form for a terminal.
func (f Fault) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Col, f.Level, f.Message)
	if f.Hint != "" {
		text += "\n  = " + f.Hint
	}
	return text
}

// Failed reports whether one of faults keeps the whole file from being loaded.
func Failed(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Level == Error && f.Entry == "" })
}

// place is a position in a text. Both numbers begin at 1.
type place struct{ line, col int }

// report gathers the faults of one file.
type report struct {
	file   string
	data   []byte
	entry  string // name of the entry that is being read
	faults []Fault
	bad    bool // the file as a whole has an error
	worse  bool // the entry, or the file, has an error
	more   int  // number of faults beyond maxFaults
}

// wrong adds an error of the entry that is being read, or of the file if no entry is being
// read.
func (r *report) wrong(at place, hint, format string, args ...any) {
	if r.entry == "" {
		r.bad = true
	}
	r.worse = true
	r.add(Fault{Level: Error, Entry: r.entry}, at, hint, format, args...)
}

// warn adds a warning.
func (r *report) warn(at place, hint, format string, args ...any) {
	r.add(Fault{Level: Warning}, at, hint, format, args...)
}

func (r *report) add(f Fault, at place, hint, format string, args ...any) {
	if len(r.faults) >= maxFaults {
		r.more++
		return
	}
	f.File, f.Line, f.Col, f.Hint = r.file, max(at.line, 1), max(at.col, 1), hint
	f.Message = fmt.Sprintf(format, args...)
	if r.entry != "" {
		f.Message = fmt.Sprintf("server %s: %s", quoted(r.entry), f.Message)
	}
	r.faults = append(r.faults, f)
}

// raw returns a value as it is written in the file.
func (r *report) raw(n *node) string {
	var b strings.Builder
	for _, s := range n.spans {
		b.Write(r.data[s.from:s.to])
	}
	return strings.TrimSpace(b.String())
}

// sorted returns the faults in the order of their places.
func (r *report) sorted() []Fault {
	order.By(r.faults, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if r.more > 0 {
		last := r.faults[len(r.faults)-1]
		last.Level, last.Entry, last.Hint = Warning, "", ""
		last.Message = fmt.Sprintf("and %d more faults", r.more)
		r.faults = append(r.faults, last)
	}
	return r.faults
}

// quoted returns a name as a fault shows it: shortened, and without effect on a terminal.
func quoted(name string) string {
	if runes := []rune(name); len(runes) > 64 {
		name = string(runes[:64]) + "..."
	}
	return fmt.Sprintf("%+q", name)
}

// listed returns a list of names as a fault shows it.
func listed(names []string) string {
	shown := make([]string, 0, len(names))
	for i, n := range names {
		if i == 8 {
			shown = append(shown, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		shown = append(shown, quoted(n))
	}
	return strings.Join(shown, ", ")
}
