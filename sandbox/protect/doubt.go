package protect

import (
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// doubting is the part of a look that says what a command may have changed that
// nobody saw end.
type doubting struct {
	root      *os.File  // of the workspace
	doubt     time.Time // adopting when a command may have run: what changed since may be a box's
	deepDoubt time.Time // the same of what the walk finds
	made      bool      // since then, the ".git" of the workspace itself
	home      string    // the known home that is looked at; "." for the workspace, empty for a new one
	alongOf   string    // directory; along says whether what is in it came there with it
	along     bool
}

// suspect notes what would run of a path, if it changed since the time of doubt.
// A box cannot set that back (inode(7), ctime).
func (s *sealer) suspect(dir *os.File, at string, st *unix.Stat_t, r *rule, depth int) {
	name := path.Base(at)
	if s.doubt.IsZero() || st == nil || depth > maxKeptDepth || len(s.suspects) >= maxTold {
		return
	}
	if r.allows(dir, name, st, depth) || isDir(st) && r.through {
		if !isDir(st) || !r.samples {
			return
		}
	} else if s.isYoung(at, st) {
		s.suspects = append(s.suspects, plain(at))
		return
	}
	if !isDir(st) {
		return
	}
	d, err := openToList(dir, name)
	if err != nil {
		s.fail(at, err)
		return
	}
	defer d.Close()
	err = eachEntry(d, func(e dirent) bool {
		kid, err := statAt(d, e.name)
		if err != nil {
			s.fail(at, err)
		}
		s.suspect(d, path.Join(at, e.name), kid, r, depth+1)
		return len(s.suspects) < maxTold
	})
	if err != nil {
		s.fail(at, err)
	}
}

// isYoung reports whether what is at a path changed since the time of doubt, or
// came there since.
func (d *doubting) isYoung(at string, st *unix.Stat_t) bool {
	return d.changed(st) || d.cameAlong(at)
}

// changed reports whether something changed since the time of doubt.
func (d *doubting) changed(st *unix.Stat_t) bool {
	return !d.doubt.IsZero() && changedSince(st, d.doubt)
}

// cameAlong reports whether what is at a path may have come there with a directory
// around it since the time of doubt. That leaves its own time as it was: a command
// can move old files so, which lay where no program could be given their path, or
// which nothing ran where they lay. rename(2) changes both the directory that is
// moved and the one that it comes to.
func (d *doubting) cameAlong(at string) bool {
	if d.doubt.IsZero() {
		return false
	}
	way := path.Dir(at)
	if d.alongOf != way {
		d.alongOf, d.along = way, d.mayHaveMoved(way)
	}
	return d.along
}

// mayHaveMoved is cameAlong for what lies in a directory, whose path is way.
func (d *doubting) mayHaveMoved(way string) bool {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.root.Fd()), &st); err != nil {
		return true
	}
	above, dir, at := d.changed(&st), d.root, ""
	defer func() {
		if dir != d.root {
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
		if dir != d.root {
			dir.Close()
		}
		dir = sub
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			return true
		}
		young := d.changed(&st)
		if young && above && !d.ofHome(at) {
			return true
		}
		above = young
	}
	return false
}

// ofHome reports whether a directory is on the way to the repository that is
// looked at, where that was known before any command in doubt began: there its
// inode tells that it did not come from elsewhere. Its ".git" is pinned.
func (d *doubting) ofHome(at string) bool {
	if d.home == "." && d.made {
		return false
	}
	return d.home != "" && (within(at, d.home) || at == path.Join(d.home, ".git"))
}

// enterHome notes which home is looked at from now on.
func (d *doubting) enterHome(at string) { d.home, d.alongOf = at, "" }
