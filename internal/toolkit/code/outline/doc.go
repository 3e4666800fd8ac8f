// Package outline describes a project in a text of limited length: the symbols that
// others depend on most ([Rank]), or a graph as a Mermaid diagram ([Mermaid]).
//
// The files, each calling those below it:
//
//	outline.go  the most important symbols, by directory and file
//	mermaid.go  a graph as a diagram
//	text.go     lines of source and labels as plain text
package outline
