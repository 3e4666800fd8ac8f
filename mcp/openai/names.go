package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Bounds of what is converted.
const (
	nameMost  = 64      // bytes of a function's name: the limit of common models
	toolsMost = 1024    // tools of one table
	textMost  = 8 << 20 // bytes of one document
)

// Names is a table of tools and the functions that stand for them. A model may
// use letters, digits, "_" and "-" in a function's name only, and a tool may
// have more; what a name becomes is looked up both ways and never guessed from
// its letters. The zero value is empty. It never changes, so it is safe for
// concurrent use.
type Names struct {
	functions map[string]string // by tool
	tools     map[string]string // by function
}

// NewNames makes the table. A name that a function can have stays as it is. In
// any other each foreign character becomes "_", what is too long is cut, and
// where two would then be the same each gets six digits of its own hash, so
// that what a tool is called does not depend on the others' order. It fails for
// a name that is empty or given twice, and for more than 1024.
func NewNames(tools []string) (*Names, error) {
	if len(tools) > toolsMost {
		return nil, fmt.Errorf("name functions: got %d tools, want at most %d", len(tools), toolsMost)
	}
	n := &Names{functions: make(map[string]string, len(tools)), tools: make(map[string]string, len(tools))}
	wanted := make(map[string]int, len(tools))
	for _, tool := range tools {
		if tool == "" {
			return nil, fmt.Errorf("name functions: a tool has no name")
		}
		if _, twice := n.functions[tool]; twice {
			return nil, fmt.Errorf("name functions: %.80q is given twice", tool)
		}
		n.functions[tool] = ""
		wanted[plain(tool)]++
	}
	for _, tool := range slices.Sorted(slices.Values(tools)) {
		name := plain(tool)
		if name != tool && (wanted[name] > 1 || len(name) > nameMost) {
			name = marked(name, tool)
		}
		if len(name) > nameMost {
			name = marked(name, tool)
		}
		if other, taken := n.tools[name]; taken {
			return nil, fmt.Errorf("name functions: %.80q and %.80q would both be %s; rename one", other, tool, name)
		}
		n.functions[tool], n.tools[name] = name, tool
	}
	return n, nil
}

// Function is the name of the function that stands for a tool.
func (n *Names) Function(tool string) (string, bool) {
	name, ok := n.functions[tool]
	return name, ok
}

// Tool is the tool that a function stands for.
func (n *Names) Tool(function string) (string, bool) {
	tool, ok := n.tools[function]
	return tool, ok
}

// plain is a name without characters that no function's name has.
func plain(tool string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
}

// marked is a name with a part of the tool's hash at its end.
func marked(name, tool string) string {
	sum := sha256.Sum256([]byte(tool))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), nameMost-len(mark))] + mark
}
