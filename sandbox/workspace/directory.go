package workspace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// directory is what a store is on the disk: its sets, its layers, and what is thrown away.
type directory struct {
	path string
	root *os.File // it, open

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // removes what is in the trash
}

// sweep removes what is in the trash, in the background.
func (d *directory) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.wg.Go(func() {
		dir, err := openDir(d.root, trashDir)
		if err != nil {
			return
		}
		defer dir.Close()
		names, err := listDir(dir)
		if err != nil {
			return
		}
		for _, name := range names {
			_ = removeTree(dir, name) // what stays is tried again at the next Open
		}
	})
}

// trash takes a directory out of sight at once.
func (d *directory) trash(dir, name string) error {
	to := trashDir + "/" + name + "-" + newID()
	if err := unix.Renameat(int(d.root.Fd()), dir+"/"+name, int(d.root.Fd()), to); err != nil {
		return fmt.Errorf("remove %s %s: %w", dir, name, err)
	}
	return nil
}

// CheckName says what is wrong with a name of a set or a checkpoint.
func CheckName(name string) error {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > maxName || strings.Trim(name, plain) != "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("name %q: want 1 to %d letters, digits, dots, dashes and underscores, beginning with a letter or digit", name, maxName)
	}
	return nil
}

// lock is a flock(2) that is held.
type lock struct{ f *os.File }

// free gives the lock back. Closing alone would not: a program that another goroutine
// starts has a copy of the descriptor from its fork to its execve (flock(2)).
func (l *lock) free() {
	if l != nil && l.f != nil {
		_ = unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
		l.f.Close()
	}
}

// tryLock takes a lock that nobody holds; it is nil where somebody does.
func tryLock(dir *os.File, name string, how int) (*lock, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	for {
		err = unix.Flock(fd, how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, nil //nolint:nilnil // documented: held by another is not an error
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &lock{f}, nil
}

// waitLock takes a lock, and waits a bounded time for others who hold it.
func waitLock(dir *os.File, name string, how int) (*lock, error) {
	end := time.NewTimer(lockPatience)
	defer end.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l, err := tryLock(dir, name, how)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-time.After(pause):
		case <-end.C:
			return nil, fmt.Errorf("%w; try again when it is done", ErrBusy)
		}
	}
}

// lock is held while the sets and layers of the store are added, exchanged or
// removed, which never takes long.
func (d *directory) lock() (*lock, error) { return waitLock(d.root, lockName, unix.LOCK_EX) }

// ids are the names of all sets, in order.
func (d *directory) ids() ([]string, error) {
	dir, err := openDir(d.root, setsDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := listDir(dir)
	slices.Sort(names)
	return names, err
}
