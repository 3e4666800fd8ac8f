package config

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/strictyaml"
)

// readYAML reads the only document of a YAML file.
func (r *report) readYAML(data []byte) *node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		r.wrong(place{1, 1}, emptyHint, "the file is empty")
		return nil
	case err != nil:
		r.notYAML(data, err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		r.wrong(place{next.Line, 1}, "remove it", "a second document starts here; only one is read")
		return nil
	case !errors.Is(err, io.EOF): // the first document ends before the line that is wrong
		r.notYAML(data, err)
		return nil
	}
	y := &yamlReader{report: r, starts: lineStarts(data)}
	return y.node(doc.Content[0], len(y.starts)+1, 0)
}

// notYAML adds an error of the YAML package.
func (r *report) notYAML(data []byte, err error) {
	line, message := strictyaml.SyntaxError(data, err)
	r.wrong(place{line, 1}, "check the indentation, the colon and the quotes of this line and the one above", "not YAML: %s", message)
}

// lineStarts returns the offset of each line, as the YAML package counts lines: a lone \r,
// U+0085, U+2028 and U+2029 end a line too (is_break in its yamlprivateh.go).
func lineStarts(data []byte) []int {
	starts := []int{0}
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		i += n
		switch c {
		case '\r':
			if i < len(data) && data[i] == '\n' {
				continue
			}
			starts = append(starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			starts = append(starts, i)
		}
	}
	return starts
}

type yamlReader struct {
	report *report
	starts []int // offset of each line
}

// node converts a node. end is the first line after it.
func (y *yamlReader) node(is *yaml.Node, end, depth int) *node {
	n := &node{at: place{is.Line, is.Column}, text: is.Value}
	if !y.report.deep(n.at, depth) {
		return n
	}
	if !y.plain(is) {
		return n
	}
	switch is.Kind {
	case yaml.MappingNode:
		n.sort = object
		for i := 0; i+1 < len(is.Content); i += 2 {
			key, value, until := is.Content[i], is.Content[i+1], end
			if i+2 < len(is.Content) {
				until = is.Content[i+2].Line
			}
			at := place{key.Line, key.Column}
			switch {
			case !y.plain(key):
				continue
			case key.Kind != yaml.ScalarNode:
				y.report.wrong(at, "write one word or one text before the colon", "a list or an object is not a key")
				continue
			case key.ShortTag() == "!!merge":
				y.report.wrong(at, "write the keys of the other object here", "merge keys (<<) are not read")
				continue
			}
			f := field{key.Value, at, y.node(value, until, depth+1)}
			f.value.spans = []span{y.lines(key.Line, until)}
			n.fields = append(n.fields, f)
		}
		y.report.once(n)
	case yaml.SequenceNode:
		n.sort = list
		for i, item := range is.Content {
			until := end
			if i+1 < len(is.Content) {
				until = is.Content[i+1].Line
			}
			n.items = append(n.items, y.node(item, until, depth+1))
		}
	case yaml.DocumentNode, yaml.AliasNode: // a document is never nested, and an alias was refused above
	case yaml.ScalarNode:
		switch is.ShortTag() {
		case "!!null":
			n.sort = null
		case "!!bool":
			n.sort = boolean
		case "!!str", "!!merge": // as a value, << is only a text
			n.sort = text
		default:
			n.sort = number
		}
	}
	return n
}

// plain reports whether a node has no anchor and no tag and is not an alias. Otherwise it adds
// an error. With an anchor and its aliases, one edit changes places that a person does not
// see; a tag gives a value another type than it seems to have.
func (y *yamlReader) plain(is *yaml.Node) bool {
	if is.Kind != yaml.AliasNode && is.Anchor == "" && is.Style&yaml.TaggedStyle == 0 {
		return true
	}
	y.report.wrong(place{is.Line, is.Column}, "write the value itself, in quotes if it starts with * & or !", "anchors, aliases and tags are not read")
	return false
}

// lines returns the span of the lines from first up to, but without, end; at least one line.
func (y *yamlReader) lines(first, end int) span {
	at := func(line int) int {
		if line > len(y.starts) {
			return len(y.report.data)
		}
		return y.starts[line-1]
	}
	first = max(first, 1)
	return span{at(first), at(max(end, first+1))}
}
