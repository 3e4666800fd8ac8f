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

// directory is a store on the disk: its sets, its layers, and its trash.
type directory struct {
	path string
	root *os.File // the open directory

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // goroutines that empty the trash
}

// sweep empties the trash in the background.
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
			_ = removeTree(dir, name) // a failure is tried again at the next Open
		}
	})
}

// trash moves a directory into the trash, so that it is out of its place immediately.
func (d *directory) trash(dir, name string) error {
	to := trashDir + "/" + name + "-" + newID()
	if err := unix.Renameat(int(d.root.Fd()), dir+"/"+name, int(d.root.Fd()), to); err != nil {
		return fmt.Errorf("remove %s %s: %w", dir, name, err)
	}
	return nil
}

// CheckName returns an error if a name is not valid for a set or a checkpoint.
func CheckName(name string) error {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > maxName || strings.Trim(name, plain) != "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		return fmt.Errorf("name %q: want 1 to %d letters, digits, dots, dashes and underscores, beginning with a letter or digit", name, maxName)
	}
	return nil
}

// lock is a flock(2) that this program holds.
type lock struct{ f *os.File }

// free releases the lock. Closing the file alone would not: a program that another
// goroutine starts has a copy of the descriptor from its fork to its execve (flock(2)).
func (l *lock) free() {
	if l != nil && l.f != nil {
		_ = unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
		l.f.Close()
	}
}

// tryLock takes a lock. It returns nil if another holder has the lock.
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

// waitLock takes a lock. It waits at most lockPatience for other holders.
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
			return nil, fmt.Errorf("%w; try again when that program has ended", ErrBusy)
		}
	}
}

// lock takes the lock that is held while sets and layers of the store are added, exchanged
// or removed. That never takes long.
func (d *directory) lock() (*lock, error) { return waitLock(d.root, lockName, unix.LOCK_EX) }

// ids returns the names of all sets, sorted.
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
