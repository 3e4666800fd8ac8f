// Package debt finds comments in which authors admit that something is left to do:
// self-admitted technical debt, after Potdar and Shihab, 2014.
//
// A comment admits debt by a marker (TODO, FIXME, XXX, HACK, BUG, KLUDGE) where a
// sentence begins or with a colon or a name in brackets behind it, or by a phrase such as
// "not implemented yet" or "ugly workaround". Strings are never looked at. The kind of
// debt follows from the words of the remark, and so does its severity.
//
// The files, each calling those below it:
//
//	find.go    the remarks of files
//	cue.go     where a comment admits debt
//	kind.go    kind and severity of a remark
//	remark.go  comments become blocks of words
package debt
