package sandbox

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// git looks at the repository of the workspace, at the workspace as a bare
// repository, and at those one directory down.
func (l *look) git() {
	l.gitAt(l.p.root, ".git")
	l.bareAt(l.p.root, "")
	l.config(l.p.root, ".gitmodules", rule{why: byGit, loose: true}, func(s *gitSetting) bool { return harmless(s, moduleKeys) })
	names, err := listDir(l.p.root, maxListed)
	if err != nil && !errors.Is(err, errBound) {
		l.fail(".", err)
	}
	without, skipped := make(map[string]mark), make(map[string]bool)
	defer func() {
		l.p.plain = without
		if l.adopt {
			l.p.skipped = skipped
		}
	}()
	dirs := 0
	for _, name := range names {
		if g := l.p.guards[name]; g != nil && g.used || name == ".git" {
			continue
		}
		st, err := statAt(l.p.root, name)
		if err != nil || !isDir(st) {
			continue
		}
		if dirs++; dirs > maxBelow || l.dirs > maxGitDirs/2 || l.p.skipped[name] && !l.adopt {
			// What is not looked at now must not count as new later.
			skipped[name] = true
			continue
		}
		l.loose = l.first && l.dirs > maxPinnedGit
		if m, ok := l.p.plain[name]; ok && l.p.times && m.id == identOf(st) && m.time == st.Ctim {
			l.mark(name, st)
			without[name] = m
			continue
		}
		if !l.below(name) && !l.tooYoung(st) {
			without[name] = mark{id: identOf(st), time: st.Ctim}
		}
	}
	l.loose = false
	if l.adopt && len(skipped) > 0 {
		l.note("%d directories are not looked at for repositories: there are more than %d, or too many repositories", len(skipped), maxBelow)
	}
}

// below looks for a repository in one directory of the workspace, and reports
// whether there may be one.
func (l *look) below(name string) bool {
	dir := l.open(l.p.root, name)
	if dir == nil {
		return true // moved or replaced this moment: the workspace's time tells
	}
	defer dir.Close()
	found := l.gitAt(dir, name+"/.git")
	return l.bareAt(dir, name) || found
}

// bareAt looks at a directory that git would take for a repository without a
// ".git" (git: setup.c, is_git_directory): made of innocent names, it runs what
// its config says for everybody who enters it. It reports whether there is one.
func (l *look) bareAt(dir *os.File, at string) bool {
	there := func(name string) bool {
		st, err := statAt(dir, name)
		return err == nil && st != nil
	}
	bare := there("HEAD") && (there("commondir") || there("objects") && there("refs"))
	switch {
	case !bare:
	case l.known(at):
		l.gitDir(dir, at, false, 0)
	case !l.clean(dir, at):
		// The directory may be a person's, with innocent hooks and config of its
		// own, and only be made to look like a repository.
		if err := removeAt(dir, "HEAD", &l.left); err != nil {
			l.fail(path.Join(at, "HEAD"), err)
			return bare
		}
		l.tell(path.Join(at, "HEAD"), "was removed: with it the directory is a bare repository, of which git runs hooks or configuration.")
	}
	return bare
}

// known reports whether a git directory was one when no command ran, or is part
// of a ".git"; what is new in it then is new to a repository.
func (l *look) known(at string) bool {
	if l.adopt {
		l.repos[at] = true
	}
	return l.adopt || l.p.repos[at] || slices.Contains(strings.Split(at, "/"), ".git")
}

// clean reports whether git runs nothing of a git directory; it takes nothing
// back.
func (l *look) clean(dir *os.File, at string) bool {
	for _, name := range []string{"commondir", "modules", "worktrees"} {
		if st, err := statAt(dir, name); st != nil || err != nil {
			return false
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		text, err := readAt(dir, name, maxConfigText)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		_, taken := strip(text, func(s *gitSetting) bool { return !harmless(s, repoKeys) }, "")
		if err != nil || len(taken) > 0 {
			return false
		}
		l.markText(path.Join(at, name), text)
	}
	hooks, err := openDir(dir, "hooks", 0)
	if err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	defer hooks.Close()
	l.watch(hooks, path.Join(at, "hooks"))
	names, err := listDir(hooks, maxListed)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		st, err := statAt(hooks, name)
		return err != nil || !isRegular(st) || !strings.HasSuffix(name, ".sample")
	})
}

// gitAt looks at a ".git": the directory, or the file that says where it is. It
// reports whether there was something.
func (l *look) gitAt(dir *os.File, at string) bool {
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		// Without the right to search a directory nobody finds a repository in
		// it; giving it changes the directory's time.
		return false
	}
	l.follow(at, st)
	file := rule{why: "git would use a repository that is outside of the workspace, or that is not one", dir: true}
	file.text = func(text []byte) bool { return l.gitFile(at, text) }
	if st == nil && at != ".git" && l.p.guards[at] == nil {
		return false
	}
	l.seal(dir, at, file)
	switch {
	case isDir(st):
		if sub := l.enter(dir, at); sub != nil {
			l.gitDir(sub, at, false, 0)
			sub.Close()
		}
	case isRegular(st): // if it is still there
		if text, err := readAt(dir, name, 4096); err == nil {
			l.markText(at, text)
			l.gitFile(at, text)
		}
	case isLink(st):
		if to, err := readlinkAt(dir, name); err == nil {
			l.gitTarget(path.Dir(at), to)
		}
	}
	return st != nil
}

// follow finds a held repository again whose directory was moved.
func (l *look) follow(at string, st *unix.Stat_t) {
	if !isDir(st) || l.p.guards[at] != nil {
		return
	}
	for old, g := range l.p.guards {
		if !g.held || g.id != identOf(st) || path.Base(old) != ".git" {
			continue
		}
		for name, inner := range l.p.guards {
			if rest, ok := strings.CutPrefix(name, old); ok && (rest == "" || rest[0] == '/') {
				delete(l.p.guards, name)
				l.p.guards[at+rest] = inner
			}
		}
		return
	}
}

// gitFile reports whether the text of a ".git" file leads to a directory in
// the workspace, and looks at that as a git directory (gitrepository-layout(5)).
func (l *look) gitFile(at string, text []byte) bool {
	to, ok := strings.CutPrefix(string(text), "gitdir: ")
	return ok && l.gitTarget(path.Dir(at), strings.TrimRight(to, "\r\n"))
}

// gitTarget looks at a git directory that is named from elsewhere, and reports
// whether it is one in the workspace.
func (l *look) gitTarget(from, to string) bool {
	target, ok := l.place(from, to)
	if !ok || target == "." {
		return false
	}
	dir, here := l.p.root, ""
	for part := range strings.SplitSeq(target, "/") {
		here = path.Join(here, part)
		if g := l.p.guards[here]; g == nil || !g.used {
			l.seal(dir, here, rule{why: byGit, dir: true})
		} else if !g.dir {
			return true // protected as a whole
		}
		sub := l.enter(dir, here)
		if sub == nil {
			return false
		}
		defer sub.Close() //nolint:revive // a path has few parts, and each is needed for the next
		dir = sub
	}
	if !l.known(target) {
		return l.clean(dir, target)
	}
	l.gitDir(dir, target, path.Base(path.Dir(target)) == "worktrees", 0)
	return true
}

// place is a path that configuration names, from a directory of the workspace,
// and whether it leads into the workspace.
func (l *look) place(from, to string) (string, bool) {
	if path.IsAbs(to) {
		for _, top := range []string{l.p.where, Workspace} {
			if rel, err := filepath.Rel(top, to); err == nil && inside(rel) {
				return rel, true
			}
		}
		return "", false
	}
	to = path.Join(from, to)
	return to, inside(to)
}

// gitDir looks at a git directory: what git runs of it, and what makes git look
// elsewhere for that. linked is a worktree's, in which commondir leads back.
func (l *look) gitDir(dir *os.File, at string, linked bool, depth int) {
	if l.done[at] {
		return
	}
	l.done[at] = true
	if l.dirs++; l.dirs > maxGitDirs || depth > maxGitDepth {
		l.fail(at, errBound)
		return
	}
	in := func(name string) string { return path.Join(at, name) }
	l.seal(dir, in("hooks"), rule{why: byGit, samples: true})
	common := rule{why: "git would take its configuration from elsewhere"}
	if linked {
		common.text = func(text []byte) bool { return strings.TrimRight(string(text), "\r\n") == "../.." }
	}
	l.seal(dir, in("commondir"), common)
	good := func(s *gitSetting) bool {
		return harmless(s, repoKeys) || moduleWorktree(at, s) && strings.Contains(at, "/modules/")
	}
	for _, name := range []string{"config", "config.worktree"} {
		l.config(dir, in(name), rule{why: byGit}, good)
	}
	if linked {
		return
	}
	l.gitDirs(dir, in("modules"), false, depth+1)
	l.gitDirs(dir, in("worktrees"), true, depth+1)
}

// gitDirs looks at the git directories of submodules or worktrees. The names
// of submodules may have several parts.
func (l *look) gitDirs(dir *os.File, at string, linked bool, depth int) {
	if depth > maxGitDepth {
		l.fail(at, errBound)
		return
	}
	if g := l.p.guards[at]; g != nil && g.held && !g.dir {
		l.seal(dir, at, rule{why: byGit}) // too many to be pinned one by one
		return
	}
	st, err := statAt(dir, path.Base(at))
	if err != nil {
		l.fail(at, err)
		return
	}
	if !isDir(st) {
		l.seal(dir, at, rule{why: byGit, dir: true})
		return
	}
	sub, err := openToList(dir, path.Base(at))
	if err != nil {
		l.fail(at, err)
		return
	}
	defer sub.Close()
	l.watch(sub, at)
	names, err := listDir(sub, maxListed)
	if err != nil {
		l.fail(at, err)
	}
	if l.first && len(names) > maxPerKind {
		l.seal(dir, at, rule{why: byGit})
		return
	}
	l.seal(dir, at, rule{why: byGit, dir: true})
	for _, name := range names {
		here := path.Join(at, name)
		st, err := statAt(sub, name)
		if err != nil || st == nil || !isDir(st) && !isLink(st) {
			continue
		}
		l.seal(sub, here, rule{why: byGit, dir: true})
		kid := l.enter(sub, here)
		if kid == nil {
			continue
		}
		head, err := statAt(kid, "HEAD")
		switch {
		case err != nil:
			l.fail(here, err)
		case head != nil || linked:
			l.gitDir(kid, here, linked, depth+1)
		default:
			l.gitDirs(sub, here, linked, depth+1)
		}
		kid.Close()
	}
}

// config looks at a git configuration: what it sets may be only what was set
// before, or harmless.
func (l *look) config(dir *os.File, at string, r rule, good func(*gitSetting) bool) {
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	g := l.p.guards[at]
	if st != nil && !isRegular(st) || !l.adopt && g != nil && g.was != nil {
		l.seal(dir, at, r) // what is no file is only what it was
		return
	}
	g = l.guard(at, r)
	if st == nil {
		g.held, g.accepted, g.tail, g.was = false, nil, "", nil
		return
	}
	if !l.adopt && g.held && identOf(st) == g.id {
		return
	}
	text, err := readAt(dir, name, maxConfigText)
	if err != nil {
		l.unread(g, dir, at, err)
		return
	}
	same := g.held && identOf(st) == g.id
	bad := func(s *gitSetting) bool { return !good(s) && !g.accepted[s.name()+"\x00"+s.value] }
	if l.adopt {
		same = same || l.first && st.Nlink == 1 && !g.loose
		g.id, g.was = identOf(st), nil
		l.accept(g, at, text, good)
	} else if kept, taken := strip(text, bad, g.tail); len(taken) > 0 {
		g.held = false // replaced on the host, which ends its pin
		if err := rewriteAt(dir, name, st, kept); err != nil {
			l.fail(at, err)
			return
		}
		l.tell(at, "lost %s: git runs or follows what such settings name, for everybody who uses the repository. Everything else in it was kept.", inWords(taken))
		return
	}
	if g.held = same; same {
		l.mark(at, st)
	} else {
		l.markText(at, text)
	}
}

// unread deals with a configuration that cannot be read: too large, or changed
// this moment.
func (l *look) unread(g *guard, dir *os.File, at string, err error) {
	switch {
	case gone(err) == nil:
	case l.adopt:
		l.fail(at, err)
	default:
		g.held = false
		l.restore(dir, at, path.Base(at), nil, &rule{why: g.why}, 0)
	}
}

// accept remembers what a configuration sets, and protects what it names.
func (l *look) accept(g *guard, at string, text []byte, good func(*gitSetting) bool) {
	g.accepted = make(map[string]bool)
	all, end := readConfig(text)
	if g.tail = string(text[end:]); g.tail != "" {
		l.note("%s: git cannot read it", at)
	}
	gitDir := path.Dir(at)
	for i := range all {
		s := &all[i]
		if good(s) {
			continue
		}
		g.accepted[s.name()+"\x00"+s.value] = true
		switch {
		case s.section == "core" && s.key == "hookspath":
			l.named(worktree(gitDir), s, at, "git runs its hooks from there")
		case s.section == "include" || s.section == "includeif":
			l.named(gitDir, s, at, byGit)
			l.note("%s: %s %q is not followed; hooks and programs that it names are not protected", at, plain(s.name()), plain(s.value))
		case strings.Contains(s.value, "/"):
			l.note("%s: %s names %q; if that is in the workspace, a box can change it", at, plain(s.name()), plain(s.value))
		}
	}
}

// named protects a path that configuration names, where it is in the workspace.
func (l *look) named(from string, s *gitSetting, at, why string) {
	if strings.HasPrefix(s.value, "~") || s.value == "" {
		return
	}
	target, ok := l.place(from, s.value)
	if !ok {
		return
	}
	if target == "." {
		l.note("%s: %s is the workspace itself, which cannot be protected as a whole", at, s.name())
		return
	}
	l.addExtra(target, why)
}

// worktree is the directory that relative paths of core.hooksPath start from:
// where git runs hooks, which is the top of the work tree, or the git directory
// of a bare repository (git-config(1), core.hooksPath).
func worktree(gitDir string) string {
	if path.Base(gitDir) == ".git" {
		return path.Dir(gitDir)
	}
	return gitDir
}

// inWords is what was taken from a configuration, in words.
func inWords(taken []string) string {
	const most = 8
	var all []string
	for i, t := range taken {
		if i == most {
			all = append(all, "and others")
			break
		}
		all = append(all, "`"+plain(t)+"`")
	}
	return strings.Join(all, ", ")
}
