// Package procfs reads and writes small files of the kernel, in /proc and in the
// file systems of control groups, and names processes by what /proc says of them.
//
// [Write] and [Open] do without package os, which would add such files to the
// runtime's poller, because they can be polled: a system call more for each.
package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Write writes a text to a file of the kernel in one call.
func Write(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// Open opens a file or directory of the kernel for reading.
func Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Self returns a name for this process, "PID.START", that no other process of this
// machine has until the next boot. Pids are reused, but a pid and a start time
// together identify one process.
func Self() (string, error) {
	start, err := startTime("self")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%s", os.Getpid(), start), nil
}

// Alive reports whether the process still runs for which Self returned the name.
func Alive(name string) bool {
	pid, start, _ := strings.Cut(name, ".")
	now, err := startTime(pid)
	return err == nil && now == start
}

// startTime returns field 22 of /proc/pid/stat (proc_pid_stat(5)).
func startTime(pid string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", err
	}
	rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", fmt.Errorf("read start time of process %s: %d fields", pid, len(fields))
	}
	return fields[19], nil
}
