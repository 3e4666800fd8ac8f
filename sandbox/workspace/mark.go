package workspace

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/order"
)

// maxMarked bounds how many changed files a Mark remembers.
const maxMarked = 100_000

// Mark is the state of the top of a leased set at one moment. It is used to find later
// changes. Only one goroutine may use it.
type Mark struct {
	lease *Lease
	was   map[string]state
}

// state is one entry of a top.
type state struct {
	mode     uint32
	rdev     uint64
	ino      uint64
	size     int64
	modified unix.Timespec
	changed  unix.Timespec // ctime, which no program can set
	opaque   bool          // reports whether this is a directory that hides those below it
}

func stateOf(st *unix.Stat_t) state {
	return state{st.Mode, st.Rdev, st.Ino, st.Size, st.Mtim, st.Ctim, false}
}

func (s state) gone() bool { return s.mode&unix.S_IFMT == unix.S_IFCHR && s.rdev == 0 }
func (s state) dir() bool  { return s.mode&unix.S_IFMT == unix.S_IFDIR }

// Mark records the state of the top of the set. Its cost grows with the number of
// changed files, which is at most 100,000.
func (l *Lease) Mark() (*Mark, error) {
	m := &Mark{lease: l, was: map[string]state{}}
	top, err := openDir(l.Top, upperDir)
	if err != nil {
		return nil, fmt.Errorf("mark set %s: %w", l.ID, err)
	}
	defer top.Close()
	if err := m.note("", top); err != nil {
		return nil, fmt.Errorf("mark set %s: %w", l.ID, err)
	}
	return m, nil
}

// same reports whether the top was the same at both marks.
func (m *Mark) same(other *Mark) bool { return maps.Equal(m.was, other.was) }

func (m *Mark) note(at string, dir *os.File) error {
	names, err := listDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := join(at, name)
		st, err := statAt(dir, name)
		if err != nil || st == nil {
			continue // the entry was removed meanwhile, or its owner has closed the directory to us
		}
		if m.was[path] = stateOf(st); len(m.was) > maxMarked {
			return fmt.Errorf("over %d changed files: %w", maxMarked, errBound)
		}
		if err := tooDeep(path); err != nil || !isDir(st) {
			continue
		}
		sub, err := openDir(dir, name)
		if err != nil {
			continue
		}
		was := m.was[path]
		was.opaque = attr(sub, attrOpaque) == "y"
		m.was[path] = was
		err = m.note(path, sub)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Changes returns what changed in the set since the mark, in the order of paths,
// with only Path, Kind and Type. It compares the sizes and times of files. A
// deleted directory stands for everything that the base has in it.
func (m *Mark) Changes() ([]Change, error) {
	s := &since{Mark: m, seen: map[string]bool{}}
	top, err := openDir(m.lease.Top, upperDir)
	if err != nil {
		return nil, fmt.Errorf("compare set %s: %w", m.lease.ID, err)
	}
	defer top.Close()
	var below merged
	for i, f := range append(slices.Clone(m.lease.Frozen), m.lease.Base) {
		dir, err := openDir(f, ".")
		if err != nil {
			below.close()
			return nil, fmt.Errorf("compare set %s: %w", m.lease.ID, err)
		}
		below = append(below, layerDir{i, dir})
	}
	defer below.close()
	if err := s.dir("", top, below); err != nil {
		return nil, fmt.Errorf("compare set %s: %w", m.lease.ID, err)
	}
	for _, path := range slices.Sorted(maps.Keys(m.was)) {
		if was := m.was[path]; !s.seen[path] && !was.gone() {
			s.add(path, Deleted, was.mode)
		}
	}
	order.By(s.all, func(a, b *Change) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return s.all, nil
}

// since is one comparison with a mark.
type since struct {
	*Mark
	seen map[string]bool
	all  []Change
}

func (s *since) add(path string, kind Kind, mode uint32) {
	c := Change{name: path, Path: path, Kind: kind, Type: typeOf(&unix.Stat_t{Mode: mode})}
	s.all = append(s.all, c)
}

// dir compares a directory of the top. below are the same directories of the layers under
// the top.
func (s *since) dir(at string, dir *os.File, below merged) error {
	names, err := listDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := join(at, name)
		if s.seen[path] = true; len(s.seen) > maxMarked {
			return fmt.Errorf("over %d changed files: %w", maxMarked, errBound)
		}
		st, err := statAt(dir, name)
		if err != nil || st == nil {
			continue
		}
		now := stateOf(st)
		was, known := s.was[path]
		mine := known
		if !known {
			was, known = s.under(name, below)
		} else if was.gone() {
			known = false
		}
		s.one(path, was, known, mine, now)
		if now.dir() && tooDeep(path) == nil {
			if err := s.into(path, name, dir, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// one lists an entry of the top if it changed. known reports whether the name existed
// before, and mine whether it was in the top.
func (s *since) one(path string, was state, known, mine bool, now state) {
	switch {
	case now.gone():
		if known {
			s.add(path, Deleted, was.mode)
		}
	case !known:
		s.add(path, Added, now.mode)
	case was.mode&unix.S_IFMT != now.mode&unix.S_IFMT:
		s.add(path, Modified, now.mode)
	case mine && !now.dir() && was.ino != now.ino: // a file that is copied up gets another inode
		s.add(path, Modified, now.mode)
	case !now.dir() && (was.size != now.size || was.modified != now.modified):
		s.add(path, Modified, now.mode)
	case was.mode != now.mode:
		s.add(path, Mode, now.mode)
	}
}

// under returns the state of a name in the layers below, and whether they have it.
func (s *since) under(name string, below merged) (state, bool) {
	e, err := below.entry(name)
	if err != nil || e == nil || e.whiteout {
		return state{}, false
	}
	return stateOf(e.st), true
}

// into compares the content of a directory of the top.
func (s *since) into(path, name string, dir *os.File, below merged) error {
	sub, err := openDir(dir, name)
	if err != nil {
		return nil // the directory was removed meanwhile, or its owner has closed it to us
	}
	defer sub.Close()
	under, _, err := below.enter(name)
	if err != nil {
		return nil // for the same reasons
	}
	defer under.close()
	if attr(sub, attrOpaque) != "y" {
		return s.dir(path, sub, under)
	}
	if !s.was[path].opaque {
		s.replaced(path, sub, under)
	}
	return s.dir(path, sub, nil)
}

// replaced lists the entries of an older directory that a new directory of the same name
// hides. It leaves out entries that a whiteout hid before.
func (s *since) replaced(path string, now *os.File, under merged) {
	names, err := under.names()
	if err != nil {
		return
	}
	for _, name := range names {
		at := join(path, name)
		if _, known := s.was[at]; known && !s.was[at].dir() {
			continue // Changes compares this entry by itself
		}
		e, err := under.entry(name)
		if err != nil || e == nil || e.whiteout {
			continue
		}
		st, err := statAt(now, name)
		switch {
		case err != nil:
		case st == nil:
			s.add(at, Deleted, e.st.Mode)
		case isDir(st) && isDir(e.st):
			s.replacedIn(at, name, now, under)
		}
	}
}

func (s *since) replacedIn(path, name string, now *os.File, under merged) {
	dir, err := openDir(now, name)
	if err != nil {
		return
	}
	defer dir.Close()
	sub, _, err := under.enter(name)
	if err != nil || s.was[path].opaque {
		return
	}
	defer sub.close()
	s.replaced(path, dir, sub)
}
