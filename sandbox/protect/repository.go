package protect

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// git looks at the repository of the workspace, at the workspace as a bare repository, at
// the repositories that are known, at those one directory down, and at those that the walk
// has found.
func (l *look) git() {
	l.gitAt(l.p.root, ".git")
	l.bareAt(l.p.root, "")
	l.config(l.p.root, ".gitmodules", rule{why: byGit, loose: true}, func(s *gitSetting) bool { return harmless(s, moduleKeys) })
	l.findHomes()
	if l.short {
		return
	}
	without, skipped := make(map[string]mark), make(map[string]bool)
	known := make(map[string]bool, len(l.p.homes))
	for _, h := range l.p.homes {
		known[h.path] = true
	}
	dirs, named := 0, time.Now()
	err := eachEntry(l.p.root, func(e dirent) bool {
		if !l.adopt && time.Since(named) >= lookEvery {
			l.names() // a command chooses how long this takes
			named = time.Now()
		}
		if why := patternAs(e.name); why != "" {
			l.seal(l.p.root, e.name, rule{why: why})
			return true
		}
		if !e.mayBeDir() || known[e.name] || e.name == ".git" {
			return true
		}
		if g := l.p.guards[e.name]; g != nil && g.used && !g.through && !g.dir {
			return true
		}
		st, err := statAt(l.p.root, e.name)
		if err != nil || !isDir(st) {
			return true
		}
		if l.p.skipped[e.name] && !l.adopt {
			return true
		}
		if dirs++; dirs > maxMarked {
			l.young = true // nothing is remembered about it
			l.below(e.name, skipped)
			return true
		}
		if m, ok := l.p.plain[e.name]; ok && l.p.times && m.id == identOf(st) && m.time == st.Ctim {
			l.mark(e.name, st)
			without[e.name] = m
			return true
		}
		if !l.below(e.name, skipped) && !l.mayHide(e.name, st) {
			without[e.name] = mark{id: identOf(st), time: st.Ctim}
		}
		return true
	})
	if err != nil {
		l.fail(".", err)
	}
	for _, one := range protectedTable().patterns {
		l.gone(l.p.root, "", one.parts[0], one.why)
	}
	l.p.plain = without
	l.lookDeep()
	if l.adopt {
		l.p.skipped = skipped
	}
	if l.adopt && len(skipped) > 0 {
		l.note("%d repositories of the workspace are not looked at: there are more than %d", len(skipped), maxHomes)
	}
}

// below looks for a repository in one directory of the workspace, and reports
// whether there may be one.
func (l *look) below(name string, skipped map[string]bool) bool {
	dir, err := openDir(l.p.root, name, unix.O_PATH)
	if err != nil {
		return true // moved or replaced just now: the workspace's time shows that
	}
	defer dir.Close()
	l.watchSome(dir, name)
	if any, _ := lies(dir); !any {
		return false
	}
	if l.adopt {
		if !l.settle(dir, name) {
			skipped[name] = true
		}
		return true
	}
	var st unix.Stat_t
	if l.repositoryIn(dir, name) && unix.Fstat(int(dir.Fd()), &st) == nil && len(l.p.made) < maxHomes {
		l.p.made[identOf(&st)] = true
	}
	if !l.room() {
		for _, other := range otherRepositories {
			if st, err := statAt(dir, other); err == nil && st != nil {
				l.remove(dir, path.Join(name, other), other, &rule{why: fmt.Sprintf("the workspace has %d repositories already, and programs run what they say", l.dirs)})
			}
		}
	}
	l.inHome(dir, name)
	return true
}

// lookDeep looks at what the walk has found. If no command runs, it adopts what a look has
// judged while commands ran.
func (l *look) lookDeep() {
	skipped := map[string]bool{}
	defer func(doubt time.Time) { l.doubt = doubt }(l.doubt)
	l.doubt = l.deepDoubt
	for _, at := range slices.Sorted(maps.Keys(l.p.deep)) {
		dir, err := openDir(l.p.root, at, unix.O_PATH)
		if err != nil {
			delete(l.p.deep, at) // the walk finds it at its present place
			continue
		}
		any, there := lies(dir)
		dir.Close()
		errs := len(l.errs)
		switch {
		case !any:
			delete(l.p.deep, at)
		case l.done[at] && !there:
			l.p.deep[at] = true // part of another repository
		case !l.adopt:
			l.below(at, nil)
			l.p.deep[at] = len(l.errs) == errs
		case l.p.deep[at] || l.p.unseen.IsZero() || l.first:
			l.below(at, skipped)
			delete(l.p.deep, at)
		}
	}
	if len(skipped) > 0 {
		l.note("%d repositories deep in the workspace are only looked at when they change: there are more than %d", len(skipped), maxHomes)
	}
	for at, judged := range l.p.deep {
		if len(l.p.deep) <= maxFound {
			break
		}
		if judged {
			delete(l.p.deep, at)
		}
	}
}

// lies reports whether there may be a repository in a directory, and whether the repository
// is not merely the directory itself.
func lies(dir *os.File) (any, within bool) {
	for name, m := range repositoryMarks {
		if m != markOther && m != markHead {
			continue
		}
		// Without the right to search a directory nobody finds a repository in it. Giving
		// the right changes the directory's time.
		if st, err := statAt(dir, name); err == nil && st != nil {
			any, within = true, within || m == markOther
		}
	}
	return any, within
}
