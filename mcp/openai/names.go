package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Limits of what is converted.
const (
	nameMost  = 64      // bytes of a function's name: the limit of common models
	toolsMost = 1024    // tools of one table
	textMost  = 8 << 20 // bytes of one document
)

// Names is a table of tools and the functions that stand for them. A function's name may
// contain only letters, digits, "_" and "-", and a tool's name may contain more. Both names
// are looked up in the table, and never derived from each other. The zero value is empty. A
// Names never changes, so it is safe for concurrent use.
type Names struct {
	functions map[string]string // name of the function, by tool
	tools     map[string]string // name of the tool, by function
}

// NewNames makes the table. A tool's name that is valid for a function is not changed. In
// any other name, each invalid character becomes "_", and a name that is too long is cut.
// If two tools would then have the same name, each gets six digits of its own hash, so that
// the names do not depend on the order of the tools. NewNames returns an error if a name is
// empty or is given twice, or if there are more than 1024 names.
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

// Function returns the name of the function that stands for a tool.
func (n *Names) Function(tool string) (string, bool) {
	name, ok := n.functions[tool]
	return name, ok
}

// Tool returns the tool that a function stands for.
func (n *Names) Tool(function string) (string, bool) {
	tool, ok := n.tools[function]
	return tool, ok
}

// plain returns a name in which each character that a function's name cannot contain is
// replaced.
func plain(tool string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
}

// marked returns a name with a part of the tool's hash at its end.
func marked(name, tool string) string {
	sum := sha256.Sum256([]byte(tool))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), nameMost-len(mark))] + mark
}
