// Package workspace keeps the changes that boxes make to a directory in layers
// outside of that directory. The changes can be shown, applied to the directory,
// discarded, forked and rolled back.
//
// A Store is a directory with sets. A set consists of a base directory, which only
// Apply changes, a stack of frozen layers, and a top, which is the only layer that
// is written. Layers have the format of overlayfs (Linux,
// Documentation/filesystems/overlayfs.rst) with the option userxattr: a character
// device 0/0 marks a deleted entry, and the attribute user.overlay.opaque a
// directory that hides those below it. Frozen layers never change, so any number of
// sets may share one. Forking a set freezes its top and begins two new tops, so it
// costs the same for a base of any size.
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
// Files that a box could have made are opened by descriptor, beneath an open
// directory, and no link is ever followed.
package workspace

// InBox is where a box has its workspace.
const InBox = "/workspace"
