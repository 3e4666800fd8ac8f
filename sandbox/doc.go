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
// connection to it package initconn; on this side
//
//	supervisor.go, spawn_linux.go   make a box
//	root.go, landlock.go            what it looks like, as a script for its init
//	box.go, cmd.go                  what it can be asked for
//	means.go                        what is kept for it, and released in reverse
//	life.go, park.go                when it has an init
//	initproc.go, late.go            that init: what it is asked for and answers
//	table.go, job.go, streams.go    its commands, each seen through to its end
//	warm.go                         a shell that is started before it is needed
//	overlay.go, imageroot.go        an overlay for its workspace, an image for its root
//	door.go, entrance.go, socket.go its network, from outside
//	trust.go                        the authority of its door
//	publish.go                      its ports, on the host
//	watchdog.go                     memory, where no cgroup limits it
//	storage.go                      what a box stores, if not in memory
//	host.go, exposure.go            what this machine offers, and what a box can reach of it
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
