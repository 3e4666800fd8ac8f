package protect

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// suspect notes what would run of a path, if it changed since the time of doubt.
// A box cannot set that back (inode(7), ctime).
func (l *look) suspect(dir *os.File, at string, st *unix.Stat_t, r *rule, depth int) {
	name := path.Base(at)
	if l.doubt.IsZero() || st == nil || depth > maxKeptDepth || len(l.suspects) >= maxTold {
		return
	}
	if l.allowed(dir, name, st, r, depth) || isDir(st) && r.through {
		if !isDir(st) || !r.samples {
			return
		}
	} else if l.isYoung(at, st) {
		l.suspects = append(l.suspects, plain(at))
		return
	}
	if !isDir(st) {
		return
	}
	d, err := openToList(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	defer d.Close()
	err = eachEntry(d, func(e dirent) bool {
		kid, err := statAt(d, e.name)
		if err != nil {
			l.fail(at, err)
		}
		l.suspect(d, path.Join(at, e.name), kid, r, depth+1)
		return len(l.suspects) < maxTold
	})
	if err != nil {
		l.fail(at, err)
	}
}

// isYoung reports whether what is at a path changed since the time of doubt, or
// came there since.
func (l *look) isYoung(at string, st *unix.Stat_t) bool {
	return l.changed(st) || l.cameAlong(at)
}

// changed reports whether something changed since the time of doubt.
func (l *look) changed(st *unix.Stat_t) bool {
	return !l.doubt.IsZero() && changedSince(st, l.doubt)
}

// cameAlong reports whether what is at a path may have come there with a directory
// around it since the time of doubt. That leaves its own time as it was: a command
// can move old files so, which lay where no program could be given their path, or
// which nothing ran where they lay. rename(2) changes both the directory that is
// moved and the one that it comes to.
func (l *look) cameAlong(at string) bool {
	if l.doubt.IsZero() {
		return false
	}
	way := path.Dir(at)
	if l.alongOf != way {
		l.alongOf, l.along = way, l.mayHaveMoved(way)
	}
	return l.along
}

// mayHaveMoved is cameAlong for what lies in a directory, whose path is way.
func (l *look) mayHaveMoved(way string) bool {
	var st unix.Stat_t
	if err := unix.Fstat(int(l.p.root.Fd()), &st); err != nil {
		return true
	}
	above, dir, at := l.changed(&st), l.p.root, ""
	defer func() {
		if dir != l.p.root {
			dir.Close()
		}
	}()
	for name := range strings.SplitSeq(way, "/") {
		if name == "." {
			break // the workspace itself
		}
		at = path.Join(at, name)
		sub, err := openDir(dir, name, unix.O_PATH)
		if err != nil {
			return true
		}
		if dir != l.p.root {
			dir.Close()
		}
		dir = sub
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			return true
		}
		young := l.changed(&st)
		if young && above && !l.ofHome(at) {
			return true
		}
		above = young
	}
	return false
}

// ofHome reports whether a directory is on the way to the repository that is
// looked at, where that was known before any command in doubt began: there its
// inode tells that it did not come from elsewhere. Its ".git" is pinned.
func (l *look) ofHome(at string) bool {
	if l.home == "." && l.made {
		return false
	}
	return l.home != "" && (within(at, l.home) || at == path.Join(l.home, ".git"))
}
