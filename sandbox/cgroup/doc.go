// Package cgroup limits what boxes use, counts it, and kills what runs in them, by
// the control groups of this host: trees of version 1, of version 2, both, or none.
//
// A supervisor has a [Tree], each box a [Group] in it, and each command a [Leaf] of
// that where version 2 can be written. The directories are
//
//	belljar.PID.START.N/tenant-T/box-B/cC
//
// in the cgroup that belljar itself runs in, which for an ordinary user may be one that
// belljar asked systemd for (package scope): one of the supervisor, one of the
// tenant with the tenant's totals, one of the box with its limits, and one of the
// command, which has no limits and is there for the kill. [Tree.Enforcements] says
// what the host cannot enforce. On a host without a memory controller, [Overweight]
// finds the command to end.
//
//	oom.go                  a box's out-of-memory kills are reported
//	group.go, leaf.go       a box and its commands
//	tenant.go               the totals of a tenant's boxes
//	tree.go                 a supervisor's directories
//	widen.go                asks the user's systemd for the controllers that they lack
//	keeper.go               removes them if the supervisor is killed
//	hierarchy.go            what is mounted, and what of it may be used
//	limits.go, disk.go      the files by which limits are set
//	memory.go, files.go     what processes use, and what the kernel counts
//
// A file calls those below it, except that the Tree ends the watch in oom.go. Only
// package sandbox uses this package, which starts no process but the keeper. All
// methods of Tree and Group are safe for concurrent use, those of one Leaf are not.
package cgroup
