// Package seccomp writes the system call filters of boxes. A box has two: one
// says which calls its commands may make, the other makes the supervisor see what
// they execute. The sandbox is its only user; its init installs the programs.
//
// The files, each calling those below it:
//
//	filter.go    the calls that boxes may make
//	exec.go      reports the programs that boxes execute
//	table.go     a decision for each system call, in addition to Docker's profile
//	nest.go      the same for a box in which a browser makes namespaces
//	compile.go   makes a program from a table
//	rule.go      what a decision is: an action, which may depend on arguments
//	abi.go       the architectures, and syscalls.go their numbers
package seccomp
