package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errBusy is returned if a lock is held elsewhere.
var errBusy = errors.New("it is locked")

// flock takes a lock on an open file, or returns errBusy. unlock releases the lock, and so
// does the end of the process (flock(2)).
func flock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errBusy
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// unlock releases a lock and closes the file. Closing alone would release the lock late: a
// program that another goroutine starts has a copy of the descriptor until its execve.
func unlock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil && !errors.Is(err, unix.EBADF) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// tryLock takes the lock of that name, or returns errBusy.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the image store: %w", err)
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockPause is the time between two attempts: a call that waits in the kernel could not be
// cancelled.
const lockPause = 20 * time.Millisecond

// lock waits for the lock of that name, until ctx ends.
func lock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path)
		if !errors.Is(err, errBusy) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another import: %w", context.Cause(ctx))
		case <-time.After(lockPause):
		}
	}
}
