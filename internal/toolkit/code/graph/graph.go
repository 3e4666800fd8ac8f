package graph

import (
	"context"
	"fmt"

	"belljar.dev/internal/toolkit/code"
)

// Kind names the dependencies that a graph contains.
type Kind string

// The kinds of graphs.
const (
	Imports     Kind = "import-graph"    // files, and packages of Go, and what they import
	Calls       Kind = "call-graph"      // functions, and the functions that they call
	Inheritance Kind = "inheritance"     // types, and the types that they extend, implement or embed
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
	Possible Sure = iota // only the name matches a declaration
	Likely               // the name matches, and the imports of the file or the bases of a type do too
	Certain              // the rules of the language lead to the declaration
)

// String returns the word for s.
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
	Name     string // path of a file, import path of a package, label of a function
	Path     string // path of its file; for a package, its directory
	Line     int    // line of its name; 0 for a file or a package
	First    int    // first line
	Last     int    // last line
	Exported bool
	Test     bool // runs only in tests
}

// Link is a dependency of one node on another. From and To are indexes of nodes.
type Link struct {
	From, To int
	Kind     string // imports, calls, inherits or uses
	Sure     Sure
	Count    int // number of places in the text with this dependency
	Line     int // line of the first such place, in the file of From
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
	Nodes      []Node // sorted by path, line and name
	Links      []Link // sorted by their nodes and kind; each link once
	Outside    []Outside
	Unresolved int // calls for which no declaration was found, most of them outside of the project
	Gaps       []code.Gap
}

// Build reads the dependencies of files, as [Project.Build] does.
func Build(ctx context.Context, files []*code.File, kind Kind) (*Graph, error) {
	return NewProject(files).Build(ctx, kind)
}

// Build reads the dependencies of the files. It returns an error only if ctx ends or the
// kind is unknown.
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
	b.links, b.g.Links = make(map[uint64]int32, len(b.g.Nodes)), make([]Link, 0, len(b.g.Nodes)) // most nodes have a link
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}
