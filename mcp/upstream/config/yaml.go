package config

import (
	"bytes"
	"errors"
	"io"

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
		line, message := strictyaml.SyntaxError(err)
		r.wrong(place{line, 1}, "check the indentation, the colon and the quotes of this line and the one above", "not YAML: %s", message)
		return nil
	}
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		r.wrong(place{max(next.Line, 1), 1}, "remove it", "a second document starts here; only one is read")
		return nil
	}
	y := &yamlReader{report: r, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			y.starts = append(y.starts, i+1)
		}
	}
	return y.node(doc.Content[0], len(y.starts)+1, 0)
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
	if is.Kind == yaml.AliasNode || is.Anchor != "" || is.Style&yaml.TaggedStyle != 0 {
		// They are refused: one edit would change places that a person does not see.
		y.report.wrong(n.at, "write the value itself, in quotes if it starts with * & or !", "anchors, aliases and tags are not read")
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
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				y.report.wrong(place{key.Line, key.Column}, "write the keys themselves", "a key must be a text")
				continue
			}
			f := field{key.Value, place{key.Line, key.Column}, y.node(value, until, depth+1)}
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
		case "!!str":
			n.sort = text
		default:
			n.sort = number
		}
	}
	return n
}

// lines returns the span from the line from to the line before to, at least one line.
func (y *yamlReader) lines(from, to int) span {
	at := func(line int) int {
		if line > len(y.starts) {
			return len(y.report.data)
		}
		return y.starts[line-1]
	}
	from = max(from, 1)
	return span{at(from), at(max(to, from+1))}
}
