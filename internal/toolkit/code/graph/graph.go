package graph

import (
	"context"
	"fmt"

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
	Count    int // how often the text has it
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

// Build reads the dependencies of files, as [Project.Build] does.
func Build(ctx context.Context, files []*code.File, kind Kind) (*Graph, error) {
	return NewProject(files).Build(ctx, kind)
}

// Build reads the dependencies of the files. An error is one of ctx, or of an unknown kind.
func (p *Project) Build(ctx context.Context, kind Kind) (*Graph, error) {
	b := newBuilder(p.index())
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
	b.links, b.g.Links = make(map[uint64]int32, len(b.g.Nodes)), make([]Link, 0, len(b.g.Nodes)) // most nodes have one
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}
