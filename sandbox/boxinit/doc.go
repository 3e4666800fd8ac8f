// Package boxinit is the first process of a box, and the two small helpers
// that a supervisor starts from the same binary.
//
// Importing the package is enough: a process whose argv[0] is InitName,
// KeeperName or MapName never reaches main. It imports the standard library
// only, so that it runs before nearly everything else is initialised.
//
// The hand-over between the supervisor (S) and the init (I), over a
// SOCK_SEQPACKET pair that I finds at descriptor 3; each line is one message,
// JSON, with descriptors in brackets:
//
//	S clones I into new user, mount, pid, net, ipc, uts and cgroup namespaces
//	  and maps one user, who is nobody on the host
//	S -> I  Plan [the host's trees, detached]
//	I       builds the root and moves into it (root.go), then locks itself and
//	        all that it will start (lock.go)
//	I -> S  ready, or failed with the step and its errno; then I ends
//	S -> I  start [stdin, stdout, stderr, perhaps the cgroup to be born in]
//	I -> S  started, or failed
//	S -> I  signal, kill
//	I -> S  ended
//	S closes; I ends, and the kernel kills what is left
//
// Any number of commands run at once. S trusts nothing that I says.
package boxinit
