// Package procfs reads and writes small files of the kernel, in /proc and in the file
// systems of control groups.
//
// [Write] and [Open] do not use os.OpenFile. It would add such files to the runtime's
// poller, because they can be polled, and this costs one more system call for each file.
package procfs

import (
	"os"

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
