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

// seal protects one path, whose last part is looked for in dir.
func (l *look) seal(dir *os.File, at string, r rule) {
	g := l.guard(at, r)
	if l.settledBefore(at) {
		return
	}
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	switch {
	case l.adopt:
		l.take(g, dir, at, st)
	case st == nil && g.was == nil && !g.held:
	case g.held && st != nil && identOf(st) == g.id:
		// It is pinned: only a program on the host can have changed its content.
	case g.held && st == nil:
		// No box can remove a pinned path: a program on the host did.
		g.held, g.was = false, nil
	case g.through && (g.was == nil || g.was.mode&unix.S_IFMT != unix.S_IFLNK):
		g.held = false
		if isLink(st) || isRegular(st) && strings.Contains(at, "/") {
			l.remove(dir, at, name, &g.rule)
		}
	case g.dir && (st == nil || isDir(st)) && (g.was == nil || g.was.mode&unix.S_IFMT == unix.S_IFDIR):
		g.held = false
	case g.held && (g.was == nil || g.was.bare):
		// On the host it was moved or replaced, which ends its pin in every
		// box (kernel: fs/namespace.c, __detach_mounts).
		g.held = false
		l.fail(at, errors.New("it was replaced while a command ran, and its pin is lost"))
	default:
		g.held = false
		l.restore(dir, at, name, g.was, &g.rule, 0)
	}
	if !g.held && st != nil {
		l.markKept(at, g.was)
	}
}

// markKept marks what a box could write to of what is kept.
func (l *look) markKept(at string, e *entry) {
	switch {
	case e == nil || e.bare:
	case e.mode&unix.S_IFMT == unix.S_IFREG:
		l.markText(at, e.text)
	case e.mode&unix.S_IFMT == unix.S_IFDIR:
		if d, err := openDir(l.p.root, at, unix.O_PATH); err == nil {
			l.watch(d, at)
			d.Close()
		}
		for name, kid := range e.kids {
			l.markKept(path.Join(at, name), kid)
		}
	}
}

// take records what is at a path now as the state to which later looks restore it.
func (l *look) take(g *guard, dir *os.File, at string, st *unix.Stat_t) {
	if st == nil {
		g.held, g.was = false, nil
		return
	}
	if !g.setID {
		l.suspect(dir, at, st, &g.rule, 0)
	}
	same := g.held && identOf(st) == g.id
	// A file with a second name can be written through that name, pin or not.
	g.held = same || (isDir(st) || isRegular(st) && (st.Nlink == 1 || g.setID)) && l.hold(g)
	g.id = identOf(st)
	if isLink(st) && !g.dir {
		l.resolve(at, g.why)
	}
	if isDir(st) && (g.held || g.dir || g.through) {
		g.was = &entry{mode: st.Mode, id: g.id, bare: true}
		return
	}
	if same && !isRegular(st) {
		return
	}
	l.copier.samples = g.samples
	was, err := l.copier.take(dir, path.Base(at), 0)
	if err != nil {
		l.fail(at, err)
		return
	}
	if was != nil && !l.keep {
		// Another server's command runs: what it made must not come back.
		was.bare, was.text, was.kids = true, nil, nil
	}
	g.was = was
}

// hold reports whether a guard is one of those that every box pins.
func (l *look) hold(g *guard) bool {
	if !l.first || g.loose || g.watched {
		return false
	}
	l.pins++
	g.watched = l.pins > maxPins
	return !g.watched
}

// restore makes name in dir what it was, or takes it away if it was nothing.
func (l *look) restore(dir *os.File, at, name string, was *entry, r *rule, depth int) {
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	switch {
	case st == nil && was == nil:
	case st == nil:
		l.putBack(dir, at, name, was, "removed")
	case was == nil && l.allowed(dir, name, st, r, depth):
		if r.samples && depth == 0 {
			l.restoreKids(dir, at, name, nil, r, depth)
		}
	case was == nil:
		l.remove(dir, at, name, r)
	case was.mode&unix.S_IFMT != kindOf(st):
		if err := removeAt(dir, name, &l.left); err != nil {
			l.fail(at, err)
			return
		}
		l.putBack(dir, at, name, was, "replaced")
	case isDir(st) && !was.bare:
		l.restoreKids(dir, at, name, was.kids, r, depth)
	case isDir(st):
		if identOf(st) != was.id {
			l.fail(at, errors.New("it was replaced, and was too large to be kept"))
		}
	case isRegular(st) && !was.bare:
		if st.Mode != was.mode || !sameText(dir, name, was.text) {
			if err := replaceAt(dir, name, was.text, was.mode, was.uid, was.gid); err != nil {
				l.fail(at, err)
				return
			}
			l.tell(at, "was put back as it was: %s.", r.why)
		}
	case isLink(st):
		if now, err := readlinkAt(dir, name); err != nil || now != was.link {
			if err := removeAt(dir, name, &l.left); err != nil {
				l.fail(at, err)
				return
			}
			l.putBack(dir, at, name, was, "replaced")
		}
	case identOf(st) != was.id:
		l.fail(at, errors.New("it was replaced, and could not be put back"))
	}
}

// remove takes away what appeared. Of a tree that is too large to be removed at
// once the rest is moved out of effect.
func (l *look) remove(dir *os.File, at, name string, r *rule) {
	err := removeAt(dir, name, &l.left)
	if errors.Is(err, errBound) {
		aside := "removed-" + rand.Text()
		err = mayWrite(dir, func() error { return unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), aside) })
		if err == nil {
			l.tell(at, "was renamed to `%s`: %s. It holds too many files to be removed at once; remove it.", aside, r.why)
			return
		}
	}
	if err != nil {
		l.fail(at, err)
		return
	}
	l.tell(at, "was removed: %s. If it is wanted, ask the person to put it there, or the operator for a profile with `fs: {protect: none}`.", r.why)
}

func (l *look) putBack(dir *os.File, at, name string, was *entry, what string) {
	if err := was.put(dir, name); err != nil {
		l.fail(at, fmt.Errorf("put back: %w", err))
		return
	}
	l.tell(at, "had been %s and was put back.", what)
}

// restoreKids makes the entries of a directory what they were.
func (l *look) restoreKids(dir *os.File, at, name string, kids map[string]*entry, r *rule, depth int) {
	d, err := openToList(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	defer d.Close()
	l.watch(d, at)
	// However many there are: a command may hide one among others.
	here := make(map[string]bool, len(kids))
	err = eachEntry(d, func(e dirent) bool {
		if kids[e.name] != nil {
			here[e.name] = true
		}
		l.restore(d, path.Join(at, e.name), e.name, kids[e.name], r, depth+1)
		return true
	})
	if err != nil {
		l.fail(at, err)
	}
	for n, kid := range kids {
		if !here[n] {
			l.restore(d, path.Join(at, n), n, kid, r, depth+1)
		}
	}
}

// way looks at the directories on a way beneath dir, and opens the last of them:
// nil where it is absent, or protected as a whole. The caller must close it.
func (l *look) way(dir *os.File, at, way string, r rule) *os.File {
	var last *os.File
	for part := range strings.SplitSeq(path.Clean(way), "/") {
		at = path.Join(at, part)
		if g := l.p.guards[at]; g == nil || !g.used {
			l.seal(dir, at, r)
		} else if !g.dir && !g.through {
			dir = nil // protected as a whole
		} else if r.dir && !g.dir {
			g.dir, g.through = true, false
		}
		var sub *os.File
		if dir != nil {
			sub = l.enter(dir, at)
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
