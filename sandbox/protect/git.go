package protect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// gitLook is the part of a look that knows repositories of git, and what git runs of
// them.
type gitLook struct {
	sealer
	repos map[string]bool // git directories that this look adopted
	dirs  int             // number of git directories
	trees int             // number of work trees: ".git" files
	done  map[string]bool
}

// bareAt looks at a directory that git would take for a repository without a ".git" (git:
// setup.c, is_git_directory). None of the names in such a directory is protected by itself,
// but git runs what its config says for everybody who enters it.
func (l *gitLook) bareAt(dir *os.File, at string) {
	bare := isBare(dir)
	switch {
	case !bare:
	case l.known(at):
		l.gitDir(dir, at, false, 0)
	case !l.room() || !l.clean(dir, at):
		// The directory may be a person's, with harmless hooks and config of its own, and a
		// command may only have made it look like a repository.
		if err := removeAt(dir, "HEAD", &l.left); err != nil {
			l.fail(path.Join(at, "HEAD"), err)
			return
		}
		l.tell(path.Join(at, "HEAD"), "was removed: with it the directory is a bare repository, and git runs the hooks or the configuration in it.")
		return
	}
	if bare {
		l.links(dir, at, cmp.Or(at, ".")) // without core.bare git also takes it for the work tree
	}
}

func isBare(dir *os.File) bool {
	there := func(name string) bool {
		st, err := statAt(dir, name)
		return err == nil && st != nil
	}
	return there("HEAD") && (there("commondir") || there("objects") && there("refs"))
}

// known reports whether a git directory was one when no command ran, or is part of a
// ".git". Then each change in it is judged; a git directory that is not known must be clean
// as a whole.
func (l *gitLook) known(at string) bool {
	return l.adopt || l.p.repos[at] || slices.Contains(strings.Split(at, "/"), ".git")
}

// room reports whether there may be one more git directory that a command made.
func (l *gitLook) room() bool { return l.dirs < maxGitDirs }

// tooMany removes a git directory that a command made if there were enough already, and
// reports whether it did.
func (l *gitLook) tooMany(dir *os.File, at string) bool {
	if l.adopt || l.p.repos[at] || l.room() {
		return false
	}
	l.remove(dir, at, path.Base(at), &rule{why: fmt.Sprintf("the workspace has %d git directories already, and git runs what they say", l.dirs)})
	return true
}

// clean reports whether git runs nothing of a git directory. It reverts nothing.
func (l *gitLook) clean(dir *os.File, at string) bool {
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

// gitAt looks at a ".git": the directory, or the file that says where the directory is.
func (l *gitLook) gitAt(dir *os.File, at string) {
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		// Without the right to search a directory nobody finds a repository in it. If
		// somebody gives this right, the ctime of the directory changes, so it is looked at
		// again.
		return
	}
	file := rule{why: "git would use a repository that is outside of the workspace, is too deep in it, or is not one", dir: true}
	file.text = func(text []byte) bool { return l.gitFile(at, text) }
	if st == nil && at != ".git" && l.p.guards[at] == nil {
		return
	}
	if g := l.p.guards[at]; isRegular(st) {
		// Each file is looked at with the git directory that it leads to, and any number of
		// files could lead to one.
		if l.trees++; l.trees > maxGitDirs && !l.adopt && (g == nil || g.was == nil) {
			l.remove(dir, at, name, &rule{why: fmt.Sprintf("the workspace has %d work trees already, and git runs what their repositories say", maxGitDirs)})
			return
		}
	}
	l.seal(dir, at, file)
	switch {
	case isDir(st):
		if l.tooMany(dir, at) {
			break
		}
		if sub := l.enter(dir, at); sub != nil {
			l.gitDir(sub, at, false, 0)
			sub.Close()
			l.links(dir, path.Dir(at), at)
		}
	case isRegular(st): // if the file still exists
		if text, err := readAt(dir, name, 4096); err == nil {
			l.markText(at, text)
			if l.gitFile(at, text) {
				to, _ := l.p.place(path.Dir(at), strings.TrimRight(strings.TrimPrefix(string(text), "gitdir: "), "\r\n"))
				l.links(dir, path.Dir(at), to)
			}
		}
	case isLink(st):
		if to, err := readlinkAt(dir, name); err == nil {
			l.gitTarget(path.Dir(at), to)
		}
	}
}

// gitFile reports whether the text of a ".git" file leads to a directory in the workspace,
// and looks at that directory as a git directory (gitrepository-layout(5)).
func (l *gitLook) gitFile(at string, text []byte) bool {
	to, ok := strings.CutPrefix(string(text), "gitdir: ")
	return ok && l.gitTarget(path.Dir(at), strings.TrimRight(to, "\r\n"))
}

// gitTarget looks at a git directory that a file or a link names, and reports whether it is
// a git directory in the workspace.
func (l *gitLook) gitTarget(from, to string) bool {
	target, ok := l.p.place(from, to)
	if !ok || target == "." {
		return false
	}
	if strings.Count(target, "/") >= maxWay {
		// Each part of the path would have to be pinned in its place, and a box chooses how
		// many there are. So the path is treated like one that leads outside.
		if l.adopt {
			l.note("%s leads to a repository that is more than %d directories deep; it is not protected", plain(path.Join(from, ".git")), maxWay)
		}
		return l.adopt
	}
	dir := l.way(l.p.root, "", target, rule{why: byGit, dir: true})
	if dir == nil {
		g := l.p.guards[target]
		for at := target; g == nil && at != "."; at = path.Dir(at) {
			g = l.p.guards[at]
		}
		return g != nil && g.used && !g.dir && !g.through // protected as a whole
	}
	defer dir.Close()
	if !l.known(target) {
		return l.room() && l.clean(dir, target)
	}
	l.gitDir(dir, target, path.Base(path.Dir(target)) == "worktrees", 0)
	return true
}

// gitDir looks at a git directory: what git runs of it, and what makes git look elsewhere
// for that. linked says that it is a worktree's, in which commondir leads back.
func (l *gitLook) gitDir(dir *os.File, at string, linked bool, depth int) {
	if l.done[at] {
		return
	}
	l.done[at] = true
	l.dirs++
	if l.adopt {
		l.repos[at] = true
	}
	in := func(name string) string { return path.Join(at, name) }
	l.seal(dir, in("hooks"), rule{why: byGit, samples: true})
	for _, name := range []string{"remotes", "branches"} {
		// Addresses of remotes that no setting names (gitrepository-layout(5)).
		l.seal(dir, in(name), rule{why: "git fetches from where it says, and may run programs of the repository there", samples: true, loose: true})
	}
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
	l.rebase(dir, at)
	for _, name := range []string{rebaseStrategy, sequencerOptions} {
		l.strategy(dir, at, name)
	}
	if linked {
		return
	}
	l.gitDirs(dir, in("modules"), false, depth+1)
	l.gitDirs(dir, in("worktrees"), true, depth+1)
}

// gitDirs looks at the git directories of submodules or worktrees. The names
// of submodules may have several parts.
func (l *gitLook) gitDirs(dir *os.File, at string, linked bool, depth int) {
	if g := l.p.guards[at]; g != nil && !g.dir && (g.held || g.was != nil && !l.adopt) {
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
	var names []string // the bound on names that a command makes is maxGitDirs; this one also counts what a person has
	err = eachEntry(sub, func(e dirent) bool {
		if e.mayBeDir() {
			names = append(names, e.name)
		}
		return len(names) <= maxListed
	})
	if err != nil {
		l.fail(at, err)
	}
	if depth > maxGitDepth || l.adopt && len(names) > maxGitDirs || l.first && len(names) > maxPerKind {
		l.seal(dir, at, rule{why: byGit}) // as a whole: what is new is removed
		return
	}
	l.seal(dir, at, rule{why: byGit, dir: true})
	for _, name := range names {
		here := path.Join(at, name)
		st, err := statAt(sub, name)
		if err != nil || st == nil || !isDir(st) && !isLink(st) {
			continue
		}
		if isDir(st) && l.tooMany(sub, here) {
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
			l.dirs++ // a directory that leads to others counts too
			if l.adopt {
				l.repos[here] = true
			}
			l.gitDirs(sub, here, linked, depth+1)
		}
		kid.Close()
	}
}

// config looks at a git configuration. Each of its settings must be harmless, or
// must have been there before.
func (l *gitLook) config(dir *os.File, at string, r rule, good func(*gitSetting) bool) {
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	if l.settledBefore(at) {
		l.guard(at, r)
		return
	}
	g := l.p.guards[at]
	if st != nil && !isRegular(st) || !l.adopt && g != nil && g.was != nil {
		l.seal(dir, at, r) // only a regular file is read; anything else must stay as it was
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
		same = same || st.Nlink == 1 && l.hold(g)
		g.id, g.was = identOf(st), nil
		l.accept(g, at, text, good, st)
	} else if kept, taken := strip(text, bad, g.tail); len(taken) > 0 {
		g.held = false // rewriteAt replaces the file on the host, so the pin does not hold any more
		if err := rewriteAt(dir, name, st, text, kept); err != nil {
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

// unread deals with a configuration that cannot be read, because it is too large or was
// just changed.
func (l *gitLook) unread(g *guard, dir *os.File, at string, err error) {
	switch {
	case gone(err) == nil:
	case l.adopt:
		l.fail(at, err)
	default:
		g.held = false
		l.restore(dir, at, path.Base(at), nil, &rule{why: g.why}, 0)
	}
}

// accept remembers what a configuration sets, and protects what it names. A configuration
// that is young may be a box's, so it is recorded as a suspect.
func (l *gitLook) accept(g *guard, at string, text []byte, good func(*gitSetting) bool, st *unix.Stat_t) {
	told := false
	g.accepted = make(map[string]bool)
	all, end := readConfig(text)
	if g.tail = string(text[end:]); g.tail != "" {
		l.note("%s: git cannot read it", plain(at))
	}
	gitDir := path.Dir(at)
	for i := range all {
		s := &all[i]
		if good(s) {
			continue
		}
		g.accepted[s.name()+"\x00"+s.value] = true
		if !told && l.isYoung(at, st) {
			l.suspects = append(l.suspects, plain(at+": "+s.name()))
		}
		told = true
		switch {
		case s.section == "core" && s.key == "hookspath":
			l.follow(worktree(gitDir), s, at, "git runs its hooks from there")
		case s.section == "include" || s.section == "includeif":
			l.follow(gitDir, s, at, byGit)
			l.note("%s: %s %q is not followed; hooks and programs that it names are not protected", plain(at), plain(s.name()), plain(s.value))
		case strings.Contains(s.value, "/"):
			l.note("%s: %s names %q; if that is in the workspace, a box can change it", plain(at), plain(s.name()), plain(s.value))
		}
	}
}

// follow protects a path that a configuration names, if the path is in the workspace.
func (l *gitLook) follow(from string, s *gitSetting, at, why string) {
	if strings.HasPrefix(s.value, "~") || s.value == "" {
		return
	}
	target, ok := l.p.place(from, s.value)
	if !ok {
		return
	}
	if target == "." {
		l.note("%s: %s is the workspace itself, which cannot be protected as a whole", plain(at), plain(s.name()))
		return
	}
	l.addExtra(target, why)
}

// worktree returns the directory from which relative paths of core.hooksPath start: the
// directory in which git runs hooks, which is the top of the work tree, or the git
// directory of a bare repository (git-config(1), core.hooksPath).
func worktree(gitDir string) string {
	if path.Base(gitDir) == ".git" {
		return path.Dir(gitDir)
	}
	return gitDir
}

// inWords returns a text that lists the settings that were removed from a configuration.
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
