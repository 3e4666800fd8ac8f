// Package claim marks directories that a killed process leaves behind, such as control
// groups, for the processes that still run. A process that finds one can tell by its lock
// (flock(2)), which is the kernel's and ends with the process. Pids cannot tell: in
// another PID namespace, as in a container that shares the directory, they are others.
package claim
