// Package cache keeps what was read of source files, so that a file with the same path and
// the same content is not parsed again.
//
// A cache lies in the home of the box, where the agent can write. An agent that forges an
// entry deceives only itself. The entries are checked nevertheless, so that a damaged or
// forged one does not make an analysis fail. A segment is a file with the entries of one
// run, which is written completely or not at all. If there are too many segments, or if they
// are too large together, the oldest are removed.
//
// The files, each calling those below it:
//
//	store.go    entries, found by what a file contains
//	segment.go  the entries of one run in one file
//	codec.go    a file as bytes
package cache
