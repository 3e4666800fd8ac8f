package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Tree is an image in use: while it is open, nobody can remove the image.
type Tree struct {
	Image
	// Root is the directory of the unpacked file system. Nothing in it may be
	// changed, and no path in it may be followed from outside of a box: its
	// links lead wherever the image's maker wanted.
	Root string

	dir *os.File // the directory, which holds the lock
}

// Use opens the image of that name for a box. The error is ErrUnknown if no image
// has that name. The caller must Close the Tree.
func (s *Store) Use(name string) (*Tree, error) {
	// If an entry is removed or replaced between two steps, it is looked for again.
	for range 8 {
		img, err := s.Get(name)
		if err != nil {
			return nil, err
		}
		sub, err := digestDir(img.Digest)
		if err != nil {
			return nil, fmt.Errorf("use image %q: %w", name, err)
		}
		path := s.path(treesDir, sub)
		dir, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("use image %q: %w", name, err)
		}
		if flock(dir, unix.LOCK_SH) == nil && same(dir, path) {
			return &Tree{Image: img, Root: filepath.Join(path, rootName), dir: dir}, nil
		}
		dir.Close()
	}
	return nil, fmt.Errorf("use image %q: it is being removed: %w", name, ErrUnknown)
}

// same reports whether path still leads to the open file.
func same(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// Close releases the tree. It may be called twice.
func (t *Tree) Close() error {
	if err := unlock(t.dir); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("close image: %w", err)
	}
	return nil
}

// Runs reports whether a box of the image finds a program under an absolute
// path. Links are followed as they are in the box.
func (t *Tree) Runs(path string) bool {
	root, err := unix.Open(t.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	st, err := statIn(root, path)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0
}

// statIn returns what a path leads to for a process whose root is the directory.
func statIn(root int, path string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	err = unix.Fstat(fd, &st)
	return st, err
}
