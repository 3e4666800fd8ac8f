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
// The files, each calling those below it:
//
//	prune.go             discards sets that have no use any more
//	store.go             the directory, and what it holds
//	apply.go, put.go     taking the changes of a set over into its base
//	lease.go             a set while it is mounted
//	fork.go, call.go     Fork, Checkpoint, Rollback, Discard; checkpoints of calls
//	mark.go, copy.go     whether a call changed something; copying layers
//	unified.go           the changes for people and patch(1)
//	changes.go           what differs from the base
//	choose.go            the paths that somebody asks for
//	digest.go, text.go   a diff has a digest, by which Apply knows it; texts line by line
//	journal.go           what an Apply that was cut off has left to do
//	collect.go           the layers that no set uses
//	content.go, seen.go  comparing files; the paths of the base that a set changed
//	set.go               what a set is, on disk
//	merge.go             several layers as one directory
//	layer.go             a layer: making and freezing it
//	directory.go         the directory's names and locks
//	beneath_linux.go     files by descriptor
//
// Files that a box could have made are opened by descriptor, beneath an open
// directory, and no link is ever followed.
package workspace

// InBox is where a box has its workspace.
const InBox = "/workspace"
