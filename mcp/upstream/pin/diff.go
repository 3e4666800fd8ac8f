package pin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a diff.
const (
	maxDiff = 400 // lines
	maxLine = 300 // characters of one; what is longer takes several
	maxRun  = 8   // characters that are named by their numbers
)

// Diff shows how a definition differs from another one, for people. Each is a canonical text,
// or nil if it does not exist or was not kept. Every value stands on a line of its own, behind
// its path, with characters visible that hide or look like others.
//
//   - description: "Read a file"
//   - description: "Read а file"
//     character 6: "a" (U+0061) became "а" (U+0430)
func Diff(before, after []byte) string {
	text, _ := diff(before, after)
	return text
}

// diff is Diff, and reports whether that has all of the difference.
func diff(before, after []byte) (text string, whole bool) {
	old, now := walked(before), walked(after)
	var d differ
	there, left := byPath(now.leaves), byPath(old.leaves)
	for _, path := range paths(old.leaves) {
		if l, ok := there[path]; ok {
			d.change(left[path], l)
		} else {
			d.lines('-', left[path])
		}
	}
	for _, path := range paths(now.leaves) {
		if _, ok := left[path]; !ok {
			d.lines('+', there[path])
		}
	}
	if old.cut || now.cut {
		d.say("  there are more than %d values, and the rest is not shown", maxLeaves)
	}
	if d.left > 0 {
		fmt.Fprintf(&d.out, "  %d further lines are not shown\n", d.left)
	}
	return d.out.String(), d.left == 0 && !old.cut && !now.cut
}

// paths are the paths of leaves. Of paths that were cut and look alike now, each later one has
// a number.
func paths(leaves []leaf) []string {
	all := make([]string, len(leaves))
	count := make(map[string]int, len(leaves))
	for i, l := range leaves {
		all[i] = l.path
		if count[l.path]++; count[l.path] > 1 {
			all[i] = fmt.Sprintf("%s #%d", l.path, count[l.path])
		}
	}
	return all
}

func byPath(leaves []leaf) map[string]leaf {
	all := make(map[string]leaf, len(leaves))
	for i, path := range paths(leaves) {
		all[path] = leaves[i]
	}
	return all
}

// differ writes a diff.
type differ struct {
	out     strings.Builder
	written int
	left    int // lines that were not written
}

func (d *differ) say(format string, args ...any) {
	if d.written == maxDiff {
		d.left++
		return
	}
	d.written++
	fmt.Fprintf(&d.out, format+"\n", args...)
}

// lines shows a value that is only on one side.
func (d *differ) lines(sign rune, l leaf) {
	for i, line := range linesOf(l.value) {
		d.lineOf(sign, at(l, i), line)
	}
}

// lineOf shows a line that is only on one side.
func (d *differ) lineOf(sign rune, path string, l line) {
	shown := []rune(l.shown)
	d.text(sign, path, shown, 0, len(shown))
}

// text shows the part of a line from one character to another, and some of what is around it.
// A part that is long takes several lines: a person decides about all of it, and behind a
// change without harm there may be another one.
func (d *differ) text(sign rune, path string, all []rune, from, to int) {
	if len(all) <= maxLine {
		from, to = 0, len(all)
	} else {
		from = max(0, min(from-maxLine/4, len(all)-maxLine))
		to = min(len(all), max(to+maxLine/4, from+maxLine))
	}
	for first := true; first || from < to; first = false {
		end := min(to, from+maxLine)
		before, after := "", ""
		if from > 0 {
			before = "…"
		}
		if end < len(all) {
			after = "…"
		}
		d.say("%c %s: %s%s%s", sign, path, before, string(all[from:end]), after)
		from = end
	}
}

// change shows a value that is on both sides, if it differs. Of a text of several lines it
// shows those between the first and the last that differ.
func (d *differ) change(old, now leaf) {
	before, after := linesOf(old.value), linesOf(now.value)
	skip, before, after := apart(before, after)
	for i := range max(len(before), len(after)) {
		var was, is line
		both := i < len(before) && i < len(after)
		if both {
			if was, is = before[i], after[i]; was == is {
				continue
			}
			x, y := []rune(was.shown), []rune(is.shown)
			from, a, b := apart(x, y)
			d.text('-', at(old, skip+i), x, from, from+len(a))
			d.text('+', at(now, skip+i), y, from, from+len(b))
		} else if i < len(before) {
			d.lineOf('-', at(old, skip+i), before[i])
		} else {
			d.lineOf('+', at(now, skip+i), after[i])
		}
		if both && was.text && is.text {
			if note := became(was.raw, is.raw); note != "" {
				d.say("    %s", note)
			}
		}
	}
}

// at is the path of a leaf, with the line if the value is a text of several lines.
func at(l leaf, line int) string {
	path := cmp.Or(l.path, "text")
	if text, ok := l.value.(string); ok && strings.Contains(text, "\n") {
		return fmt.Sprintf("%s line %d", path, line+1)
	}
	return path
}

// line is one line of a value.
type line struct {
	raw   string
	shown string // visible
	text  bool   // it is of a text, which shows in quotes: so do spaces at its ends
}

func linesOf(value any) (lines []line) {
	text, ok := value.(string)
	if !ok {
		raw, err := json.Marshal(value)
		if err != nil {
			raw = []byte("?")
		}
		return []line{{string(raw), string(raw), false}}
	}
	for raw := range strings.SplitSeq(text, "\n") {
		lines = append(lines, line{raw, quoted(raw), true})
	}
	return lines
}

// apart returns with how many elements x and y begin alike, and what of them is between that
// and the elements with which they end alike.
func apart[T comparable](x, y []T) (from int, _, _ []T) {
	for from < min(len(x), len(y)) && x[from] == y[from] {
		from++
	}
	x, y = x[from:], y[from:]
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return from, x, y
}

// became says what two lines differ in, by the numbers of the characters; empty if the lines
// themselves show it.
func became(was, is string) string {
	from, x, y := apart([]rune(was), []rune(is))
	if (len(x) > maxRun || len(y) > maxRun) && !slices.ContainsFunc(slices.Concat(x, y), foreignLetter) {
		return ""
	}
	return fmt.Sprintf("character %d: %s became %s", from+1, pointed(x), pointed(y))
}

// foreignLetter reports whether a character may be taken for another one, or for nothing.
func foreignLetter(r rune) bool { return r < ' ' || r > '~' }

// pointed is characters in quotes, with the numbers of those that may be taken for others.
func pointed(runes []rune) string {
	if len(runes) == 0 {
		return "nothing"
	}
	more := ""
	if len(runes) > maxRun {
		runes, more = runes[:maxRun], " and so on"
	}
	var points []string
	for _, r := range runes {
		if foreignLetter(r) || len(runes) == 1 || strings.TrimSpace(string(runes)) == "" {
			points = append(points, fmt.Sprintf("U+%04X", r))
		}
	}
	text := quoted(string(runes))
	if points != nil {
		text += " (" + strings.Join(points, " ") + ")"
	}
	return text + more
}
