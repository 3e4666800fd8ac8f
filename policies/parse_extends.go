package policies

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxExtends bounds how many profiles a profile may extend, one after the other: nobody
// reads more of them in order to find out what the last one grants.
const maxExtends = 8

// inherited are the keys of a profile that are mappings and are merged with the parent's
// mapping key by key. The value contains the keys in it that are mappings again. Any other
// value is taken as a whole, from the profile or from its parent: half a list would grant
// what neither profile shows.
var inherited = map[string][]string{"fs": nil, "net": {"limits"}, "limits": nil, "env": nil, "read": nil}

// heir reads profiles that inherit from other profiles.
type heir struct {
	d     *profileDecoder
	o     object                // mapping of profiles
	whole map[string]*yaml.Node // profiles with everything that they inherit
	depth map[string]int        // how many profiles a profile extends, one after the other
	path  []string              // names of the profiles that are being read
}

// resolved returns a profile with everything that it inherits.
func (h *heir) resolved(name string) *yaml.Node {
	if n, ok := h.whole[name]; ok {
		return n
	}
	n := h.o.get(name)
	h.whole[name] = n // also while its parents are read, so that circles end
	h.whole[name] = h.inherit(name, n)
	return h.whole[name]
}

// inherit returns a profile with everything that it inherits. If that cannot be read, it
// leaves a fault and returns only the profile.
func (h *heir) inherit(name string, n *yaml.Node) *yaml.Node {
	at := valueOf(n, "extends")
	if at == nil {
		return n
	}
	parent, ok := h.d.text(at, "extends")
	if !ok {
		return n
	}
	path := append(h.path, name)
	switch i := slices.Index(path, parent); {
	case h.o.get(parent) == nil:
		h.d.Fault(at, suggest(parent, keysOf(h.o)), "profile %q does not exist", parent)
		return n
	case i >= 0:
		h.d.Fault(at, "let one of them extend none", "profile %s extends itself: %s", name, strings.Join(append(path[i:], parent), " > "))
		return n
	}
	h.path = path
	over := h.resolved(parent)
	h.path = path[:len(path)-1]
	h.depth[name] = h.depth[parent] + 1
	if h.depth[name] > maxExtends {
		h.d.Fault(at, "write out what is granted", "profile %s extends more than %d others, one after the other", name, maxExtends)
		return n
	}
	return takeOver(n, over)
}

// profile reads the profile with a name.
func (h *heir) profile(name string) profileGrant {
	return h.read(name, "profile "+name, h.o.get(name), h.resolved(name))
}

// nameless reads a profile that is written where it is used; what names it for messages.
func (h *heir) nameless(what string, n *yaml.Node) profileGrant {
	return h.read("", what, n, h.inherit("", n))
}

// read reads a profile with everything that it inherits. A fault of its parent is reported
// once, however many profiles extend the parent.
func (h *heir) read(name, what string, own, whole *yaml.Node) profileGrant {
	before := len(h.d.Faults)
	g := h.d.profile(name, what, whole)
	if whole != own || before > 0 {
		known := h.d.Faults[:before]
		h.d.Faults = append(known, slices.DeleteFunc(h.d.Faults[before:], func(f Fault) bool {
			return slices.ContainsFunc(known, func(k Fault) bool { return k.Line == f.Line && k.Col == f.Col })
		})...)
	}
	return g
}

// takeOver returns a profile together with the keys that it inherits from its
// parent.
func takeOver(child, parent *yaml.Node) *yaml.Node {
	whole := merged(child, parent, func(key string, own, theirs *yaml.Node) *yaml.Node {
		deeper, nests := inherited[key]
		if !nests {
			return own
		}
		// A network that is off, or on for the first time, inherits nothing from the
		// parent.
		if key == "net" && modeOf(own) != "" && modeOf(own) != modeOf(theirs) {
			return own
		}
		return merged(own, theirs, func(key string, own, theirs *yaml.Node) *yaml.Node {
			if slices.Contains(deeper, key) {
				return merged(own, theirs, func(_ string, own, _ *yaml.Node) *yaml.Node { return own })
			}
			return own
		})
	})
	return whole
}

// merged returns the mapping own with those keys of theirs that own lacks. both returns the
// value of a key that is in own and in theirs. If one of the two is not a mapping, merged
// returns own.
func merged(own, theirs *yaml.Node, both func(key string, own, theirs *yaml.Node) *yaml.Node) *yaml.Node {
	if own.Kind != yaml.MappingNode || theirs == nil || theirs.Kind != yaml.MappingNode {
		return own
	}
	whole := *own
	whole.Content = slices.Clone(own.Content)
	for i := 0; i+1 < len(own.Content); i += 2 {
		if other := valueOf(theirs, own.Content[i].Value); other != nil {
			whole.Content[i+1] = both(own.Content[i].Value, own.Content[i+1], other)
		}
	}
	for i := 0; i+1 < len(theirs.Content); i += 2 {
		if key := theirs.Content[i]; valueOf(own, key.Value) == nil {
			whole.Content = append(whole.Content, key, theirs.Content[i+1])
		}
	}
	return &whole
}

// valueOf returns the value of a key of a mapping, or nil.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// modeOf returns the mode that a net states, or "".
func modeOf(net *yaml.Node) string {
	if v := valueOf(net, "mode"); v != nil {
		return v.Value
	}
	return ""
}

// keysOf returns the keys of a mapping as texts.
func keysOf(o object) []string {
	texts := make([]string, len(o.keys))
	for i, k := range o.keys {
		texts[i] = k.Value
	}
	return texts
}
