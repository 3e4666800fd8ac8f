// Package clone finds code that exists more than once.
//
// A clone has one of four kinds. Exact places differ in layout and comments only.
// Renamed places differ in names and literals too. Gapped places also differ in pieces of
// a few lines. Semantic places are functions with mostly the same short runs of tokens
// after common idioms were written in one way (i++ and i += 1, a < b and b > a). What the
// functions do is not examined.
//
// The first three kinds work on one long row of tokens. The first window of that row
// with a certain content is kept. Each later window with the same content begins a
// match, which is verified token by token and extended. The work is linear in the
// number of tokens: a match is not searched again inside itself, places never overlap
// in one file, and the search beyond gaps has a budget. Functions are compared by the
// sets of their runs of three tokens, and only those pairs that share one of their
// rarest runs (prefix filtering after Chaudhuri, Ganti and Kaushik, 2006, with the
// position filter of Xiao, Wang, Lin and Yu, 2008). Unlike MinHash, this finds every
// pair above the threshold. If a bound cuts the work, a gap says so.
//
// The files, each calling those below it:
//
//	distinct.go  clones that say something new
//	find.go    the clones of a set of files
//	match.go   places that resemble a snippet
//	result.go  places, groups of them, and the lines that they cover
//	gapped.go  equal pieces joined over gaps
//	alike.go   functions with similar sets of runs
//	func.go    the sets of runs of functions
//	repeat.go  equal runs of tokens
//	options.go  what is a clone: kinds, thresholds, lengths
//	row.go     the tokens of all files in one row
package clone
