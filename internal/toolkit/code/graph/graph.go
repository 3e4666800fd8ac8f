package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// Kind is which dependencies a graph has.
type Kind string

// The kinds of graphs.
const (
	Imports     Kind = "import-graph"    // files, and packages of Go, that import others
	Calls       Kind = "call-graph"      // functions that call others
	Inheritance Kind = "inheritance"     // types that extend, implement or embed others
	Full        Kind = "full-dependency" // all of these, and the types that functions name
)

// Limits of one graph.
const (
	maxNodes = 200_000
	maxEdges = 1_000_000
)

// Sure is how sure a [Link] is, from the least sure to the surest.
type Sure uint8

// How sure a link is.
const (
	Possible Sure = iota // by the name alone: something of this name is declared
	Likely               // by the name and by what the files import, or by a type's bases
	Certain              // by the rules of the language
)

// String returns the word for it.
func (s Sure) String() string {
	switch s {
	case Possible:
		return "possible"
	case Likely:
		return "likely"
	case Certain:
		return "certain"
	}
	return fmt.Sprintf("Sure(%d)", uint8(s))
}

// Node is a file, a package of Go, a function or a type.
type Node struct {
	Kind     string // file, package, tests (the test files of a package), function or type
	Name     string // of a file its path, of a package the import path, of a function its label
	Path     string // of its file; of a package its directory
	Line     int    // of its name; 0 for a file and a package
	First    int    // its first line
	Last     int    // its last line
	Exported bool
	Test     bool // runs only in tests
}

// Link is a dependency between two nodes, by their indexes.
type Link struct {
	From, To int
	Kind     string // imports, calls, inherits or uses
	Sure     Sure
	Count    int // how often it stands in the text
	Line     int // of the first of these, in the file of From
}

// Outside is a package or a type that is not in the project, with the number of files
// that name it.
type Outside struct {
	Name  string
	Files int
}

// Graph is the dependencies of a project. It is not changed once it is built.
type Graph struct {
	Kind       Kind
	Nodes      []Node // by path, line and name
	Links      []Link // by their nodes and kind, each once
	Outside    []Outside
	Unresolved int // calls for which no declaration was found, most of them outside of the project
	Gaps       []code.Gap
}

// Build reads the dependencies of files. What a file imports is resolved among the
// files alone: a go.mod, a Cargo.toml, a tsconfig.json and assembly belong to them, as
// files of [code.Other]. An error is one of ctx, or of an unknown kind.
func Build(ctx context.Context, files []*code.File, kind Kind) (*Graph, error) {
	b := &builder{index: newIndex(files), links: make(map[linkKey]int), outside: make(map[string]map[int]bool)}
	b.g.Kind = kind
	var steps []func(context.Context) error
	switch kind {
	case Imports:
		steps = append(steps, b.imports)
	case Calls:
		steps = append(steps, b.calls)
	case Inheritance:
		steps = append(steps, b.inheritance)
	case Full:
		steps = append(steps, b.imports, b.calls, b.inheritance, b.uses)
	default:
		return nil, fmt.Errorf("%q is not a kind of graph", kind)
	}
	b.nodes(kind)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}

// Find returns the nodes that a person means by a text: those with this path or name,
// or with the name behind the last dot or colon of theirs.
func (g *Graph) Find(text string) (all []int) {
	for i, n := range g.Nodes {
		short := n.Name[strings.LastIndexAny(n.Name, ".:")+1:]
		if n.Path == text || n.Name == text || (n.Kind == "function" || n.Kind == "type") && short == text {
			all = append(all, i)
		}
	}
	return all
}

// builder builds one graph.
type builder struct {
	*index

	g       Graph
	links   map[linkKey]int // index in g.Links
	outside map[string]map[int]bool

	fileNode  []int // of each file; -1 for none
	funcNodes [][]int
	typeNodes [][]int
	full      bool // a limit was met
}

type linkKey struct {
	from, to int
	kind     string
}

// nodes makes the nodes of the kind.
func (b *builder) nodes(kind Kind) {
	b.fileNode = make([]int, len(b.files))
	b.funcNodes = make([][]int, len(b.files))
	b.typeNodes = make([][]int, len(b.files))
	packages := make(map[string]int) // of Go
	for i, f := range b.files {
		b.fileNode[i] = -1
		if (kind == Imports || kind == Full) && f.Language != code.Other {
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

// packageNode is the node of the package of a file in Go. The test files of a directory
// are a node of their own, for their imports are no dependencies of the package.
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

// node adds a node, and returns -1 behind the limit.
func (b *builder) node(n Node) int {
	if len(b.g.Nodes) == maxNodes {
		b.full = true
		return -1
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return len(b.g.Nodes) - 1
}

// link adds a link. The same one again is counted.
func (b *builder) link(from, to int, kind string, sure Sure, line int) {
	if from < 0 || to < 0 || from == to && kind != "calls" {
		return
	}
	key := linkKey{from, to, kind}
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
	b.links[key] = len(b.g.Links)
	b.g.Links = append(b.g.Links, Link{from, to, kind, sure, 1, line})
}

// leave counts a name that leads out of the project.
func (b *builder) leave(name string, file int) {
	if name == "" || len(name) > 500 {
		return
	}
	if b.outside[name] == nil {
		b.outside[name] = make(map[int]bool)
	}
	b.outside[name][file] = true
}

// finish sorts the graph.
func (b *builder) finish() *Graph {
	g := &b.g
	order := make([]int, len(g.Nodes)) // of the old indexes
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &g.Nodes[i], &g.Nodes[j]
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(i, j))
	})
	now := make([]int, len(order)) // new indexes by the old ones
	nodes := make([]Node, len(order))
	for i, old := range order {
		now[old], nodes[i] = i, g.Nodes[old]
	}
	g.Nodes = nodes
	for i := range g.Links {
		l := &g.Links[i]
		l.From, l.To = now[l.From], now[l.To]
	}
	slices.SortFunc(g.Links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Kind, b.Kind))
	})
	for name, files := range b.outside {
		g.Outside = append(g.Outside, Outside{name, len(files)})
	}
	slices.SortFunc(g.Outside, func(a, b Outside) int {
		return cmp.Or(cmp.Compare(b.Files, a.Files), cmp.Compare(a.Name, b.Name))
	})
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
