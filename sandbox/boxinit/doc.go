// Package boxinit contains the first process of a box, the messages between it and its
// supervisor, and the two small helpers that a supervisor starts from the same binary.
//
// The init (bare.go, command.go) is Go without its runtime; docs/decisions says why. The
// helpers are ordinary programs: a process whose argv[0] is KeeperName or
// MapName never reaches main, so the package imports the standard library
// only and runs before nearly everything else is initialised.
//
// The conversation between the supervisor (S) and the init (I), over a
// SOCK_SEQPACKET pair that I finds at descriptor 3; each line is one message,
// with descriptors in brackets:
//
//	S clones I into new user, mount, pid, net, ipc, uts and cgroup namespaces
//	  and maps one user, which is unprivileged on the host
//	S -> I  Script [trees of the host, detached], and a second one for the
//	  namespaces of each command, if commands have any
//	I       makes the calls of the script: it builds the root, moves into it,
//	        and locks itself and all that it will start; if commands have
//	        namespaces, process 1 of each locks itself instead
//	I -> S  OpSocket [sockets of the box's network]; OpKept [mounts that are to
//	  outlive I] and OpListener [listener for every exec], if the script makes
//	  them
//	I -> S  OpReady, or OpFailed with the step and its errno; then I ends
//	S -> I  OpStart [stdin, stdout, stderr, perhaps two more for a warm shell,
//	  perhaps the cgroup to be born in]
//	I       makes the command, with a pipe at DirFile for what its shell reports
//	I -> S  OpStarted, or OpFailed
//	S -> I  OpSignal
//	I -> S  OpEnded, with what the shell reported; or only OpRan in the
//	  place of OpStarted and OpEnded, for a command that was quick
//	S -> I  OpIdle
//	I -> S  OpIdle, with an errno if something would be lost with I
//	S closes; I ends, and the kernel kills what is left
//
// If commands have pid namespaces of their own (FlagNested), a copy of I is
// process 1 of each and sends its messages.
//
// Any number of commands run at the same time. S trusts nothing that I says.
package boxinit
