package graph

import (
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// lists are the neighbours of each node, sorted, each once and without the node itself. The
// neighbours of v are to[off[v]:off[v+1]].
type lists struct {
	off, to []int32
}

// of returns the neighbours of a node.
func (l lists) of(v int) []int32 { return l.to[l.off[v]:l.off[v+1]] }

// nodes returns the number of nodes.
func (l lists) nodes() int { return len(l.off) - 1 }

// newLists returns the lists that contain the pairs of nodes: the second node of a pair is
// a neighbour of the first.
func newLists(n int, pairs [][2]int32) lists {
	slices.SortFunc(pairs, func(a, b [2]int32) int {
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		return int(a[1]) - int(b[1])
	})
	pairs = slices.Compact(pairs)
	l := lists{off: make([]int32, n+1), to: make([]int32, 0, len(pairs))}
	for _, p := range pairs {
		if p[0] == p[1] {
			continue
		}
		l.off[p[0]+1]++
		l.to = append(l.to, p[1])
	}
	for v := range n {
		l.off[v+1] += l.off[v]
	}
	return l
}

// directed returns the nodes that each node depends on, and the nodes that depend on it.
func (g *Graph) directed() (out, in lists) {
	there, back := make([][2]int32, 0, len(g.Links)), make([][2]int32, 0, len(g.Links))
	for _, l := range g.Links {
		there = append(there, [2]int32{int32(l.From), int32(l.To)})
		back = append(back, [2]int32{int32(l.To), int32(l.From)})
	}
	return newLists(len(g.Nodes), there), newLists(len(g.Nodes), back)
}

// either returns the neighbours of each node in both directions.
func either(out lists) lists {
	pairs := make([][2]int32, 0, 2*len(out.to))
	for v := range out.nodes() {
		for _, to := range out.of(v) {
			pairs = append(pairs, [2]int32{int32(v), to}, [2]int32{to, int32(v)})
		}
	}
	return newLists(out.nodes(), pairs)
}

// Find returns the nodes that a text means: the nodes with this path or name, and the
// functions and types whose name ends with the text after a dot or a colon. In a graph of
// imports, a file of Go means its package. If there is no such node, Find returns the files
// whose path ends with the text, such as src/main.rs for main.rs.
func (g *Graph) Find(text string) (all []int) {
	for i, n := range g.Nodes {
		short := n.Name[strings.LastIndexAny(n.Name, ".:")+1:]
		if n.Path == text || n.Name == text || (n.Kind == "function" || n.Kind == "type") && short == text {
			all = append(all, i)
		}
	}
	if len(all) == 0 && strings.HasSuffix(text, ".go") {
		kind := "package"
		if strings.HasSuffix(text, "_test.go") {
			kind = "tests"
		}
		for i, n := range g.Nodes {
			if n.Kind == kind && n.Path == path.Dir(text) {
				all = append(all, i)
			}
		}
	}
	if len(all) == 0 && text != "" {
		for i, n := range g.Nodes {
			if n.Kind == "file" && strings.HasSuffix(n.Path, "/"+text) {
				all = append(all, i)
			}
		}
	}
	return all
}

// lack adds a gap with the reason for each of the metrics.
func (m *Metrics) lack(reason string, metrics ...string) {
	for _, name := range metrics {
		m.Gaps = append(m.Gaps, code.Gap{Field: name, Reason: reason})
	}
}
