package policies

import (
	"path"
	"slices"
	"strings"
)

// readPath makes a piece of a path.
func readPath(s string) piece {
	pc := piece{kind: aPath, text: s}
	switch {
	case strings.ContainsRune(s, 0):
		pc.fault = "it contains a NUL byte"
	case !path.IsAbs(s):
		pc.doubt, pc.opaque = "it is not absolute", true
	case slices.Contains(strings.Split(s, "/"), ".."):
		// After a symlink, .. means another directory to the kernel than in the text.
		pc.doubt, pc.opaque = "it has .. in it", true
	default:
		pc.words = literals(segments(path.Clean(s)))
		pc.loose = pc.words
	}
	return pc
}

// aboutPath says how sure it is that a pattern is about a path.
func (g glob) aboutPath(pc *piece) proof {
	switch {
	case g.everything():
		return must
	case pc.opaque:
		return may
	}
	return g.match(pc.words)
}
