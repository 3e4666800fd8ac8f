// Package statedir manages the state directory, in which servers keep what must outlive
// them. The package measures the parts of the directory, backs up those that cannot be made
// again, and restores a backup.
//
//	parts.go    the parts of a state directory, and the bound of each part
//	sizes.go    the size of each part on the disk
//	backup.go   writes the saved parts into a tar archive, while servers run
//	restore.go  makes a state directory from an archive, while no server runs
//	prune.go    removes files that are no longer needed
//
// Boxes write to some of the files, so below the state directory this package follows no
// symbolic link and opens only regular files. It trusts neither names nor sizes in an
// archive, and starts no process.
package statedir
