// Package sandbox runs untrusted commands in boxes.
//
// A [Supervisor] owns the boxes of a program. [Supervisor.Open] makes a [Box]
// for what a grant allows: namespaces of its own, a private root, limits, no
// capability, a system call filter, Landlock, a loopback of its own and no way
// out of it but the egress door. A command goes in with [Box.Run] or [Box.Start]
// and comes back as a [Result]; while it runs it is a [Job], and what it writes
// is an [Output].
//
// One init per box, none per command: everything is locked when the box is
// made and inherited by what runs in it, so a command costs little more than a
// plain exec. Each command enters a Landlock domain of its own, which keeps it from
// the other commands as far as the kernel's Landlock can. (Where the host lacks such
// domains, or cgroups that can be killed, each command gets a pid namespace of its own
// instead, and is locked in it.) The init is package boxinit, the connection to it
// package initconn. On this side are these files, each calling those below it:
//
//	host.go                 what this machine offers to boxes
//	host_limits.go          how this machine can enforce limits
//	exposure.go             how much of this machine a box can reach
//	exposure_network.go     how much of the network a box can reach
//	supervisor.go           makes boxes
//	host_init.go            tries what a box needs before a box is made
//	workspace.go            a directory of the host, for boxes
//	regrant.go              what a new policy gives an open box
//	browserbox.go           what the door of a browser's box refused
//	boxusage.go             what a box uses now
//	box.go                  a box
//	start.go                the ways to start a command of a box
//	warm.go                 starts a command in a shell that waits
//	process.go              starts a command as a new process, and follows it to its end
//	control.go              waits for a command, and stops it
//	result.go               how a command ended
//	workspacefile_linux.go  a file of a workspace, for a caller
//	boxfile_linux.go        a file of a box, for a caller
//	overlay_watch.go        what changed in an overlay workspace
//	publish.go              a port of a box, on the host
//	life.go                 when a box has an init
//	park.go                 when an idle box gives up its init
//	warmshell.go            the shell that waits for a command
//	means.go                what is kept for a box, and released in reverse
//	template.go             the root that boxes of a profile share
//	spawn_linux.go          starts inits
//	root.go                 the script by which an init builds a box
//	landlock.go             the Landlock rules of a box
//	overlay.go              the overlay workspace of a box
//	design.go               what a grant means for a box
//	kept.go                 the mounts that outlive an init
//	nest.go                 bounds on the namespaces in a box
//	scratch.go              a layer over files that are shared
//	door.go                 the way out of a box
//	register.go             the boxes of tenants, and their totals
//	entrance.go             a listener of the door
//	trust.go                the authority of the door, in the box
//	execview_linux.go       sees the programs that a box starts
//	home.go                 what boxes of one workspace share
//	execfile_linux.go       the file that an exec leads to
//	execknown_linux.go      the files to which names of programs led before
//	execs.go                what a command started, for its result
//	execfilter.go           the filter that reports execs
//	storage.go              storage on disk
//	storage_loop.go         storage that a file system in a file limits
//	storage_quota.go        storage that project quotas limit
//	streams.go              what a command reads and writes
//	image_linux.go          the program of inits, sealed in memory
//	terminal_linux.go       a terminal
//	cmd.go                  a command, as a caller describes it
//	environ.go              the environment of a command
//	imageroot.go            the image of a box, and its shell
//	watchdog.go             limits memory without a cgroup
//	startwatch.go           ends an init that does not answer
//	initproc.go             the requests to the init, and its replies
//	socket.go               the sockets that the init is asked to make
//	table.go                the commands of a box
//	job.go                  a command that was started
//	output.go               what a command wrote
//	builder.go              writes scripts
//	plan.go                 what a script is made from
//	mount.go                mounts, in the form that the kernel takes
//	host_kernel.go          whether the kernel has filters and Landlock
//	host_around.go          the surroundings of belljar: its user, a container
//	openat2_linux.go        opens a file below a directory
//
// Limits, totals and the kill are package cgroup; the words for limits, which this
// package shares with its callers, are package limit. Package seccomp writes the
// system call filters, package protect keeps what of a workspace a box cannot
// change, and package kernel says how new the kernel is. Package escape tries to get
// out.
//
// A command ends when its main process ends, even if another process keeps its
// output open; the processes that it left are then killed. How well a limit is
// enforced depends on the host; [Box.Limits] reports it.
package sandbox
