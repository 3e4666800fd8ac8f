package claim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Make creates a directory that this process owns until it closes the returned file.
func Make(dir string, mode fs.FileMode) (*os.File, error) {
	const tries = 100 // a sweep may remove the directory between the two steps
	for range tries {
		if err := os.Mkdir(dir, mode); err != nil {
			return nil, err
		}
		f, err := lock(dir, unix.LOCK_SH) // waits while a sweep holds the lock, which then has removed the directory
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, errors.Join(err, os.Remove(dir))
		}
	}
	return nil, fmt.Errorf("make %s: another process removed it after each attempt", dir)
}

// Join makes this process an owner of an existing directory, in addition to its other
// owners. The error is fs.ErrNotExist if the directory was removed meanwhile.
func Join(dir string) (*os.File, error) { return lock(dir, unix.LOCK_SH) }

// Abandoned reports whether all owners of a directory have ended. If so, every other caller
// gets false until the returned file is closed.
func Abandoned(dir string) (_ *os.File, yes bool) {
	f, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB)
	return f, err == nil
}

// lock locks a directory. The error is fs.ErrNotExist also if the directory is removed
// meanwhile, even if there is a new directory of the same name.
func lock(dir string, how int) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(fd, how)
	}
	if err == nil {
		err = same(f, dir)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

func same(f *os.File, dir string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(dir)
	if err == nil && !os.SameFile(there, locked) {
		return fs.ErrNotExist
	}
	return err
}

// Process returns a name for this process, "PID.START". No other process of its PID
// namespace has the same name until the next boot. Pids are reused, but a pid and a start
// time together identify one process.
func Process() (string, error) {
	start, err := startTime("self")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%s", os.Getpid(), start), nil
}

// Runs reports whether the process with a name from Process still runs. It is also false if
// the process runs in a PID namespace that is not visible here.
func Runs(name string) bool {
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
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", errors.New("read start time of process " + pid + ": too few fields")
	}
	return fields[19], nil
}
