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
// plain exec. It parts itself from the other commands by a Landlock domain. (Where
// no cgroup can be killed, or there is no Landlock for that, each command has a pid
// namespace of its own, and is locked in it.) The init is package boxinit, the
// connection to it package initconn; on this side are these files, each calling those
// below it:
//
//	host.go, host_limits.go              what this machine offers
//	exposure.go, exposure_network.go     what a box can reach of it
//	supervisor.go, host_init.go          makes boxes; what is tried before that
//	workspace.go                         boxes of one directory,
//	regrant.go, browserbox.go            and what a new policy gives them
//	boxusage.go                          what a box uses now
//	box.go                               a box
//	start.go, warm.go, process.go        its commands: started, by a shell that waits or as
//	                                     a new process, and seen through to their end,
//	control.go, result.go                asked and stopped
//	workspacefile_linux.go               a file that a caller wants of the box
//	boxfile_linux.go, overlay_watch.go
//	publish.go                           its ports, on the host
//	life.go, park.go, warmshell.go       when it has an init, and a shell that waits
//	means.go                             what is kept for it, and released in reverse
//	template.go, spawn_linux.go          its init: started, and given what the box looks
//	root.go, landlock.go, overlay.go     like, as a script, which follows from its grant
//	design.go, kept.go, nest.go, scratch.go
//	door.go, register.go                 its network, from outside; totals of its tenant
//	entrance.go, trust.go
//	execview_linux.go, home.go           what it executes; limits and policy in its workspace
//	execfile_linux.go, execknown_linux.go
//	execs.go, execfilter.go
//	storage.go, storage_loop.go          what it stores, if not in memory
//	storage_quota.go
//	streams.go, image_linux.go           what a command reads and writes
//	terminal_linux.go
//	cmd.go, environ.go, imageroot.go     what a command is given
//	watchdog.go, startwatch.go           memory without a cgroup; an init that is silent
//	initproc.go, socket.go               the init: what it is asked for and answers
//	table.go, job.go, output.go          its commands, and what they have written
//	builder.go, plan.go, mount.go        the words of scripts
//	host_kernel.go, host_around.go       the kernel, and what stands around us
//	openat2_linux.go                     a file below a directory
//
// Limits, totals and the kill are package cgroup; the words for limits, which this
// package shares with its callers, are package limit. Package seccomp writes the
// system call filters, package protect keeps what of a workspace a box cannot
// change, and package kernel says how new the kernel is. Package escape tries to get
// out.
//
// A command ends when its main process ends, even if another process keeps its
// output open; the processes that it left are then killed. How well a limit is
// enforced depends on the host; every result reports it.
package sandbox
