package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// home is a directory of the workspace that contains a repository, or is one. It is known
// by its inode from the time when it was seen while no command ran. So another name, other
// directories next to it, or another depth do not remove its protection. Every box pins it
// in its place. If it is not pinned, because the box is older than the repository or there
// are too many, it is followed to the place to which it was moved.
type home struct {
	path string
	id   birth
	dir  *os.File // O_PATH descriptor; while it is open, no other directory gets the inode
	made bool     // whether a command made it, so that another command may move it
}

// findHomes looks at the repositories that are known, wherever they are now.
func (l *look) findHomes() {
	kept := l.p.homes[:0]
	for i, h := range l.p.homes {
		was := h.path
		place := l.p.guards[was]
		dir, err := l.p.find(h)
		if dir != nil && h.path != was && !l.adopt && !h.made && place != nil && !place.held {
			dir, err = l.moveBack(h, was, dir)
		}
		if err != nil {
			l.fail(h.path, err)
		}
		if dir == nil && err == nil {
			l.p.forget(h.path)
			if !l.adopt && !h.made && len(l.p.vacant) < maxHomes {
				l.p.vacant[h.path] = true
			}
			h.dir.Close()
			l.p.unsaved = true
			continue
		}
		kept = append(kept, h)
		if dir == nil {
			continue
		}
		l.loose = l.first && i >= maxPinnedGit
		l.enterHome(h.path)
		l.atHome(dir, h.path)
		dir.Close()
	}
	l.enterHome(".")
	// If a command has removed a person's repository, no link with its name may lead to
	// another repository.
	for at := range l.p.vacant {
		if dir, err := openDir(l.p.root, path.Dir(at), unix.O_PATH); err == nil {
			l.seal(dir, at, rule{why: "a person's repository was there", through: true})
			dir.Close()
		}
	}
	clear(l.p.homes[len(kept):])
	l.p.homes = kept
	l.loose = false
}

// moveBack puts a person's repository, which a command has moved, back to where it was:
// people and their programs use it by its name.
func (l *look) moveBack(h *home, was string, dir *os.File) (*os.File, error) {
	defer dir.Close()
	now := h.path
	to, err := openDir(l.p.root, path.Dir(was), unix.O_PATH)
	if err != nil {
		return nil, fmt.Errorf("put back: %w", err)
	}
	defer to.Close()
	from, err := openDir(l.p.root, path.Dir(now), unix.O_PATH)
	if err != nil {
		return nil, fmt.Errorf("put back: %w", err)
	}
	defer from.Close()
	if st, err := statAt(to, path.Base(was)); err != nil || st != nil {
		l.remove(to, was, path.Base(was), &rule{why: "a repository that a command has moved away was there"})
	}
	err = mayWrite(to, func() error {
		return mayWrite(from, func() error {
			return unix.Renameat2(int(from.Fd()), path.Base(now), int(to.Fd()), path.Base(was), unix.RENAME_NOREPLACE)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("put back from %s: %w", plain(now), err)
	}
	l.p.moved(now, was)
	h.path = was
	l.tell(was, "had been moved to `%s` and was put back: it is a repository that a person uses there.", plain(now))
	return l.p.openHome(was, h.id.ident)
}

// settle makes a directory of the workspace a home, if a repository is in it. It returns
// false if a person has too many homes, so that the repository is not looked at.
func (l *look) settle(dir *os.File, name string) bool {
	if !l.repositoryIn(dir, name) {
		return true
	}
	if len(l.p.homes) >= maxHomes {
		return false
	}
	held, err := openDir(dir, ".", unix.O_PATH)
	if err != nil {
		l.fail(name, err)
		return true
	}
	id, err := birthOf(held)
	if err != nil {
		held.Close()
		l.fail(name, err)
		return true
	}
	l.p.homes = append(l.p.homes, &home{path: name, id: id, dir: held, made: l.p.made[id.ident]})
	l.p.unsaved = true
	delete(l.p.made, id.ident)
	l.loose = l.first && len(l.p.homes) > maxPinnedGit
	l.enterHome("")
	l.atHome(dir, name)
	l.enterHome(".")
	l.loose = false
	return true
}

// repositoryIn reports whether a directory has a repository in it, or is one.
func (l *look) repositoryIn(dir *os.File, at string) bool {
	if st, err := statAt(dir, ".git"); err == nil && st != nil {
		return true
	}
	return isBare(dir) || l.others(dir, at)
}

// atHome looks at a directory with a repository, and at its place. If the directory is
// deeper than maxWay, it is not pinned in its place but only followed: each look would have
// to check every directory on the way, and a box chooses how many there are.
func (l *look) atHome(dir *os.File, at string) {
	if strings.Count(at, "/") >= maxWay {
		l.inHome(dir, at)
		return
	}
	if way := l.way(l.p.root, "", at, rule{why: byGit, dir: true}); way != nil {
		way.Close()
		l.inHome(dir, at)
	}
}

// find opens a home where it is now. It returns nil if the home is not in the workspace any
// more.
func (k *knowledge) find(h *home) (*os.File, error) {
	const tries = 8 // a command may move it meanwhile
	for range tries {
		if dir, err := k.openHome(h.path, h.id.ident); err != nil || dir != nil {
			return dir, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(h.dir.Fd()), &st); err != nil {
			return nil, err
		}
		if st.Nlink == 0 {
			return nil, nil //nolint:nilnil // documented
		}
		top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.root.Fd()))
		if err != nil {
			return nil, err
		}
		now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.dir.Fd()))
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(top, now)
		if err != nil {
			return nil, err
		}
		if rel == "." || !inside(rel) {
			return nil, nil //nolint:nilnil // no box can move it out of the workspace, so a person moved it
		}
		dir, err := k.openHome(rel, h.id.ident)
		if err != nil {
			return nil, err
		}
		if dir != nil {
			k.moved(h.path, rel)
			h.path, k.unsaved = rel, true
			return dir, nil
		}
	}
	return nil, errors.New("it was moved again and again, and could not be found")
}

// openHome opens the directory at a path. It returns nil if that is not the wanted
// directory.
func (w *workdir) openHome(at string, want ident) (*os.File, error) {
	dir, err := openDir(w.root, at, unix.O_PATH)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
			return nil, nil //nolint:nilnil // documented
		}
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || identOf(&st) != want {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// moved renames what is known about the paths at and below a directory that was moved.
func (k *knowledge) moved(from, to string) {
	k.guards = renamed(k.guards, from, to)
	k.repos = renamed(k.repos, from, to)
	k.extra = renamed(k.extra, from, to)
}

// forget drops what is known about the paths at and below a path.
func (k *knowledge) forget(at string) {
	for name := range k.guards {
		if within(at, name) {
			delete(k.guards, name)
		}
	}
	for name := range k.repos {
		if within(at, name) {
			delete(k.repos, name)
		}
	}
}

// renamed returns known after a directory was moved: the keys at and below from become keys
// at and below to. The keys that were at and below to are dropped.
func renamed[V any](known map[string]V, from, to string) map[string]V {
	all := make(map[string]V, len(known))
	for name, v := range known {
		if !within(from, name) && !within(to, name) {
			all[name] = v
		}
	}
	for name, v := range known {
		if within(from, name) {
			all[path.Join(to, strings.TrimPrefix(name, from))] = v
		}
	}
	return all
}

// inHome looks at the repositories in a directory.
func (l *look) inHome(dir *os.File, at string) {
	l.gitAt(dir, at+"/.git")
	l.bareAt(dir, at)
	if l.others(dir, at) {
		l.dirs++
	}
}
