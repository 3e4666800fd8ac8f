package protect

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is the saved state of a file or directory, to restore it. A nil entry
// means that the path did not exist.
type entry struct {
	mode, uid, gid uint32
	id             ident
	link           string
	text           []byte
	kids           map[string]*entry
	bare           bool // whether it was saved without its content
}

// copier saves entries, up to its bounds.
type copier struct {
	files int
	bytes int64
	// whether files named *.sample in a directory that is saved are left out: they never
	// run, and may change freely
	samples bool
}

// take returns the present state of name in dir, or nil if it does not exist.
func (k *copier) take(dir *os.File, name string, depth int) (*entry, error) {
	st, err := statAt(dir, name)
	if st == nil || err != nil {
		return nil, err
	}
	e := &entry{mode: st.Mode, uid: st.Uid, gid: st.Gid, id: identOf(st)}
	if depth > 0 || !isDir(st) {
		k.files--
	}
	e.bare = k.files < 0 || depth > maxKeptDepth
	switch {
	case isLink(st):
		e.link, err = readlinkAt(dir, name)
	case e.bare:
	case isRegular(st):
		e.text, err = readAt(dir, name, min(k.bytes, maxConfigText))
		k.bytes -= int64(len(e.text))
		e.bare = err != nil
		err = nil // what cannot be read cannot be restored, and is compared by its identity
	case isDir(st):
		err = k.takeKids(e, dir, name, depth)
	default:
		e.bare = true
	}
	return e, gone(err)
}

func (k *copier) takeKids(e *entry, dir *os.File, name string, depth int) error {
	d, err := openDir(dir, name, 0)
	if err != nil {
		e.bare = true
		return nil // like a file that cannot be read
	}
	defer d.Close()
	var names []string
	err = eachEntry(d, func(entry dirent) bool {
		if k.samples && depth == 0 && strings.HasSuffix(entry.name, ".sample") {
			if st, err := statAt(d, entry.name); err == nil && isRegular(st) {
				return true
			}
		}
		names = append(names, entry.name)
		return len(names) <= max(k.files, 0)
	})
	if err != nil || len(names) > max(k.files, 0) {
		e.bare = true
		return nil
	}
	e.kids = make(map[string]*entry, len(names))
	for _, n := range names {
		kid, err := k.take(d, n, depth+1)
		if err != nil {
			return err
		}
		if kid != nil {
			e.kids[n] = kid
		}
	}
	return nil
}

// put restores name in dir, where it is absent.
func (e *entry) put(dir *os.File, name string) error {
	switch e.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		err := mayWrite(dir, func() error { return unix.Symlinkat(e.link, int(dir.Fd()), name) })
		if err != nil {
			return err
		}
		return own(unix.Fchownat(int(dir.Fd()), name, int(e.uid), int(e.gid), unix.AT_SYMLINK_NOFOLLOW))
	case unix.S_IFREG:
		if e.bare {
			return errBound
		}
		return replaceAt(dir, name, e.text, e.mode, e.uid, e.gid)
	case unix.S_IFDIR:
		if e.bare {
			return errBound
		}
		if err := mayWrite(dir, func() error { return unix.Mkdirat(int(dir.Fd()), name, 0o700) }); err != nil {
			return err
		}
		d, err := openDir(dir, name, 0)
		if err != nil {
			return err
		}
		defer d.Close()
		for n, kid := range e.kids {
			if err := kid.put(d, n); err != nil {
				return err
			}
		}
		if err := own(unix.Fchown(int(d.Fd()), int(e.uid), int(e.gid))); err != nil {
			return err
		}
		return unix.Fchmod(int(d.Fd()), e.mode&0o7777)
	}
	return errBound // a socket or FIFO is not restored
}
