package pin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"belljar.dev/internal/printable"
)

// Bounds of a walk through a definition. Both are far above what real ones have.
const (
	maxLeaves = 20_000
	maxPath   = 400 // bytes of a path that is shown
)

// leaf is a value without further values in it, and its path in the definition.
type leaf struct {
	path  string // cut to maxPath
	value any    // a string, a json.Number, a bool, nil, or an empty array or object
}

// walk is a definition taken apart for people.
type walk struct {
	leaves []leaf // in the order of their paths
	names  []string
	cut    bool // there are more leaves

	seen map[string]struct{} // of names
}

// walked takes a canonical text apart, without the kind.
func walked(text []byte) walk {
	w := walk{seen: make(map[string]struct{})}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var pair []any
	if d.Decode(&pair) == nil && len(pair) == 2 {
		w.value("", pair[1])
	}
	return w
}

func (w *walk) value(path string, value any) {
	if len(path) > maxPath { // the product of deep names and many leaves has no bound
		path = strings.ToValidUTF8(path[:maxPath], "") + "…"
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if w.cut {
				return
			}
			if _, twice := w.seen[name]; !twice {
				w.seen[name] = struct{}{}
				w.names = append(w.names, name)
			}
			w.value(strings.TrimPrefix(path+"."+step(name), "."), v[name])
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, element := range v {
			if w.cut {
				return
			}
			w.value(fmt.Sprintf("%s[%d]", path, i), element)
		}
		if len(v) > 0 {
			return
		}
	}
	if w.cut = w.cut || len(w.leaves) == maxLeaves; !w.cut {
		w.leaves = append(w.leaves, leaf{path, value})
	}
}

// step is the name of a member as one step of a path.
func step(name string) string {
	odd := func(r rune) bool { return strings.ContainsRune(" .[]:\"\\", r) || !printable.InLine(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return quoted(name)
	}
	return name
}

// quoted is a text in quotes, on one line, with every character visible that does not show as
// itself. A space shows; other white space, hidden characters and those that change the
// direction of others stand as \u{200b}.
func quoted(text string) string {
	out := []byte{'"'}
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\t':
			out = append(out, `\t`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\n':
			out = append(out, `\n`...)
		case printable.InLine(r):
			out = append(out, string(r)...)
		default:
			out = fmt.Appendf(out, `\u{%04x}`, r)
		}
	}
	return string(append(out, '"'))
}
