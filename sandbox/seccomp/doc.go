// Package seccomp writes the system call filters of boxes. A box has two: one
// says which calls its commands may make, the other makes the supervisor see what
// they execute. The sandbox is its only user; its init installs the programs.
//
// The files, each calling those below it:
//
//	filter.go    what boxes may call
//	exec.go      what they execute, reported
//	table.go     a fate for each system call, beside Docker's profile
//	nest.go      the same where a browser makes namespaces of its own
//	compile.go   from a table to a program
//	rule.go      what a fate is: an action, by arguments
//	abi.go       the architectures, and syscalls.go their numbers
package seccomp
