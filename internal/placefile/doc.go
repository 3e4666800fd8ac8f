// Package placefile packs a place, which is its workspace and its state, into one stream. From
// such a stream it makes the same directory elsewhere: for a place that moves to another
// worker, and for a place that is kept in a file.
//
// The stream is a tar archive compressed with zstd: first a Manifest, then every file in the
// order of the names, and at the end the number of files and a digest of their names, modes,
// links and contents. Unpack reads back from the disk what it has written, and compares it
// with the digest.
//
//	pack.go    a directory becomes a stream
//	unpack.go  a stream becomes a directory
//	walk.go    all files of a directory in one order, and their digest
//
// Boxes write to the workspace, and a file may come from anywhere. So this package
// follows no symbolic link out of its part of the directory, opens only regular files, keeps
// no set-id bit, and trusts neither names nor sizes.
package placefile
