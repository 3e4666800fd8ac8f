package config

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// readTOML reads TOML. The library's parser makes the tree with its places; the library's
// decoder checks the rules of the language, mainly which tables may be opened twice. The
// decoder compares each key with the earlier ones, so the keys are counted first.
func (r *report) readTOML(data []byte) *node {
	t := &tomlReader{report: r, cursor: newCursor(data), inside: map[*node]map[string]*node{}}
	t.parser.Reset(data)
	top := &node{sort: object, at: place{1, 1}}
	in := []*node{top} // the open table, with the tables around it before it
	start := 0         // offset of the header that opened the table
	leave := func(end int) {
		for _, n := range in[1:] {
			n.spans = append(n.spans, span{start, end})
		}
	}
	for t.parser.NextExpression() && t.keys <= maxTOMLKeys {
		e := t.parser.Expression()
		if e.Kind == unstable.KeyValue {
			t.keyValue(in[len(in)-1], e, len(in))
		}
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			key := e.Key()
			key.Next()
			header := bytes.LastIndexByte(data[:key.Node().Raw.Offset], '\n') + 1
			leave(header)
			start = header
			in = t.table(top, e)
		}
	}
	leave(len(data))
	if t.keys > maxTOMLKeys {
		r.wrong(place{1, 1}, "", "the file has more than the %d keys and tables that are read", maxTOMLKeys)
		return nil
	}
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
	return top
}

type tomlReader struct {
	report *report
	keys   int
	cursor *cursor
	parser unstable.Parser
	inside map[*node]map[string]*node // fields of each table by their keys
}

// child returns the value of a key. If the key is new, of makes its value.
func (t *tomlReader) child(n *node, key *unstable.Node, at place, of func() *node) *node {
	if is := t.inside[n][string(key.Data)]; is != nil {
		return is
	}
	if t.inside[n] == nil {
		t.inside[n] = map[string]*node{}
	}
	is := of()
	t.inside[n][string(key.Data)] = is
	n.fields = append(n.fields, field{string(key.Data), at, is})
	return is
}

// table opens the table that a header names. It returns the table, with the tables around
// it before it.
func (t *tomlReader) table(top *node, e *unstable.Node) []*node {
	in := []*node{top}
	for key := e.Key(); key.Next(); {
		at := t.cursor.at(int(key.Node().Raw.Offset))
		t.keys++
		if !t.report.deep(at, len(in)) {
			return in
		}
		array := key.IsLast() && e.Kind == unstable.ArrayTable
		next := t.child(in[len(in)-1], key.Node(), at, func() *node {
			if array {
				return &node{sort: list, at: at}
			}
			return &node{sort: object, at: at}
		})
		if next.sort == list { // the header means the last table of an array
			if array || len(next.items) == 0 {
				next.items = append(next.items, &node{sort: object, at: at})
			}
			next = next.items[len(next.items)-1]
		}
		in = append(in, next)
	}
	return in
}

// keyValue puts a value into a table, under a key that may have dots.
func (t *tomlReader) keyValue(into *node, e *unstable.Node, depth int) {
	whole := span{int(e.Raw.Offset), int(e.Raw.Offset + e.Raw.Length)}
	for key := e.Key(); key.Next(); depth++ {
		at := t.cursor.at(int(key.Node().Raw.Offset))
		t.keys++
		if !t.report.deep(at, depth) {
			return
		}
		if key.IsLast() {
			t.child(into, key.Node(), at, func() *node {
				value := t.value(e.Value(), at, depth+1)
				value.spans = []span{whole}
				return value
			})
			return
		}
		into = t.child(into, key.Node(), at, func() *node { return &node{sort: object, at: at} })
		into.spans = append(into.spans, whole, span{whole.to, min(whole.to+1, len(t.report.data))})
	}
}

// value converts a value that begins at or after a place.
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
	case unstable.Integer, unstable.Float, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		n.sort = number
	// these kinds are not values
	case unstable.Invalid, unstable.Comment, unstable.Key, unstable.Table, unstable.ArrayTable, unstable.KeyValue:
	}
	return n
}
