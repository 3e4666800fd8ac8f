package protect

import (
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// A file that runs with the rights of its owner, or with capabilities, is meant for other
// users of the host. The kernel removes these rights from a file that somebody writes to,
// but not if the write goes through a shared mapping (Linux: file_remove_privs is called by
// write(2) and not by a page fault), and a box works with the rights of the workspace's
// owner. So such a file is pinned. Such files are looked for when a server starts; a box
// cannot make one itself (package seccomp).

const (
	maxSetIDs = 64     // number of such files; more are only reported
	maxWalked = 50_000 // entries among which they are looked for, the upper levels first
)

// findSetIDs looks for files that give rights away, in addition to those that an earlier
// server knew.
func (l *look) findSetIDs() {
	p := l.p
	queue := []string{"."}
	left := maxWalked
	for n := 0; n < len(queue) && left > 0; n++ {
		at := queue[n]
		dir, err := openDir(p.root, at, 0)
		if err != nil {
			continue // closed to belljar, because it belongs to another user
		}
		err = eachEntry(dir, func(e dirent) bool {
			here := path.Join(at, e.name)
			if left--; e.kind == unix.DT_DIR {
				queue = append(queue, here)
			} else if e.kind == unix.DT_REG || e.kind == unix.DT_UNKNOWN {
				st, err := statAt(dir, e.name)
				switch {
				case err != nil || !givesRights(dir, e.name, st) || slices.Contains(p.setIDs, here):
				case len(p.setIDs) >= maxSetIDs:
					l.note("%s gives rights away by its mode and is not protected: there are more than %d such files", plain(here), maxSetIDs)
				default:
					p.setIDs, p.unsaved = append(p.setIDs, here), true
				}
				if isDir(st) {
					queue = append(queue, here)
				}
			}
			return left > 0
		})
		dir.Close()
		if err != nil {
			l.fail(at, err)
		}
	}
	if left <= 0 {
		l.note("set-user-ID files are only protected among the first %d entries of the workspace", maxWalked)
	}
}

// givesRights reports whether a file runs with other rights than those of its
// user.
func givesRights(dir *os.File, name string, st *unix.Stat_t) bool {
	if !isRegular(st) || st.Mode&0o111 == 0 {
		return false
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return true
	}
	n, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name), "security.capability", nil)
	return err == nil && n > 0
}

// guardSetIDs looks at the files that give rights away.
func (l *look) guardSetIDs() {
	l.p.setIDs = slices.DeleteFunc(l.p.setIDs, func(at string) bool {
		gone := l.guardSetID(at)
		l.p.unsaved = l.p.unsaved || gone
		return gone
	})
}

// guardSetID looks at one such file, and reports whether a person has removed it or its
// rights.
func (l *look) guardSetID(at string) bool {
	dir := l.p.root
	if way := path.Dir(at); way != "." {
		if dir = l.way(l.p.root, "", way, rule{why: bySetID, dir: true}); dir == nil {
			return l.adopt
		}
		defer dir.Close()
	}
	st, err := statAt(dir, path.Base(at))
	if err != nil {
		l.fail(at, err)
		return false
	}
	gives := givesRights(dir, path.Base(at), st)
	g := l.p.guards[at]
	switch {
	case l.adopt && !gives:
		return true
	case l.adopt || g != nil && g.held && st != nil && identOf(st) == g.id:
		l.seal(dir, at, rule{why: bySetID, setID: true})
		l.p.guards[at].changed = st.Ctim
	case g == nil:
	default:
		g.used = true
		if gives && (identOf(st) != g.id || st.Ctim != g.changed) {
			l.takeRights(dir, at, st)
		}
	}
	if st != nil {
		l.mark(at, st)
	}
	return false
}

// takeRights removes these rights from a file that a command could have changed.
func (l *look) takeRights(dir *os.File, at string, st *unix.Stat_t) {
	fd, err := openBeneath(int(dir.Fd()), path.Base(at), unix.O_PATH, 0)
	if err != nil {
		l.fail(at, err)
		return
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	err = chmod(f, st.Mode&^(unix.S_ISUID|unix.S_ISGID))
	if err == nil {
		// A change of the mode keeps capabilities, and only root may remove their attribute.
		// A change of the owner, even to the same one, removes them (capabilities(7)).
		err = unix.Fchownat(fd, "", -1, -1, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		l.fail(at, err)
		return
	}
	l.tell(at, "lost its set-user-ID and set-group-ID bits and its capabilities: it changed while a command ran, and %s.", bySetID)
}
