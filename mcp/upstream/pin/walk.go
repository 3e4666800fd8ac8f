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

// Bounds of a walk through a definition. Both are far above those of real definitions.
const (
	maxLeaves = 20_000
	maxPath   = 400 // bytes of a shown path
)

// leaf is a value that contains no further values, with its path in the definition.
type leaf struct {
	path  string // path, cut to maxPath bytes
	value any    // a string, a json.Number, a bool, nil, or an empty array or object
}

// walk contains the values and names of a definition.
type walk struct {
	leaves []leaf // leaves in the order of their paths
	names  []string
	cut    bool // the definition has more leaves

	seen map[string]struct{} // names that are in names
}

// walked returns the walk of a canonical text, without the kind.
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
	if len(path) > maxPath { // otherwise deep names and many leaves together would need unbounded memory
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

// step returns the name of a member as one step of a path.
func step(name string) string {
	odd := func(r rune) bool { return strings.ContainsRune(" .[]:\"\\", r) || !printable.InLine(r) }
	if name == "" || strings.ContainsFunc(name, odd) {
		return quoted(name)
	}
	return name
}

// quoted returns a text in quotes, on one line, with visible hidden characters. A space
// stays; other white space, hidden characters and characters that change the direction of
// text become escapes such as \u{200b}.
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
