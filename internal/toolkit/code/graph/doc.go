// Package graph reads which files, functions and types of a project depend on which
// ([Build]), measures such a graph ([Graph.Measure]), and finds functions that nothing
// reaches ([Dead]) and places where one language calls another ([Foreign]).
//
// Each link states how sure it is. The imports of a file are known by the rules of its
// language. Many calls are linked by their name only ([Possible]), because this package
// knows few types of values: those of receivers and parameters in Go.
//
// The files, each calling those below it:
//
//	graph.go       the graph: its nodes, its links, and how it is built
//	imports.go     links between files
//	calls.go       links between functions
//	types.go       links between types, and from functions to types
//	builder.go     how nodes and links are collected
//	scope.go       what the names in a file can mean
//	dead.go        functions that nothing reaches
//	roots.go       what reaches a function from outside
//	foreign.go     places where one language calls another
//	index.go       finds declarations by their names
//	resolve.go     finds the files that imports lead to
//	golang.go      imports in Go
//	rust.go        imports in Rust
//	python.go      imports in Python
//	script.go      imports in TypeScript and JavaScript
//	clang.go       imports in C, C++ and Java
//	paths.go       paths, languages and names
//	measure.go     the metrics of a graph
//	rank.go        PageRank
//	between.go     betweenness and closeness
//	cluster.go     clustering coefficients and modularity
//	components.go  what is connected, and cycles
//	links.go       nodes by name, links as lists of neighbours, gaps
package graph
