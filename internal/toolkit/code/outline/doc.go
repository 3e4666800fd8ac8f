// Package outline writes what a project consists of as a text that fits: the symbols
// that others depend on most ([Rank]), and a graph as a Mermaid diagram ([Mermaid]).
//
// The files, each calling those below it:
//
//	outline.go  the most important symbols, by directory and file
//	mermaid.go  a graph as a diagram
//	text.go     lines of source and labels as plain text
package outline
