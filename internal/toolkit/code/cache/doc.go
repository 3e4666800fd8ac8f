// Package cache keeps what was read of source files, by what they contain, so that a
// file that did not change is not parsed again.
//
// A cache lies in the home of the box, where the agent can write. An agent that forges an
// entry deceives itself. The entries are checked all the same, so that none of them makes
// the analyses fail. A segment is the entries of one run in one file, which is written
// whole or not at all; the oldest go where all are too large.
//
// The files, each calling those below it:
//
//	store.go    entries, found by what a file contains
//	segment.go  the entries of one run in one file
//	codec.go    a file as bytes
package cache
