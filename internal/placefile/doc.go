// Package placefile packs a place into one stream, its workspace and its state, and makes the
// same directory of such a stream elsewhere: for a place that moves to another worker, and for
// one that is kept in a file.
//
// The stream is a tar archive in zstd: a Manifest first, then every file in order of its
// name, and behind them their number and a digest of names, modes, links and contents. Unpack
// reads what it has written back from the disk, and compares that with the digest.
//
//	pack.go    a directory becomes a stream
//	unpack.go  a stream becomes a directory
//	walk.go    all files of a directory in one order, and their digest
//
// Boxes write to the workspace, and a file may come from anywhere. So nothing here follows
// a symbolic link out of its part of the directory, opens anything but regular files,
// keeps a set-id bit, or believes names and sizes.
package placefile
