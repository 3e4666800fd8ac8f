// Package statedir looks after the directory in which servers keep what must outlive them:
// how large its parts are, a backup of what cannot be made again, and the way back.
//
//	parts.go    what is in a state directory, and what bounds each part
//	sizes.go    how much of the disk each part has
//	backup.go   writes what is worth keeping into a tar archive, while servers run
//	restore.go  makes a state directory of an archive, while none runs
//	prune.go    removes what nobody misses
//
// Boxes write to some of the files, so nothing here follows a symbolic link, opens
// anything but regular files, or believes the names and sizes in an archive. Only
// cmd/belljar uses this package, which starts nothing.
package statedir
