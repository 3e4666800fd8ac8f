package toolkit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// text is the text of a result, line by line, up to a number of characters. Lines
// beyond it are counted.
type text struct {
	b    strings.Builder
	most int
	used int
	lost int // lines
}

// line adds a line.
func (t *text) line(format string, args ...any) {
	s := format
	if len(args) > 0 {
		s = fmt.Sprintf(format, args...)
	}
	n := utf8.RuneCountInString(s) + 1
	if t.lost > 0 || t.used+n > t.most {
		t.lost++
		return
	}
	t.used += n
	t.b.WriteString(s)
	t.b.WriteByte('\n')
}

// String returns the text. The last line says how many lines were left out.
func (t *text) String() string {
	s := t.b.String()
	if t.lost > 0 {
		s += fmt.Sprintf("... %s more, in the whole result\n", count(t.lost, "line"))
	}
	return s
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// short is a number with at most four places that mean something.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// decimal is a number as people write it.
func decimal(v float64) string {
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return short(v)
}

// quote is the beginning of a value of an argument, in quotes.
func quote(s string, most int) string { return strconv.Quote(clip(s, most)) }

// clip is at most n bytes of a text, whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return printable.Head(s, n) + "..."
}

// shown is a path or a name as a line can have it: a name of a file may hold line
// breaks and bytes that are no text.
func shown(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// folded writes paths with what each shares with the one before it left out, where
// that is shorter: a/b/c.go, then .../d.go.
type folded struct{ dir string }

func (f *folded) path(p string) string {
	dir, base := "", p
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		dir, base = p[:i+1], p[i+1:]
	}
	if dir == f.dir && len(dir) > len(".../") {
		return ".../" + shown(base)
	}
	f.dir = dir
	return shown(p)
}

// shorten keeps the first elements of a list, at most that many, and says how many more it has.
func shorten[T any](list []T, most int) (kept []T, more int) {
	kept = list[:min(len(list), most)]
	return kept, len(list) - len(kept)
}

// round is a number with some decimal places.
func round(v float64, places int) float64 {
	scale := math.Pow10(places)
	return math.Round(v*scale) / scale
}

// gapLine is a gap on one line.
func gapLine(path, field, reason string) string {
	if path == "" {
		return field + ": " + reason
	}
	return fmt.Sprintf("%s of %s: %s", field, shown(path), reason)
}
