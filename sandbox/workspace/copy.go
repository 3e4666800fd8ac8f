package workspace

import (
	"errors"
	"fmt"
	"maps"
	"os"

	"golang.org/x/sys/unix"
)

// copyLayers makes one new layer that has the content of several layers, given from the
// highest to the lowest. A single layer is copied, for example one that a box works in.
// Blocks are shared if the file system can. A change that a box makes meanwhile may be in
// the copy or not, file by file. A file that changes while it is copied is copied again,
// and is an error after copyTries times. The caller holds the store's lock.
func (d *directory) copyLayers(m *meta, layers []string) (string, error) {
	from, err := d.uppers(layers)
	if err != nil {
		return "", err
	}
	defer from.close()
	id, err := d.newLayer(m)
	if err != nil {
		return "", err
	}
	err = d.copyInto(layersDir+"/"+id, from, &copying{m: m, left: maxEntries})
	if err == nil {
		// The caller may remove the original next, so the copy must be durable.
		err = unix.Syncfs(int(d.root.Fd()))
	}
	if err != nil {
		_ = d.trash(layersDir, id)
		return "", fmt.Errorf("copy layer: %w", err)
	}
	return id, nil
}

// copyInto fills the new layer at a path with the content of other layers.
func (d *directory) copyInto(at string, from merged, c *copying) error {
	to, err := openDir(d.root, at+"/"+upperDir)
	if err != nil {
		return err
	}
	defer to.Close()
	c.root, c.links = to, map[[2]uint64]string{}
	if err := c.fill(to, from, ""); err != nil {
		return err
	}
	return c.dress(to, from[0].dir)
}

type copying struct {
	m     *meta
	left  int                 // number of entries that may still be copied
	pace  func(n int64) error // as in copyContent; nil if nothing bounds the copy
	prior *os.File            // older copy from which unchanged files are taken; may be nil
	root  *os.File            // upper directory of the new layer
	links map[[2]uint64]string
}

func (c *copying) fill(to *os.File, from merged, at string) error {
	names, err := from.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if c.left--; c.left < 0 {
			return fmt.Errorf("too many changed files: %w", errBound)
		}
		if c.pace != nil {
			if err := c.pace(0); err != nil {
				return err
			}
		}
		path := join(at, name)
		if err := tooDeep(path); err != nil {
			return err
		}
		e, err := from.entry(name)
		if err == nil && e != nil {
			err = c.one(to, from, path, name, e)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: the box has removed the file meanwhile
			return about(path, err)
		}
	}
	return nil
}

func (c *copying) one(to *os.File, from merged, path, name string, e *entry) error {
	fd := int(to.Fd())
	switch {
	case e.whiteout:
		return unix.Mknodat(fd, name, unix.S_IFCHR, 0)
	case isDir(e.st):
		return c.dir(to, from, path, name)
	case isLink(e.st):
		target, err := readLink(e.at.dir, name)
		if err == nil {
			err = unix.Symlinkat(target, fd, name)
		}
		if err == nil {
			err = c.ownAt(to, name)
		}
		return err
	case isRegular(e.st):
		return c.file(to, path, name, e)
	case kindOf(e.st) == unix.S_IFIFO || kindOf(e.st) == unix.S_IFSOCK:
		if err := unix.Mknodat(fd, name, e.st.Mode, 0); err != nil {
			return err
		}
		return c.ownAt(to, name)
	}
	return fmt.Errorf("a %s has no place in a layer", typeOf(e.st))
}

// ownAt does the same as own for a file that cannot be opened.
func (c *copying) ownAt(dir *os.File, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return unix.Fchownat(int(dir.Fd()), name, int(c.m.UID), int(c.m.GID), unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copying) dir(to *os.File, from merged, path, name string) error {
	sub, opaque, err := from.enter(name)
	if err != nil {
		return err
	}
	defer sub.close()
	if len(sub) == 0 {
		return unix.ENOENT
	}
	if err := unix.Mkdirat(int(to.Fd()), name, 0o700); err != nil {
		return err
	}
	dir, err := openDir(to, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if opaque {
		if err := unix.Fsetxattr(int(dir.Fd()), attrOpaque, []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := c.fill(dir, sub, path); err != nil {
		return err
	}
	return c.dress(dir, sub[0].dir)
}

// copyTries is how often a file that a box changes meanwhile is copied.
const copyTries = 3

func (c *copying) file(to *os.File, path, name string, e *entry) error {
	key := [2]uint64{e.st.Dev, e.st.Ino}
	if e.st.Nlink > 1 {
		if first, ok := c.links[key]; ok {
			return unix.Linkat(int(c.root.Fd()), first, int(to.Fd()), name, 0)
		}
	}
	from, err := openFile(e.at.dir, name)
	if err != nil {
		return err
	}
	defer from.Close()
	if c.again(to, path, name, from) {
		c.links[key] = path
		return nil
	}
	fd, err := unix.Openat(int(to.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for range copyTries {
		if err = steady(f, from, c.pace); !errors.Is(err, errUnsteady) {
			break
		}
	}
	if err != nil {
		return err
	}
	c.links[key] = path
	return c.dress(f, from)
}

// again makes a hard link to the file of the older copy if both files are the same in every
// byte and attribute. Frozen layers never change, so they may share a file. again reads
// both files and writes nothing.
func (c *copying) again(to *os.File, path, name string, from *os.File) bool {
	if c.prior == nil {
		return false
	}
	old, err := openFile(c.prior, path)
	if err != nil {
		return false
	}
	defer old.Close()
	var now, was, end unix.Stat_t
	if unix.Fstat(int(from.Fd()), &now) != nil || unix.Fstat(int(old.Fd()), &was) != nil {
		return false
	}
	// Owner and ctime are not compared: all layers have the same owner, and nobody can set
	// the ctime of a copy.
	if now.Size != was.Size || now.Mtim != was.Mtim || now.Mode != was.Mode || now.Size > callBytes {
		return false
	}
	if same, err := sameContent(from, old, now.Size); err != nil || !same {
		return false
	}
	mine, err := attrs(from)
	if err != nil {
		return false
	}
	if theirs, err := attrs(old); err != nil || !maps.Equal(mine, theirs) {
		return false
	}
	if unix.Fstat(int(from.Fd()), &end) != nil || end.Ctim != now.Ctim || end.Size != now.Size {
		return false
	}
	return unix.Linkat(int(c.prior.Fd()), path, int(to.Fd()), name, 0) == nil
}

// dress gives a copy the attributes, mode and times of the original, and the owner of the
// base.
func (c *copying) dress(to, from *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	all, err := attrs(from)
	if err != nil {
		return err
	}
	for name, value := range all {
		if err := unix.Fsetxattr(int(to.Fd()), name, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := own(to, c.m); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), st.Mode&0o7777); err != nil {
		return err
	}
	return setTimes(to, &st)
}

// setTimes gives a file the modification time in st.
func setTimes(f *os.File, st *unix.Stat_t) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, st.Mtim}
	return unix.UtimesNanoAt(int(f.Fd()), "", times, unix.AT_EMPTY_PATH)
}
