// Package statedir manages the directory in which servers keep what must outlive them. It
// measures its parts, backs up what cannot be made again, and restores a backup.
//
//	parts.go    the parts of a state directory, and the bound of each part
//	sizes.go    the size of each part on the disk
//	backup.go   writes the saved parts into a tar archive, while servers run
//	restore.go  makes a state directory from an archive, while no server runs
//	prune.go    removes files that are no longer needed
//
// Boxes write to some of the files, so this package follows no symbolic link, opens only
// regular files, and trusts neither names nor sizes in an archive. Only cmd/belljar uses
// this package, which starts no process.
package statedir
