// Package debt finds comments in which authors admit that something is left to do:
// self-admitted technical debt, after Potdar and Shihab, 2014.
//
// A comment admits debt by a marker (TODO, FIXME, XXX, HACK, BUG, KLUDGE) or by a phrase
// such as "not implemented yet" or "ugly workaround". A marker begins a sentence, or a
// colon or a name in parentheses follows it. Strings are never searched. The kind and the
// severity of the debt follow from the marker and the words of the remark.
//
// The files, each calling those below it:
//
//	find.go    the remarks of files
//	cue.go     where a comment admits debt
//	kind.go    kind and severity of a remark
//	remark.go  comments become blocks of words
package debt
