package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// lines returns the lines of a text, each with its newline.
func lines(text []byte) [][]byte {
	var all [][]byte
	for len(text) > 0 {
		i := bytes.IndexByte(text, '\n') + 1
		if i == 0 {
			i = len(text)
		}
		all, text = append(all, text[:i]), text[i:]
	}
	return all
}

// edit is a run of n lines: lines that both texts have (op is ' '), that only the old text
// has ('-'), or that only the new text has ('+').
type edit struct {
	op byte // ' ', '-', '+'
	n  int
}

// maxEdits bounds the search for the smallest difference: its time and memory grow with the
// square of the number of edits.
const maxEdits = 1500

// compareLines returns the edits that turn a into b: the fewest possible (E. Myers, An
// O(ND) Difference Algorithm and Its Variations, 1986). If more than maxEdits are needed,
// it replaces all lines between the common beginning and the common end.
func compareLines(a, b [][]byte) []edit {
	var head, tail int
	for head < len(a) && head < len(b) && bytes.Equal(a[head], b[head]) {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && bytes.Equal(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	edits := []edit{{' ', head}}
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	if middle, ok := shortest(a, b); ok {
		edits = append(edits, middle...)
	} else {
		edits = append(edits, edit{'-', len(a)}, edit{'+', len(b)})
	}
	return joinEdits(append(edits, edit{' ', tail}))
}

// joinEdits joins neighbouring edits with the same op, and leaves out empty ones.
func joinEdits(edits []edit) []edit {
	var all []edit
	for _, e := range edits {
		switch last := len(all) - 1; {
		case e.n == 0:
		case last >= 0 && all[last].op == e.op:
			all[last].n += e.n
		default:
			all = append(all, e)
		}
	}
	return all
}

// shortest returns the fewest edits that turn a into b, or false if more than maxEdits are
// needed. reach[k] is the furthest line of a that d edits can reach on the diagonal k, x -
// y = k.
func shortest(a, b [][]byte) ([]edit, bool) {
	most := min(len(a)+len(b), maxEdits)
	reach := make([]int32, 2*most+3)
	at := func(k int) *int32 { return &reach[k+most+1] }
	var trail [][]int32
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			x := int(*at(k + 1))
			if k > -d && (k == d || *at(k - 1) >= *at(k + 1)) {
				x = int(*at(k - 1)) + 1
			}
			if d == 0 {
				x = 0
			}
			y := x - k
			for x < len(a) && y >= 0 && y < len(b) && bytes.Equal(a[x], b[y]) {
				x, y = x+1, y+1
			}
			if *at(k) = int32(x); x >= len(a) && y >= len(b) {
				return retrace(trail, len(a), len(b)), true
			}
		}
		trail = append(trail, slices.Clone(reach[most+1-d:most+2+d]))
	}
	return nil, false
}

// retrace follows the path that was found back to its beginning, and returns its edits.
func retrace(trail [][]int32, x, y int) []edit {
	var back []edit
	for d := len(trail); d > 0; d-- {
		prev := trail[d-1] // reach after d-1 edits, on the diagonals -(d-1) to d-1
		at := func(k int) int {
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return int(prev[k+d-1])
		}
		k := x - y
		down := k == -d || k != d && at(k-1) < at(k+1) // true for an insertion, false for a deletion
		px := at(k-1) + 1
		op := byte('-')
		if down {
			px, op = at(k+1), '+'
		}
		// This edit led the path to (px, px-k), from where it followed equal lines.
		back = append(back, edit{' ', x - px}, edit{op, 1})
		x, y = px, px-k
		if down {
			y--
		} else {
			x--
		}
	}
	back = append(back, edit{' ', x})
	slices.Reverse(back)
	return back
}

// contextLines is the number of unchanged lines that are shown around a change.
const contextLines = 3

// hunks writes the difference of two texts in the format of diff -u.
func hunks(out *strings.Builder, old, now []byte) {
	a, b := lines(old), lines(now)
	edits := compareLines(a, b)
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i++
			continue
		}
		// A hunk contains all changes with at most twice contextLines between them.
		j := i + 1
		for j < len(edits) && (edits[j].op != ' ' || j+1 < len(edits) && edits[j].n <= 2*contextLines) {
			j++
		}
		hunk(out, a, b, edits, i, j)
		i = j
	}
}

// hunk writes the edits from i to j, with the unchanged lines around them.
func hunk(out *strings.Builder, a, b [][]byte, edits []edit, i, j int) {
	x, y := 0, 0
	for _, e := range edits[:i] {
		if e.op != '+' {
			x += e.n
		}
		if e.op != '-' {
			y += e.n
		}
	}
	part := slices.Clone(edits[i:j])
	if i > 0 {
		n := min(edits[i-1].n, contextLines)
		part = append([]edit{{' ', n}}, part...)
		x, y = x-n, y-n
	}
	if j < len(edits) {
		part = append(part, edit{' ', min(edits[j].n, contextLines)})
	}
	var olds, news int
	for _, e := range part {
		if e.op != '+' {
			olds += e.n
		}
		if e.op != '-' {
			news += e.n
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", extent(x, olds), extent(y, news))
	for _, e := range part {
		for range e.n {
			line := b
			at := y
			if e.op == '-' {
				line, at = a, x
			}
			out.WriteByte(e.op)
			out.Write(line[at])
			if text := line[at]; text[len(text)-1] != '\n' {
				out.WriteString("\n\\ No newline at end of file\n")
			}
			if e.op != '+' {
				x++
			}
			if e.op != '-' {
				y++
			}
		}
	}
}

// extent formats the range of a hunk's lines in a file, for example "3,7".
func extent(at, n int) string {
	if n > 0 {
		at++
	}
	if n == 1 {
		return fmt.Sprint(at)
	}
	return fmt.Sprintf("%d,%d", at, n)
}

// pathError is an error about a path that a box may have chosen. Its text has the path once,
// quoted.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return quotePath(e.path) + ": " + cause(e.err) }

func (e *pathError) Unwrap() error { return e.err }

// about returns an error as one about a path, unless it is about a path below that already.
func about(path string, err error) error {
	if _, ok := errors.AsType[*pathError](err); ok {
		return err
	}
	return &pathError{path, err}
}

// cause returns the text of an error without its path, which is printed separately.
func cause(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// quotePath returns a path as git shows it: in quotes, escaped as in C, if it contains
// characters that a terminal or a parser could misread.
func quotePath(path string) string {
	plain := utf8.ValidString(path)
	for _, r := range path {
		if r == '"' || r == '\\' || !printable.Rune(r) {
			plain = false
		}
	}
	if plain {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
