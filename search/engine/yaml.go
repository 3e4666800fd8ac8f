package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/strictyaml"
)

// Bounds of engine files.
const (
	maxFile    = 256 << 10
	maxFiles   = 200
	maxEntries = 100 // entries of one list
)

// FileError contains the faults of engine files, up to 50, each with its place in the text.
type FileError struct{ strictyaml.Report }

// reader reads the nodes of one engine file strictly. It collects faults instead of
// stopping at the first.
type reader struct{ strictyaml.Reader }

func newReader(file string, text []byte) *reader {
	return &reader{strictyaml.NewReader(file, text)}
}

// root reads text and returns the top node of its only document. If it cannot, it adds a
// fault and returns nil.
func (r *reader) root(text []byte) *yaml.Node {
	if len(text) > maxFile {
		r.FaultAt(1, 1, fmt.Sprintf("the file has %d bytes, more than the %d that are read", len(text), maxFile), "")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		r.FaultAt(1, 1, "the file is empty", "start it with: name: example")
		return nil
	case err != nil:
		r.notYAML(text, err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		r.FaultAt(next.Line, 1, "a second document starts here; an engine is one document", "remove it")
	case !errors.Is(err, io.EOF): // the first document ends before the line that is wrong
		r.notYAML(text, err)
		return nil
	}
	if !r.simple(&doc) {
		return nil
	}
	return doc.Content[0]
}

// notYAML adds a fault for an error of the YAML package.
func (r *reader) notYAML(text []byte, err error) {
	line, message := strictyaml.SyntaxError(text, err)
	r.FaultAt(line, 1, "not YAML: "+message, "check the indentation, the colon and the quotes of this line and the one above")
}

// simple refuses anchors, aliases and tags, because with them one edit can change places
// that a person does not look at.
func (r *reader) simple(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 && n.Kind != yaml.DocumentNode {
		r.Fault(n, "write the value itself, in quotes if it starts with * & or !", "anchors, aliases and tags are not allowed in an engine")
		return false
	}
	for _, c := range n.Content {
		if !r.simple(c) {
			return false
		}
	}
	return true
}

// fields is a mapping. Keys that are unknown or repeated are faults, and are left out.
type fields struct {
	node   *yaml.Node
	keys   []*yaml.Node
	values map[string]*yaml.Node
}

// mapping reads n as a mapping. If known keys are given, any other key is a fault.
func (r *reader) mapping(n *yaml.Node, what string, known ...string) fields {
	f := fields{node: n, values: make(map[string]*yaml.Node)}
	if n.Kind != yaml.MappingNode {
		hint := ""
		if len(known) > 0 {
			hint = "it has the keys " + strings.Join(known, ", ")
		}
		r.Fault(n, hint, "%s must be a mapping", what)
		return f
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.Fault(key, "", "a key of %s must be a text", what)
		case len(known) > 0 && !slices.Contains(known, key.Value):
			r.Fault(key, "it has the keys "+strings.Join(known, ", "), "%s has no key %q", what, key.Value)
		case f.values[key.Value] != nil:
			r.Fault(key, "keep one of them", "the key %q stands here a second time", key.Value)
		default:
			f.keys = append(f.keys, key)
			f.values[key.Value] = value
		}
	}
	return f
}

// text reads n as a text. A number or a truth value is taken as it is written.
func (r *reader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.Fault(n, "", "%s must be a text", what)
		return ""
	}
	return n.Value
}

// each calls use for one text or for each text of a list.
func (r *reader) each(n *yaml.Node, what string, use func(n *yaml.Node, s string)) {
	if n.Kind == yaml.ScalarNode {
		if s := r.text(n, what); s != "" {
			use(n, s)
		}
		return
	}
	for _, e := range r.list(n, what) {
		if s := r.text(e, "an entry of "+what); s != "" {
			use(e, s)
		}
	}
}

// list reads n as a list.
func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.Fault(n, "start each entry with a dash, or write [one, two]", "%s must be a list", what)
		return nil
	case len(n.Content) > maxEntries:
		r.Fault(n, "", "%s has %d entries, more than the %d that are read", what, len(n.Content), maxEntries)
		return n.Content[:maxEntries]
	}
	return n.Content
}

// texts reads n as one text or a list of texts.
func (r *reader) texts(n *yaml.Node, what string) []string {
	var all []string
	r.each(n, what, func(_ *yaml.Node, s string) { all = append(all, s) })
	return all
}

// truth reads n as true or false.
func (r *reader) truth(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		r.Fault(n, "", "%s must be true or false", what)
	}
	return n.Value == "true"
}

// number reads n as a whole number between least and most.
func (r *reader) number(n *yaml.Node, what string, least, most int) int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		r.Fault(n, "", "%s must be a whole number from %d to %d", what, least, most)
		return least
	}
	return v
}

// duration reads n as a duration such as 2s, between least and most.
func (r *reader) duration(n *yaml.Node, what string, least, most time.Duration) time.Duration {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
		r.Fault(n, "", "%s must be a time from %s to %s", what, least, most)
		return least
	}
	return v
}

// word reads n as one of a few words.
func (r *reader) word(n *yaml.Node, what string, words ...string) string {
	s := r.text(n, what)
	if s != "" && !slices.Contains(words, s) {
		r.Fault(n, "use one of: "+strings.Join(words, ", "), "%s cannot be %q", what, s)
		return ""
	}
	return s
}

// pattern reads n as a regular expression.
func (r *reader) pattern(n *yaml.Node, s, what string) *regexp.Regexp {
	like, err := regexp.Compile(s)
	if err != nil {
		r.Fault(n, "it is a regular expression of Go (RE2)", "%s: %v", what, err)
		return nil
	}
	return like
}
