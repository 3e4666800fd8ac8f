package policies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/strictyaml"
)

// MaxText is the largest policy text that Parse reads, in bytes.
const MaxText = 1 << 20

// maxTexts bounds a list of texts.
const maxTexts = 1000

// decoder reads the nodes of one file strictly, and gathers faults instead of stopping at
// the first one. Each part of a policy has a type of its own that embeds the decoder.
type decoder struct{ strictyaml.Reader }

func newDecoder(file string, text []byte) *decoder {
	return &decoder{Reader: strictyaml.NewReader(file, text)}
}

// source returns a node's place, for decisions.
func (d *decoder) source(n *yaml.Node) Source {
	return Source{File: d.File, Line: n.Line, Col: n.Column}
}

// root reads text into the top node of its only document. If the text has no such node,
// root adds a fault and returns nil.
func (d *decoder) root(text []byte) *yaml.Node {
	if len(text) > MaxText {
		d.FaultAt(1, 1, fmt.Sprintf("the policy has %d bytes, more than the %d that are read", len(text), MaxText), "split it, or drop what is not used")
		return nil
	}
	if !d.readable(text) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && empty(&doc):
		d.FaultAt(1, 1, "the policy is empty", "start it with: version: 1")
		return nil
	case err != nil:
		d.syntax(text, err)
		return nil
	}
	// The YAML package silently stops reading at a second document, so a rule below a stray
	// "---" would not be in force.
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case err == nil:
		d.Fault(&next, "remove this line, or put what follows into the first document", "a second document starts here; a policy is one document")
	case !errors.Is(err, io.EOF):
		d.syntax(text, err)
	}
	d.plain(&doc)
	return doc.Content[0]
}

// empty reports whether a document contains nothing.
func empty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"
}

// readable reports whether text is UTF-8 without NUL. If it is not, readable adds a fault
// at that place.
func (d *decoder) readable(text []byte) bool {
	line, col := 1, 1
	for rest := text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			d.FaultAt(line, col, fmt.Sprintf("byte 0x%02x is not UTF-8", rest[0]), "save the file as UTF-8")
			return false
		case r == 0:
			d.FaultAt(line, col, "a policy cannot contain a NUL byte", "remove it")
			return false
		case r == '\n':
			line, col = line+1, 0
		}
		rest, col = rest[n:], col+1
	}
	return true
}

// syntax adds a fault for an error of the YAML package, at the line where the text stops
// being YAML.
func (d *decoder) syntax(text []byte, err error) {
	line, message := strictyaml.SyntaxError(text, err)
	line = min(line, len(d.Lines))
	source := d.Lines[line-1]
	trimmed := strings.TrimLeft(source, " ")
	hint := "check the indentation, the colon and the quotes of this line and the one above"
	switch {
	case strings.HasPrefix(trimmed, "\t"):
		hint = "indent with spaces, not with tabs"
	case strings.Contains(source, "*"), strings.Contains(source, "&"), strings.Contains(source, "@"), strings.Contains(source, "`"):
		hint = `put the text in quotes: one that starts with * & @ or a backtick means something else in YAML, as "**" must be quoted`
	}
	d.FaultAt(line, utf8.RuneCountInString(source)-utf8.RuneCountInString(trimmed)+1, "not YAML: "+message, hint)
}

// plain refuses YAML in which a text does not mean what a reader sees: anchors and aliases
// (one edit changes places that the reader does not see, and nested aliases grow without
// bound) and explicit tags.
func (d *decoder) plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.Fault(n, "write the value itself, in quotes if it starts with * & or !", "a policy cannot contain an alias (*%s)", n.Value)
		return // never n.Alias: an alias may lead to itself
	case n.Anchor != "":
		d.Fault(n, "remove it", "a policy cannot contain an anchor (&%s)", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0 && n.Kind != yaml.DocumentNode:
		d.Fault(n, "remove it; put a text in quotes instead", "a policy cannot contain a tag (%s)", n.Tag)
	}
	for _, c := range n.Content {
		d.plain(c)
	}
}

// kind returns a name of a node's kind for a message.
func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!int", n.ShortTag() == "!!float":
		return "the number " + n.Value
	case n.ShortTag() == "!!bool":
		return "the truth value " + n.Value
	case n.ShortTag() == "!!timestamp":
		return "a date"
	}
	return "a text"
}

// object is a mapping whose keys are known and unique.
type object struct {
	node   *yaml.Node
	keys   []*yaml.Node
	values map[string]*yaml.Node
}

// get returns the value of a key, or nil.
func (o object) get(key string) *yaml.Node { return o.values[key] }

// mapping reads n as a mapping of a shape: other keys are faults and are left out. Without
// a shape every text may be a key. what names the mapping for messages.
func (d *decoder) mapping(n *yaml.Node, what string, s *shape) (object, bool) {
	known := s.names()
	o := object{node: n, values: make(map[string]*yaml.Node)}
	if n.Kind != yaml.MappingNode {
		if n.Kind != yaml.AliasNode { // plain has refused it
			hint := ""
			if len(known) > 0 {
				hint = "it has the keys " + strings.Join(known, ", ")
			}
			d.Fault(n, hint, "%s must be a mapping, not %s", what, kind(n))
		}
		return o, false
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			if key.Kind != yaml.AliasNode {
				d.Fault(key, "", "a key of %s must be a text, not %s", what, kind(key))
			}
			continue
		}
		if len(known) > 0 && !slices.Contains(known, key.Value) {
			d.Fault(key, suggest(key.Value, known), "%s has no key %q", what, key.Value)
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.Fault(key, "keep one of them", "the key %q stands here a second time; the first is on line %d", key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		o.keys = append(o.keys, key)
		o.values[key.Value] = value
	}
	return o, true
}

// items reads n as a list. It adds a fault if the number of entries exceeds most.
func (d *decoder) items(n *yaml.Node, what string, most int) []*yaml.Node {
	switch {
	case n.Kind == yaml.AliasNode:
		return nil
	case n.Kind != yaml.SequenceNode:
		d.Fault(n, "start each entry with a dash", "%s must be a list, not %s", what, kind(n))
		return nil
	case len(n.Content) > most:
		d.Fault(n, "", "%s has %d entries, more than the %d that are read", what, len(n.Content), most)
		return n.Content[:most]
	}
	return n.Content
}

// text reads n as a text that is not empty.
func (d *decoder) text(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind == yaml.AliasNode:
		return "", false
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null":
		d.Fault(n, "", "%s must be a text, not %s", what, kind(n))
		return "", false
	case n.ShortTag() != "!!str":
		d.Fault(n, fmt.Sprintf("put it in quotes: %q", n.Value), "%s must be a text, not %s", what, kind(n))
		return "", false
	case strings.TrimSpace(n.Value) == "":
		d.Fault(n, "", "%s must not be empty", what)
		return "", false
	}
	return n.Value, true
}

// texts reads n as one text or a list of texts, and passes each text with its node to use.
func (d *decoder) texts(n *yaml.Node, what string, use func(n *yaml.Node, s string)) {
	if n.Kind == yaml.ScalarNode {
		if s, ok := d.text(n, what); ok {
			use(n, s)
		}
		return
	}
	entries := d.items(n, what, maxTexts)
	if n.Kind == yaml.SequenceNode && len(entries) == 0 {
		d.Fault(n, "name at least one, or remove the key", "%s must not be empty", what)
	}
	for _, e := range entries {
		if s, ok := d.text(e, "an entry of "+what); ok {
			use(e, s)
		}
	}
}

// truth reads n as true or false.
func (d *decoder) truth(n *yaml.Node, what string) bool {
	if n.Kind == yaml.AliasNode {
		return false
	}
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		d.Fault(n, "write true or false", "%s must be true or false, not %s", what, kind(n))
		return false
	}
	return n.Value == "true"
}

// word reads n as one of a few words and returns its index, or -1.
func (d *decoder) word(n *yaml.Node, what string, words ...string) int {
	s, ok := d.text(n, what)
	if !ok {
		return -1
	}
	i := slices.Index(words, s)
	if i < 0 {
		d.Fault(n, suggest(s, words), "%s cannot be %q", what, s)
	}
	return i
}

// list reads a list of texts that may be empty. It returns nil if n is nil.
func (d *decoder) list(n *yaml.Node, what string, most int, use func(*yaml.Node, string)) []string {
	if n == nil {
		return nil
	}
	all := []string{}
	for _, entry := range d.items(n, what, most) {
		s, ok := d.text(entry, "an entry of "+what)
		if !ok {
			continue
		}
		if use != nil {
			use(entry, s)
		}
		all = append(all, s)
	}
	return all
}
