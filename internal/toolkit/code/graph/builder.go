package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// builder builds one graph.
type builder struct {
	*index

	g       Graph
	links   map[uint64]int32 // index in g.Links, by linkKey
	outside map[string]map[int]bool

	fileNode  []int // index of each file's node; -1 if it has no node
	funcNodes [][]int
	typeNodes [][]int
	full      bool // a limit was reached
	tired     bool // too many declarations were examined
}

// newBuilder returns a builder without nodes. The builder has a copy of the index, so that
// it counts only its own lookups.
func newBuilder(x *index) *builder {
	own := *x
	return &builder{index: &own, links: make(map[uint64]int32), outside: make(map[string]map[int]bool)}
}

// linkKinds are the kinds of links in the order in which links are sorted.
var linkKinds = []string{"calls", "imports", "inherits", "uses"}

// Bits of a linkKey: two nodes and a kind. The lowest indexBits bits are left free for the
// index of a link.
const (
	nodeBits  = 18 // enough for maxNodes
	kindBits  = 2
	indexBits = 20 // enough for maxEdges
)

// linkKey returns a number by which links are sorted: by their nodes, then by their kind.
func linkKey(from, to int, kind string) uint64 {
	return (uint64(from)<<nodeBits|uint64(to))<<kindBits | uint64(slices.Index(linkKinds, kind))
}

// nodes adds the nodes that a graph of the kind has.
func (b *builder) nodes(kind Kind) {
	n := 0
	for _, f := range b.files {
		n += 1 + len(f.Funcs) + len(f.Types)
	}
	b.g.Nodes = make([]Node, 0, min(n, maxNodes))
	b.fileNode = make([]int, len(b.files))
	b.funcNodes = make([][]int, len(b.files))
	b.typeNodes = make([][]int, len(b.files))
	packages := make(map[string]int) // nodes of Go packages
	for i, f := range b.files {
		b.fileNode[i] = -1
		if (kind == Imports || kind == Full) && f.Language.Lexed() {
			if f.Language != code.Go || ignored(f) {
				b.fileNode[i] = b.node(Node{Kind: "file", Name: f.Path, Path: f.Path, Test: len(f.Funcs) > 0 && allTests(f)})
			} else {
				b.fileNode[i] = b.packageNode(packages, i)
			}
		}
		if kind == Calls || kind == Full {
			for j := range f.Funcs {
				fn := &f.Funcs[j]
				b.funcNodes[i] = append(b.funcNodes[i], b.node(Node{"function", cmp.Or(fn.Label, fn.Name), f.Path, fn.Line, fn.First, fn.Last, fn.Exported, fn.Test}))
			}
		}
		if kind == Inheritance || kind == Full {
			for _, s := range f.Types {
				if s.Kind == implementation {
					b.typeNodes[i] = append(b.typeNodes[i], -1)
					continue
				}
				b.typeNodes[i] = append(b.typeNodes[i], b.node(Node{"type", s.Name, f.Path, s.Line, s.First, s.Last, s.Exported, false}))
			}
		}
	}
}

func allTests(f *code.File) bool {
	return !slices.ContainsFunc(f.Funcs, func(fn code.Func) bool { return !fn.Test })
}

// packageNode returns the node of the package of a file in Go. The test files of a
// directory have a node of their own, because their imports are not dependencies of the
// package.
func (b *builder) packageNode(packages map[string]int, i int) int {
	f := b.files[i]
	dir := dirOf(f.Path)
	kind := "package"
	if strings.HasSuffix(f.Path, "_test.go") {
		kind = "tests"
	}
	key := kind + " " + dir
	if _, known := packages[key]; !known {
		name := cmp.Or(b.importPath(dir), ".")
		if kind == "tests" {
			name += " (tests)"
		}
		packages[key] = b.node(Node{Kind: kind, Name: name, Path: cmp.Or(dir, "."), Test: kind == "tests"})
	}
	return packages[key]
}

// node adds a node and returns its index, or -1 if the graph has maxNodes nodes.
func (b *builder) node(n Node) int {
	if len(b.g.Nodes) == maxNodes {
		b.full = true
		return -1
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return len(b.g.Nodes) - 1
}

// link adds a link. If the link exists, its count is increased.
func (b *builder) link(from, to int, kind string, sure Sure, line int) {
	if from < 0 || to < 0 || from == to && kind != "calls" {
		return
	}
	key := linkKey(from, to, kind)
	if at, known := b.links[key]; known {
		l := &b.g.Links[at]
		l.Count++
		l.Sure, l.Line = max(l.Sure, sure), min(l.Line, line)
		return
	}
	if len(b.g.Links) == maxEdges {
		b.full = true
		return
	}
	b.links[key] = int32(len(b.g.Links))
	b.g.Links = append(b.g.Links, Link{from, to, kind, sure, 1, line})
}

// leave records that a file uses a name that leads out of the project.
func (b *builder) leave(name string, file int) {
	if name == "" || len(name) > 500 {
		return
	}
	if b.outside[name] == nil {
		b.outside[name] = make(map[int]bool)
	}
	b.outside[name][file] = true
}

// finish sorts the nodes and the links, and returns the graph.
func (b *builder) finish() *Graph {
	g := &b.g
	sorted := make([]int, len(g.Nodes)) // old indexes in the new order
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortFunc(sorted, func(i, j int) int {
		a, b := &g.Nodes[i], &g.Nodes[j]
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(i, j))
	})
	now := make([]int, len(sorted)) // new index of each old index
	nodes := make([]Node, len(sorted))
	for i, old := range sorted {
		now[old], nodes[i] = i, g.Nodes[old]
	}
	g.Nodes = nodes
	// These keys are sorted instead of the links, which are large to move. Each key contains
	// the index of its link.
	keys := make([]uint64, len(g.Links))
	for i := range g.Links {
		l := &g.Links[i]
		l.From, l.To = now[l.From], now[l.To]
		keys[i] = linkKey(l.From, l.To, l.Kind)<<indexBits | uint64(i)
	}
	slices.Sort(keys)
	links := make([]Link, len(keys))
	for i, key := range keys {
		links[i] = g.Links[key&(1<<indexBits-1)]
	}
	g.Links = links
	for name, files := range b.outside {
		g.Outside = append(g.Outside, Outside{name, len(files)})
	}
	order.By(g.Outside, func(a, b *Outside) int {
		return cmp.Or(cmp.Compare(b.Files, a.Files), cmp.Compare(a.Name, b.Name))
	})
	if b.tired {
		g.Gaps = append(g.Gaps, code.Gap{Field: "graph", Reason: "too many declarations have the same names, so the calls of some files are not read"})
	}
	if b.full {
		g.Gaps = append(g.Gaps, code.Gap{Field: "graph", Reason: fmt.Sprintf("only the first %d nodes and %d links are read", maxNodes, maxEdges)})
	}
	for _, f := range b.files {
		for _, gap := range f.Gaps {
			if gap.Field == "functions" || gap.Field == "file" {
				g.Gaps = append(g.Gaps, code.Gap{Path: f.Path, Field: "graph", Reason: gap.Reason})
			}
		}
	}
	return g
}
