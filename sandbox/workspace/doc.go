// Package workspace keeps what boxes change of a directory beside that
// directory, in layers: what was changed can be looked at, applied to the
// directory, thrown away, forked and rolled back.
//
// A Store is a directory that holds sets. A set is a base directory, which
// nothing here changes but Apply, a stack of frozen layers, and a top, which is
// the one layer that is written. Layers have the format of overlayfs (Linux,
// Documentation/filesystems/overlayfs.rst), made with the option userxattr: a
// character device 0/0 stands for what was deleted, the attribute
// user.overlay.opaque for a directory that hides those below it. Frozen layers
// never change, so any number of sets may share one, and to fork a set is to
// freeze its top and to begin two new ones, however large the base is.
//
// The package knows nothing of boxes. A caller that mounts a set takes a Lease.
// The set is live until the lease is closed: its layers cannot be exchanged.
//
//	store.go    the directory, its locks, and what it holds
//	set.go      what a set is, on disk
//	fork.go     Fork, Checkpoint, Rollback, Discard
//	layer.go    making, freezing, copying and removing layers
//	merge.go    several layers as one directory
//	changes.go  what differs from the base
//	unified.go  the same for people and patch(1)
//	apply.go    taking it over into the base
//
// Everything that a box could have made is reached by descriptors, beneath a
// directory that is held open, and no link is ever followed.
package workspace
