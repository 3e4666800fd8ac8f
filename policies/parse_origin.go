package policies

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// aboutHost says whether one of the hosts is that of a piece. As under net, "*"
// is every public name to a match that lets through, and everything to one that
// does not.
func (m *match) aboutHost(pc *piece, trust bool) proof {
	for _, h := range m.hosts {
		if trust && h.allows(pc.host) || !trust && h.denies(pc.host) {
			return must
		}
	}
	return no
}

// hint is an annotation of a tool and the value that a match wants.
type hint struct {
	key  string
	want bool
}

// hints are the annotations of tools, with the default of each for tools that
// lack it (MCP 2025-11-25, ToolAnnotations).
var hints = map[string]bool{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}

// from reports whether the call is of one of the upstreams and its tool has the
// annotations.
func (m *match) from(f *Facts) bool {
	if len(m.upstreams) > 0 && !slices.ContainsFunc(m.upstreams, func(e element) bool { return f.Upstream != "" && e.match(f.Upstream) }) {
		return false
	}
	for _, h := range m.hints {
		have, said := f.Annotations[h.key]
		if !said {
			have = hints[h.key]
		}
		if have != h.want {
			return false
		}
	}
	return true
}

// origin reads upstream and annotations of a match.
func (d *decoder) origin(o object, m *match) {
	if v := o.get("upstream"); v != nil {
		d.texts(v, "upstream", collect(d, &m.upstreams, "upstream", func(s string) (element, error) {
			return compileElement(strings.ReplaceAll(s, "**", "*"))
		}))
	}
	v := o.get("annotations")
	if v == nil {
		return
	}
	all, ok := d.mapping(v, "annotations", annotationsShape)
	if ok && len(v.Content) == 0 {
		d.Fault(v, "write annotations: {readOnlyHint: true}", "annotations must not be empty")
	}
	for _, key := range all.keys {
		m.hints = append(m.hints, hint{key.Value, d.truth(all.get(key.Value), fmt.Sprintf("annotation %s", key.Value))})
	}
}

// testArgs reads the arguments of a test's call as they would come in JSON.
func (d *decoder) testArgs(n *yaml.Node) map[string]any {
	o, ok := d.mapping(n, "args", nil)
	if !ok {
		return nil
	}
	all := make(map[string]any, len(o.keys))
	for _, key := range o.keys {
		all[key.Value] = d.json(o.get(key.Value))
	}
	return all
}

// json is a node as JSON would give it: numbers are floats.
func (d *decoder) json(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		return d.testArgs(n)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			all = append(all, d.json(e))
		}
		return all
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return nil
		case "!!bool":
			return n.Value == "true"
		case "!!int", "!!float":
			var f float64
			if err := n.Decode(&f); err != nil {
				d.Fault(n, "put it in quotes, or write it as JSON does", "%s is not a JSON number", quoted(n))
			}
			return f
		}
		return n.Value
	case yaml.AliasNode, yaml.DocumentNode:
	}
	return nil // plain has refused it
}
