package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"

	"belljar.dev/internal/printable"
)

// columns returns the width of the terminal w; 0 if w is a file or a pipe, whose lines may
// have any length. The variable COLUMNS overrides the width of the terminal.
func columns(w io.Writer) int {
	f, ok := printable.Raw(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// tableWriter lines up cells that are separated by tabs, with one row on each line. If the
// terminal is too narrow for the table, long cells continue in the next line, and are
// broken only between words.
type tableWriter struct {
	out   io.Writer
	width int // width of the terminal; 0 for a file or a pipe
	text  bytes.Buffer
}

// tableGap is the number of spaces between two columns.
const tableGap = 2

func newTable(out io.Writer) *tableWriter { return &tableWriter{out: out, width: columns(out)} }

// Write adds a part of the rows.
func (t *tableWriter) Write(text []byte) (int, error) { return t.text.Write(text) }

// Flush writes the table.
func (t *tableWriter) Flush() error {
	_, err := io.WriteString(t.out, laidOut(t.text.String(), t.width))
	t.text.Reset()
	return err
}

// laidOut lines up the columns of rows, in the form of text/tabwriter. If a line would be
// longer than width characters, its cells are broken to fit as far as the length of their
// words allows it. A width of zero sets no bound.
func laidOut(text string, width int) string {
	var whole strings.Builder
	w := tabwriter.NewWriter(&whole, 0, 0, tableGap, ' ', 0)
	_, _ = io.WriteString(w, text) // a write to memory cannot fail
	_ = w.Flush()
	if width <= 0 || longest(whole.String()) <= width {
		return whole.String()
	}
	var b, block strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "\t") {
			block.WriteString(line)
			continue
		}
		// A line without columns ends a table.
		b.WriteString(squeezed(block.String(), width))
		block.Reset()
		b.WriteString(hang("", line, 0, width))
	}
	b.WriteString(squeezed(block.String(), width))
	return b.String()
}

// longest returns the length of the longest line, in characters.
func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return n
}

// squeezed returns one table, at most width characters wide if its words allow it.
func squeezed(text string, width int) string {
	var rows [][]string
	var wide, least []int // for each column: length of its longest cell, and of its longest word
	for line := range strings.Lines(text) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rows = append(rows, row)
		for i, cell := range row {
			if i == len(wide) {
				wide, least = append(wide, 0), append(least, 0)
			}
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
			for word := range strings.FieldsSeq(cell) {
				least[i] = max(least[i], utf8.RuneCountInString(word))
			}
		}
	}
	narrow(wide, least, width)
	var b strings.Builder
	for _, row := range rows {
		cells := make([][]string, len(row))
		height := 1
		for i, cell := range row {
			cells[i] = brokenAt(cell, wide[i])
			height = max(height, len(cells[i]))
		}
		for n := range height {
			var line strings.Builder
			for i := range cells {
				part := ""
				if n < len(cells[i]) {
					part = cells[i][n]
				}
				line.WriteString(part)
				if i < len(cells)-1 {
					line.WriteString(strings.Repeat(" ", max(0, wide[i]-utf8.RuneCountInString(part))+tableGap))
				}
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	return b.String()
}

// narrow makes the widest columns narrower until the table fits into width, but no column
// narrower than its longest word.
func narrow(wide, least []int, width int) {
	sum := tableGap * (len(wide) - 1)
	for _, w := range wide {
		sum += w
	}
	for ; sum > width; sum-- {
		widest := -1
		for i, w := range wide {
			if w > least[i] && (widest < 0 || w > wide[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		wide[widest]--
	}
}

// brokenAt splits a cell into lines of at most width characters. A longer word has a line
// of its own.
func brokenAt(cell string, width int) []string {
	if utf8.RuneCountInString(cell) <= width {
		return []string{cell}
	}
	// The blanks before the first word are its indent.
	lines := strings.Split(strings.TrimSuffix(hang("", cell, 0, width), "\n"), "\n")
	indent := cell[:len(cell)-len(strings.TrimLeft(cell, " "))]
	lines[0] = indent + lines[0]
	return slices.Clip(lines)
}

// hang writes text to the right of left, beginning at a column, or below left if left is
// too long. It breaks text between words, and never inside a word.
func hang(left, text string, column, width int) string {
	var b strings.Builder
	b.WriteString(left)
	at := utf8.RuneCountInString(left)
	if column > 0 && at > column-2 {
		b.WriteByte('\n')
		at = 0
	}
	first := true
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case first:
			b.WriteString(strings.Repeat(" ", column-at))
			at = column
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
		first = false
	}
	b.WriteByte('\n')
	return b.String()
}
