// Package claim marks directories, for example control groups, so that other processes
// recognize the directories that a killed process has left. The mark is a lock (flock(2)),
// which the kernel releases when the process ends. A pid could not be the mark: in another
// PID namespace, for example in a container that shares the directory, the same process has
// another pid.
package claim
