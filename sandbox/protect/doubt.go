package protect

import (
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// doubting is the part of a look that says what may have been changed by a command whose
// end no server has seen.
type doubting struct {
	root *os.File // directory of the workspace
	// set by a look that adopts: the earliest time at which a server whose end was not seen
	// began to run commands; a change since then may come from a box; zero without such servers
	doubt time.Time
	// earliest time at which a command began after which no walk has been everywhere, for
	// what the walk finds
	deepDoubt time.Time
	made      bool   // whether the ".git" of the workspace itself was made since the time of doubt
	home      string // the known home that is looked at; "." for the workspace, empty for a new one
	alongOf   string // directory for which mayHaveMoved returned along
	along     bool
}

// suspect records the files at or below a path that would run, if they changed since the
// time of doubt. A box cannot set the ctime of a file back (inode(7)).
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

// isYoung reports whether what is at a path has changed, or came there, since the time of
// doubt.
func (d *doubting) isYoung(at string, st *unix.Stat_t) bool {
	return d.changed(st) || d.cameAlong(at)
}

// changed reports whether something changed since the time of doubt.
func (d *doubting) changed(st *unix.Stat_t) bool {
	return !d.doubt.IsZero() && changedSince(st, d.doubt)
}

// cameAlong reports whether what is at a path may have come there with a directory above it
// since the time of doubt. Such a move does not change the ctime of the files in the
// directory: a command can move old files from a place where their path was too long for
// any program, or where nothing ran them. rename(2) changes both the directory that is
// moved and the one that it is moved to.
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

// mayHaveMoved is cameAlong for what is in the directory at the path way.
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

// ofHome reports whether a directory is on the way to the repository that is looked at, if
// that repository was known before any command in doubt began: the repository's inode then
// shows that it was not moved there. Its ".git" is pinned.
func (d *doubting) ofHome(at string) bool {
	if d.home == "." && d.made {
		return false
	}
	return d.home != "" && (within(at, d.home) || at == path.Join(d.home, ".git"))
}

// enterHome records which home is looked at from now on.
func (d *doubting) enterHome(at string) { d.home, d.alongOf = at, "" }
