package config

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// readTOML reads TOML. The library's decoder checks the rules of the language, above all
// which tables may be opened twice; the tree with its places is made of the parser below it.
func (r *report) readTOML(data []byte) *node {
	var checked map[string]any
	if err := toml.Unmarshal(data, &checked); err != nil {
		at, message := place{1, 1}, "it cannot be read"
		if bad := (*toml.DecodeError)(nil); errors.As(err, &bad) {
			at.line, at.col = bad.Position()
			message = strings.TrimPrefix(bad.Error(), "toml: ")
		}
		r.wrong(at, "check the quotes, brackets and table names of this line", "not TOML: %s", message)
		return nil
	}
	t := &tomlReader{report: r, cursor: newCursor(data)}
	t.parser.Reset(data)
	top := &node{sort: object, at: place{1, 1}}
	in := []*node{top} // the table that is open, and those around it
	start := 0         // of the header that opened it
	leave := func(end int) {
		for _, n := range in[1:] {
			n.raw += string(data[start:end])
		}
	}
	for t.parser.NextExpression() {
		e := t.parser.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			t.keyValue(in[len(in)-1], e, len(in))
		case unstable.Table, unstable.ArrayTable:
			key := e.Key()
			key.Next()
			begin := strings.LastIndexByte(string(data[:key.Node().Raw.Offset]), '\n') + 1
			leave(begin)
			start = begin
			in = t.table(top, e)
		}
	}
	leave(len(data))
	return top
}

type tomlReader struct {
	report *report
	cursor *cursor
	parser unstable.Parser
}

// table opens the table of a header and returns it with the tables around it.
func (t *tomlReader) table(top *node, e *unstable.Node) []*node {
	in := []*node{top}
	for key := e.Key(); key.Next(); {
		part := key.Node()
		at := t.cursor.at(int(part.Raw.Offset))
		if !t.report.deep(at, len(in)) {
			return in
		}
		here := in[len(in)-1]
		next := here.get(string(part.Data))
		switch {
		case next == nil && key.IsLast() && e.Kind == unstable.ArrayTable:
			next = &node{sort: list, at: at}
			here.fields = append(here.fields, field{string(part.Data), at, next})
		case next == nil:
			next = &node{sort: object, at: at}
			here.fields = append(here.fields, field{string(part.Data), at, next})
		}
		if next.sort == list { // an array of tables: its last one is meant
			if key.IsLast() && e.Kind == unstable.ArrayTable || len(next.items) == 0 {
				next.items = append(next.items, &node{sort: object, at: at})
			}
			next = next.items[len(next.items)-1]
		}
		in = append(in, next)
	}
	return in
}

// keyValue puts a value below a table, by a key that may have dots.
func (t *tomlReader) keyValue(into *node, e *unstable.Node, depth int) {
	raw := string(t.parser.Raw(e.Raw))
	for key := e.Key(); key.Next(); depth++ {
		part := key.Node()
		at := t.cursor.at(int(part.Raw.Offset))
		if !t.report.deep(at, depth) {
			return
		}
		if key.IsLast() {
			value := t.value(e.Value(), at, depth+1)
			value.raw = raw
			into.fields = append(into.fields, field{string(part.Data), at, value})
			return
		}
		next := into.get(string(part.Data))
		if next == nil {
			next = &node{sort: object, at: at}
			into.fields = append(into.fields, field{string(part.Data), at, next})
		}
		next.raw += raw + "\n"
		into = next
	}
}

// value is a value that begins at or behind a place.
func (t *tomlReader) value(e *unstable.Node, at place, depth int) *node {
	if e.Raw.Length > 0 {
		at = t.cursor.at(int(e.Raw.Offset))
	}
	n := &node{at: at, text: string(e.Data)}
	if !t.report.deep(at, depth) {
		return n
	}
	switch e.Kind {
	case unstable.Array:
		n.sort = list
		for child := e.Children(); child.Next(); {
			n.items = append(n.items, t.value(child.Node(), at, depth+1))
		}
	case unstable.InlineTable:
		n.sort = object
		for child := e.Children(); child.Next(); {
			t.keyValue(n, child.Node(), depth+1)
		}
	case unstable.String:
		n.sort = text
	case unstable.Bool:
		n.sort = boolean
	default:
		n.sort = number
	}
	return n
}
