// Package code describes source files: what was read of each, without a judgement of it.
//
// The packages below it fill and read these types. They start no program and open no
// connection. [belljar.dev/internal/toolkit/code/lex] makes a [File] from a text; clone,
// graph, history, names and debt measure files. If a number could not be measured, it is
// absent, and a [Gap] says why. No value is a default or an estimate.
//
// The files, each calling those below it:
//
//	tree.go      the inventory of a project
//	read.go      opens directories and regular files, and nothing else
//	ignore.go    git's ignore files
//	glob.go      patterns for paths
//	file.go      one source file
//	language.go  which language a file is written in
//	plain.go     the table of the languages without a lexer of their own
package code
