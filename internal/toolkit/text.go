package toolkit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// text is the text of a result, line by line, up to a number of characters. Lines that do
// not fit are counted.
type text struct {
	b    strings.Builder
	most int
	used int
	lost int // number of lines that did not fit
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

// String returns the text. If lines were left out, the last line states how many.
func (t *text) String() string {
	s := t.b.String()
	if t.lost > 0 {
		s += fmt.Sprintf("... %s more; the whole result has them\n", count(t.lost, "line"))
	}
	return s
}

// count returns a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// short returns a number with at most four significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// decimal returns a number as people write it.
func decimal(v float64) string {
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return short(v)
}

// quote returns the beginning of the value of an argument, in quotes.
func quote(s string, most int) string { return strconv.Quote(clip(s, most)) }

// clip returns at most n bytes of a text, in whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return printable.Head(s, n) + "..."
}

// shown returns a path or a name for use in a line. The name of a file may contain line
// breaks and bytes that are not text.
func shown(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// folded writes paths. If it is shorter, it leaves out the directory that a path shares
// with the path before it: a/b/c.go, then .../d.go.
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

// shorten returns the first elements of a list, and the number of the others. It returns a
// longer list cut to the length most.
func shorten[T any](list []T, most int) (kept []T, more int) {
	kept = list[:min(len(list), most)]
	return kept, len(list) - len(kept)
}

// round returns a number rounded to some decimal places.
func round(v float64, places int) float64 {
	scale := math.Pow10(places)
	return math.Round(v*scale) / scale
}

// gapLine returns a gap as one line.
func gapLine(path, field, reason string) string {
	if path == "" {
		return field + ": " + reason
	}
	return fmt.Sprintf("%s of %s: %s", field, shown(path), reason)
}
