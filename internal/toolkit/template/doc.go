// Package template generates files of new projects from the templates of the program:
// Makefiles, READMEs, .gitignore files and notes for agents.
//
// A template has a URI, template://CATEGORY/TOOLCHAIN/VARIANT, and a schema of its
// parameters. [Generate] makes one file, [Scaffold] several; both check the parameters
// first, as [Validate] does. A parameter can never become more than its place in the text:
// each text has a pattern that leaves out what Make, a shell or Markdown would read as
// code. The package writes no file and reads none.
//
// The files, each calling those below it:
//
//	scaffold.go   several files at once
//	drift.go      how far a file is from its template
//	generate.go   one file
//	fill.go       a text with its parameters in their places
//	search.go     finds templates by words
//	store.go      the templates by their URIs
//	validate.go   the parameters of a call against the schema
//	catalog.go    the templates, with their parameters
//	parameter.go  a parameter and its fault
//	uri.go        the parts of a URI
package template
