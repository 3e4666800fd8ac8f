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
	maxDiff = 400 // most lines
	maxLine = 300 // characters of one line; longer text takes several lines
	maxRun  = 8   // most characters that are listed with their numbers
)

// Diff shows for people how a definition differs from another one. Each definition is a
// canonical text, or nil if it does not exist or was not kept. Every value is on a line of
// its own, after its path. Characters that are hidden or look like others are made visible.
//
//   - description: "Read a file"
//   - description: "Read а file"
//     character 6: "a" (U+0061) became "а" (U+0430)
func Diff(before, after []byte) string {
	text, _ := diff(before, after)
	return text
}

// diff is Diff. whole reports whether the text shows the whole difference.
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
		d.say("  there are more than %d values, and the others are not shown", maxLeaves)
	}
	if d.left > 0 {
		fmt.Fprintf(&d.out, "  %d further lines are not shown\n", d.left)
	}
	return d.out.String(), d.left == 0 && !old.cut && !now.cut
}

// paths returns the paths of leaves. If paths that were cut look alike, each later one gets
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
	left    int // number of lines that were not written
}

func (d *differ) say(format string, args ...any) {
	if d.written == maxDiff {
		d.left++
		return
	}
	d.written++
	fmt.Fprintf(&d.out, format+"\n", args...)
}

// lines shows a value that only one side has.
func (d *differ) lines(sign rune, l leaf) {
	for i, line := range linesOf(l.value) {
		d.lineOf(sign, at(l, i), line)
	}
}

// lineOf shows a line that only one side has.
func (d *differ) lineOf(sign rune, path string, l line) {
	shown := []rune(l.shown)
	d.text(sign, path, shown, 0, len(shown))
}

// text shows the part of a line between two characters, and some text around it. A long
// part takes several lines: a person decides about all of it, and a harmless change may be
// followed by another one.
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

// change shows a value that both sides have, if it differs. Of a text with several lines it
// shows the lines between the first and the last that differ.
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

// at returns the path of a leaf, with the number of the line if the value is a text with
// several lines.
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
	shown string // the line with visible hidden characters
	text  bool   // the value is a string, which is shown in quotes, so that spaces at its ends are visible
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

// apart returns the number of equal elements at the beginning of x and y, and the parts of
// x and y without their equal beginnings and ends.
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

// became returns a text about how two lines differ, with the numbers of the characters;
// empty if the lines show that by themselves.
func became(was, is string) string {
	from, x, y := apart([]rune(was), []rune(is))
	if (len(x) > maxRun || len(y) > maxRun) && !slices.ContainsFunc(slices.Concat(x, y), foreignLetter) {
		return ""
	}
	return fmt.Sprintf("character %d: %s became %s", from+1, pointed(x), pointed(y))
}

// foreignLetter reports whether a character may look like another one, or be invisible.
func foreignLetter(r rune) bool { return r < ' ' || r > '~' }

// pointed returns characters in quotes, with the numbers of those that may look like
// others.
func pointed(runes []rune) string {
	if len(runes) == 0 {
		return "nothing"
	}
	more := ""
	if len(runes) > maxRun {
		runes, more = runes[:maxRun], " and more"
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
