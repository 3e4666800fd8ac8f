package protect

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// sealer is the part of a look that protects one path at a time: it restores the earlier
// state of the path, or adopts the present one.
type sealer struct {
	p     *Protector
	adopt bool // whether the present state is adopted
	last  bool // whether no command is left that could change anything
	first bool // whether it adopts for the first time
	keep  bool // whether it adopts, and the present state may be restored later
	findings
	marking
	doubting
	*budget
	left   int  // number of entries that may still be removed
	loose  bool // whether what is looked at is watched and not pinned, because there are enough pins
	pins   int  // number of paths that are pinned in every box
	extra  map[string]string
	late   string          // the one repository that is adopted, while guards of other repositories stay as they are
	fresh  map[string]bool // new guards of that repository
	onLink func(at, why string)
}

// budget is what a look, or several looks that belong together, may still read and keep.
type budget struct {
	copier    copier
	indexes   int64               // bytes of indexes
	linked    map[string][]string // by path of an index that was read: the names in it
	linkParts int                 // parts of the paths in indexes
}

func newBudget() *budget {
	return &budget{
		copier:  copier{files: maxKeptFiles, bytes: maxKeptText},
		indexes: maxIndexes, linked: map[string][]string{}, linkParts: maxLinkParts,
	}
}

// seal protects one path, whose last part is looked for in dir.
func (s *sealer) seal(dir *os.File, at string, r rule) {
	g := s.guard(at, r)
	if s.settledBefore(at) {
		return
	}
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		s.fail(at, err)
		return
	}
	switch {
	case s.adopt:
		s.take(g, dir, at, st)
	case st == nil && g.was == nil && !g.held:
	case g.held && st != nil && identOf(st) == g.id:
		// It is pinned, so only a program on the host can have changed its content.
	case g.held && st == nil:
		// No box can remove a pinned path, so a program on the host did.
		g.held, g.was = false, nil
	case g.through && (g.was == nil || g.was.mode&unix.S_IFMT != unix.S_IFLNK):
		g.held = false
		if isLink(st) || isRegular(st) && strings.Contains(at, "/") {
			s.remove(dir, at, name, &g.rule)
		}
	case g.dir && (st == nil || isDir(st)) && (g.was == nil || g.was.mode&unix.S_IFMT == unix.S_IFDIR):
		g.held = false
	case g.held && (g.was == nil || g.was.bare):
		// It was moved or replaced on the host, which ends its pin in every box (kernel:
		// fs/namespace.c, __detach_mounts).
		g.held = false
		s.fail(at, errors.New("it was replaced while a command ran, and its pin is lost"))
	default:
		g.held = false
		s.restore(dir, at, name, g.was, &g.rule, 0)
	}
	if !g.held && st != nil {
		s.markKept(at, g.was)
	}
}

// markKept marks the part of a saved entry that a box could write to.
func (s *sealer) markKept(at string, e *entry) {
	switch {
	case e == nil || e.bare:
	case e.mode&unix.S_IFMT == unix.S_IFREG:
		s.markText(at, e.text)
	case e.mode&unix.S_IFMT == unix.S_IFDIR:
		if d, err := openDir(s.p.root, at, unix.O_PATH); err == nil {
			s.watch(d, at)
			d.Close()
		}
		for name, kid := range e.kids {
			s.markKept(path.Join(at, name), kid)
		}
	}
}

// take records what is at a path now as the state to which later looks restore it.
func (s *sealer) take(g *guard, dir *os.File, at string, st *unix.Stat_t) {
	if st == nil {
		g.held, g.was = false, nil
		return
	}
	if !g.setID {
		s.suspect(dir, at, st, &g.rule, 0)
	}
	same := g.held && identOf(st) == g.id
	// A file with a second name can be written through that name, even if it is pinned.
	g.held = same || (isDir(st) || isRegular(st) && (st.Nlink == 1 || g.setID)) && s.hold(g)
	g.id = identOf(st)
	if isLink(st) && !g.dir {
		s.onLink(at, g.why)
	}
	if isDir(st) && (g.held || g.dir || g.through) {
		g.was = &entry{mode: st.Mode, id: g.id, bare: true}
		return
	}
	if same && !isRegular(st) {
		return
	}
	s.copier.samples = g.samples
	was, err := s.copier.take(dir, path.Base(at), 0)
	if err != nil {
		s.fail(at, err)
		return
	}
	if was != nil && !s.keep {
		// Another server's command runs: what it made must not come back.
		was.bare, was.text, was.kids = true, nil, nil
	}
	g.was = was
}

// hold reports whether every box pins the path of a guard.
func (s *sealer) hold(g *guard) bool {
	if !s.first || g.loose || g.watched {
		return false
	}
	s.pins++
	g.watched = s.pins > maxPins
	return !g.watched
}

// restore makes name in dir what it was, or removes it if it did not exist.
func (s *sealer) restore(dir *os.File, at, name string, was *entry, r *rule, depth int) {
	st, err := statAt(dir, name)
	if err != nil {
		s.fail(at, err)
		return
	}
	switch {
	case st == nil && was == nil:
	case st == nil:
		s.putBack(dir, at, name, was, "removed")
	case was == nil && r.allows(dir, name, st, depth):
		if r.samples && depth == 0 {
			s.restoreKids(dir, at, name, nil, r, depth)
		}
	case was == nil:
		s.remove(dir, at, name, r)
	case was.mode&unix.S_IFMT != kindOf(st):
		if err := removeAt(dir, name, &s.left); err != nil {
			s.fail(at, err)
			return
		}
		s.putBack(dir, at, name, was, "replaced")
	case isDir(st) && !was.bare:
		s.restoreKids(dir, at, name, was.kids, r, depth)
	case isDir(st):
		if identOf(st) != was.id {
			s.fail(at, errors.New("it was replaced, and was too large to be kept"))
		}
	case isRegular(st) && !was.bare:
		if st.Mode != was.mode || !sameText(dir, name, was.text) {
			if err := replaceAt(dir, name, was.text, was.mode, was.uid, was.gid); err != nil {
				s.fail(at, err)
				return
			}
			s.tell(at, "was put back as it was: %s.", r.why)
		}
	case isLink(st):
		if now, err := readlinkAt(dir, name); err != nil || now != was.link {
			if err := removeAt(dir, name, &s.left); err != nil {
				s.fail(at, err)
				return
			}
			s.putBack(dir, at, name, was, "replaced")
		}
	case identOf(st) != was.id:
		s.fail(at, errors.New("it was replaced, and could not be put back"))
	}
}

// remove removes what appeared. If a tree is too large to be removed at one time, the rest
// is moved aside, where it has no effect.
func (s *sealer) remove(dir *os.File, at, name string, r *rule) {
	err := removeAt(dir, name, &s.left)
	if errors.Is(err, errBound) {
		aside := "removed-" + rand.Text()
		err = mayWrite(dir, func() error { return unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), aside) })
		if err == nil {
			s.tell(at, "was renamed to `%s`: %s. It contains more files than belljar removes at one time; remove it yourself.", aside, r.why)
			return
		}
	}
	if err != nil {
		s.fail(at, err)
		return
	}
	s.tell(at, "was removed: %s. If it is wanted, ask the person to put it there, or the operator for a profile with `fs: {protect: none}`.", r.why)
}

func (s *sealer) putBack(dir *os.File, at, name string, was *entry, what string) {
	if err := was.put(dir, name); err != nil {
		s.fail(at, fmt.Errorf("put back: %w", err))
		return
	}
	s.tell(at, "had been %s and was put back.", what)
}

// restoreKids restores the entries of a directory.
func (s *sealer) restoreKids(dir *os.File, at, name string, kids map[string]*entry, r *rule, depth int) {
	d, err := openToList(dir, name)
	if err != nil {
		s.fail(at, err)
		return
	}
	defer d.Close()
	s.watch(d, at)
	// All entries are looked at, however many there are, because a command may hide one
	// among others.
	here := make(map[string]bool, len(kids))
	err = eachEntry(d, func(e dirent) bool {
		if kids[e.name] != nil {
			here[e.name] = true
		}
		s.restore(d, path.Join(at, e.name), e.name, kids[e.name], r, depth+1)
		return true
	})
	if err != nil {
		s.fail(at, err)
	}
	for n, kid := range kids {
		if !here[n] {
			s.restore(d, path.Join(at, n), n, kid, r, depth+1)
		}
	}
}

// way looks at the directories on a way beneath dir, and opens the last of them. It returns
// nil if that is absent, or protected as a whole. The caller must close it.
func (s *sealer) way(dir *os.File, at, way string, r rule) *os.File {
	var last *os.File
	for part := range strings.SplitSeq(path.Clean(way), "/") {
		at = path.Join(at, part)
		if g := s.p.guards[at]; g == nil || !g.used {
			s.seal(dir, at, r)
		} else if !g.dir && !g.through {
			dir = nil // it is protected as a whole
		} else if r.dir && !g.dir {
			g.dir, g.through = true, false
		}
		var sub *os.File
		if dir != nil {
			sub = s.enter(dir, at)
		}
		if last != nil {
			last.Close()
		}
		if sub == nil {
			return nil
		}
		dir, last = sub, sub
	}
	return last
}
