package protect

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/workspace"
)

// Changes is the workspace.Guard of what docs/protected-paths.md names:
// a change of it waits in the set until a person asks for it by name. It is
// stricter than a Protector of a workspace that is written directly, which can
// distinguish what git itself writes from what a command writes: here no
// configuration of git and no hook is applied.
//
// It judges the directory as it would be with the set, and not the set alone. A
// repository can come in pieces, each of them harmless: its config with one set
// and its HEAD with the next. Two rules keep every order of sets and of partial
// applies safe, because both are true again after each apply:
//
//   - if a directory has a HEAD, or would have one with all of the set, nothing
//     is applied in it that git runs or that leads git elsewhere;
//   - a HEAD, or what else makes a directory a git directory, is applied only
//     if git would run nothing that is in the directory already.
func Changes(base string, p workspace.Protect, changes []workspace.Change) (func(c *workspace.Change) string, error) {
	if p.Off {
		return func(*workspace.Change) string { return "" }, nil
	}
	dir, err := os.OpenFile(base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	defer dir.Close()
	// The paths that the person's own configuration adds, for example core.hooksPath.
	known, err := open(dir, Config{Also: p.Also}, "", false)
	if err != nil {
		return nil, err
	}
	defer known.Close()
	g := guarding{
		known: known, guards: map[string]rule{}, adds: map[string]map[string]bool{},
		dirs: map[string]gitState{}, led: map[string]string{}, clean: map[string]bool{},
	}
	return g.judge(changes), nil
}

// guarding judges one set.
type guarding struct {
	known  *Protector
	guards map[string]rule            // rules of known, by folded path
	adds   map[string]map[string]bool // by folded directory: folded names that the set adds to it or changes
	dirs   map[string]gitState        // by path
	clean  map[string]bool            // by path: whether git would run nothing in the directory
	led    map[string]string          // by folded path that a repository's configuration names: why it is protected
}

// gitState is what a directory is to git, in the base and with all of the set (Then).
type gitState struct {
	head, headThen   bool // whether it has a HEAD, which every git directory has
	whole, wholeThen bool // whether it has a HEAD and all else that makes it a git directory
}

// judge finds the reasons for all changes together, while the base is open.
func (g *guarding) judge(changes []workspace.Change) func(*workspace.Change) string {
	for at, rule := range g.known.guards {
		was, twice := g.guards[folded(at)]
		if !twice || was.loose || was.dir && !rule.loose {
			g.guards[folded(at)] = rule.rule
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Kind == workspace.Deleted {
			continue
		}
		dir := folded(path.Dir(c.Path))
		if g.adds[dir] == nil {
			g.adds[dir] = map[string]bool{}
		}
		g.adds[dir][folded(path.Base(c.Path))] = true
	}
	// The paths that the repositories around a change name must be known before a change is
	// judged.
	for i := range changes {
		for dir := path.Dir(changes[i].Path); ; dir = path.Dir(dir) {
			if _, done := g.dirs[dir]; done {
				break
			}
			g.look(dir)
			g.look(path.Join(dir, ".git"))
			if dir == "." {
				break
			}
		}
	}
	why := map[string]string{}
	for i := range changes {
		if reason := g.why(&changes[i]); reason != "" {
			why[changes[i].Path] = reason
		}
	}
	return func(c *workspace.Change) string { return why[c.Path] }
}

// why returns the reason for which a change is not applied, or "".
func (g *guarding) why(c *workspace.Change) string {
	if why := protectedAs(folded(c.Path)); why != "" {
		return why
	}
	for at := c.Path; at != "."; at = path.Dir(at) {
		if why := g.led[folded(at)]; why != "" {
			return why
		}
		rule, ok := g.guards[folded(at)]
		switch {
		case !ok || rule.loose || rule.through:
		case !rule.dir:
			return rule.why
		case at == c.Path && (c.Kind == workspace.Deleted || c.Type != "directory"):
			return rule.why // it may be changed inside, but not replaced
		}
	}
	if why := inRepository(c); why != "" {
		return why
	}
	for at := c.Path; at != "."; at = path.Dir(at) {
		if why := g.inGitDir(c, at); why != "" {
			return why
		}
	}
	return ""
}

// inGitDir returns the reason for which a change is not applied at the path at if the
// directory of this path is a git directory, whatever its name is, or "".
func (g *guarding) inGitDir(c *workspace.Change, at string) string {
	dir, name := path.Dir(at), folded(path.Base(at))
	state := g.look(dir)
	switch {
	case gitRuns[name]:
		// If a directory is only becoming a git directory, config may still be deleted: in
		// this way a person removes what keeps HEAD from being applied.
		if state.head || state.headThen && c.Kind != workspace.Deleted {
			return byGit
		}
	case c.Kind == workspace.Deleted || !gitMarks[name] || slices.ContainsFunc(strings.Split(dir, "/"), isDotGit):
		// Files that git runs in a ".git" belong to the person: none of them is ever
		// applied.
	case (name == gitHead && !state.head || state.wholeThen && !state.whole) && !g.isClean(dir):
		return "with it the directory would be a git repository, and git would run hooks or configuration that lie in it already"
	}
	return ""
}

func isDotGit(name string) bool { return folded(name) == folded(".git") }

// gitRuns are the names in a git directory, folded, from which git runs something, or which
// lead it to another directory (gitrepository-layout(5)). A rebase in progress has commands
// in its list (git-rebase(1), "exec"). The options with which a rebase or a cherry-pick
// continues name the program that merges (sequencer/opts). gitdir is what `git worktree
// repair` writes to.
var gitRuns = foldedSet(gitRunNames...)

var gitRunNames = []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "rebase-merge", "sequencer"}

// gitMarks are the names that make a directory a git directory (git: setup.c,
// is_git_directory); commondir stands for the last two.
var gitMarks = foldedSet("HEAD", "objects", "refs")

var gitHead = folded("HEAD")

// look returns what a directory is to git. A directory that only looks like a git directory
// counts as one, as it does for a Protector.
func (g *guarding) look(dir string) gitState {
	if state, done := g.dirs[dir]; done {
		return state
	}
	root := int(g.known.root.Fd())
	held := -1
	if fd, err := openBeneath(root, dir, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		held = fd
		defer unix.Close(fd)
	}
	added := g.adds[folded(dir)]
	repository := func(there func(string) bool) bool {
		return there("HEAD") && (there("commondir") || there("objects") && there("refs"))
	}
	inBase := func(name string) bool {
		var st unix.Stat_t
		return held >= 0 && unix.Fstatat(held, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	}
	then := func(name string) bool { return added[folded(name)] || inBase(name) }
	state := gitState{inBase("HEAD"), then("HEAD"), repository(inBase), repository(then)}
	g.dirs[dir] = state
	if state.head {
		g.follow(dir)
	}
	return state
}

// follow records the paths in the workspace to which a repository of the base leads: by
// links in the place of what git runs, and by its configuration. The Protector does that
// for repositories at its top and one directory down.
func (g *guarding) follow(gitDir string) {
	for _, name := range gitRunNames {
		g.lead(path.Join(gitDir, name), byGit)
	}
	for _, name := range []string{"config", "config.worktree"} {
		text, err := readAt(g.known.root, g.lead(path.Join(gitDir, name), byGit), maxConfigText)
		if err != nil {
			continue
		}
		all, _ := readConfig(text)
		for i := range all {
			s := &all[i]
			from, why := "", ""
			switch {
			case s.value == "" || strings.HasPrefix(s.value, "~"):
				continue
			case s.section == "core" && s.key == "hookspath":
				from, why = worktree(gitDir), "git runs its hooks from there"
			case (s.section == "include" || s.section == "includeif") && s.key == "path":
				from, why = gitDir, byGit
			default:
				continue
			}
			if target, ok := g.known.place(from, s.value); ok && target != "." {
				g.led[folded(target)] = why
				g.lead(target, why)
			}
		}
	}
}

// lead protects each link of the base that is on a path, and the end to which they lead,
// and returns that end; "." is a place outside, which no set changes.
func (g *guarding) lead(at, why string) string {
	links, end := g.known.trail(at)
	for _, link := range links {
		g.led[folded(link)] = why
	}
	if end != at && end != "." {
		g.led[folded(end)] = why
	}
	return end
}

// isClean reports whether git would run nothing that the base has in a directory that
// becomes a git directory.
func (g *guarding) isClean(at string) bool {
	clean, done := g.clean[at]
	if !done {
		dir, err := openDir(g.known.root, at, unix.O_PATH)
		clean = err != nil // it does not exist yet, or is not a directory
		if err == nil {
			clean = g.known.look(true).clean(dir, at)
			dir.Close()
		}
		g.clean[at] = clean
	}
	return clean
}

// repositories are the directories in which version control systems look for their
// configuration, at any depth, and the names in them from which they run something. hg and
// its relatives run hooks and extensions that .hg/hgrc names, and follow .hg/sharedpath
// (hgrc(5)); a repo or .git that is not a directory leads elsewhere.
//
// This table is not repositoryNames: those are single paths, because a box must still be
// able to work next to them. Here a name may be at any depth in such a directory, because
// nothing in a set says who wrote it. TestRepositoriesAreInBoth keeps
// the two in step.
var repositories = []struct {
	dir  string
	runs map[string]bool
	why  string
}{
	{".git", gitRuns, byGit},
	{".hg", foldedSet("hgrc", "hgrc-not-shared", "sharedpath", "hooks"), "hg runs what it says"},
	{".sl", foldedSet("config", "hgrc", "sharedpath", "hooks"), "sl runs what it says"},
	{".jj", foldedSet("config.toml", "workspace-config.toml"), "jj runs what it says"},
	{"_darcs", foldedSet("prefs"), "darcs runs what it says"},
	{".pijul", foldedSet("config"), "pijul runs what it says"},
}

// inRepository returns the reason for which a change in the directory of a version control
// system is not applied, wherever in the workspace that directory is, or "".
func inRepository(c *workspace.Change) string {
	parts := strings.Split(c.Path, "/")
	for i, part := range parts {
		for _, r := range repositories {
			if folded(part) != folded(r.dir) {
				continue
			}
			if i == len(parts)-1 && c.Type != "directory" {
				return r.why // it leads to another directory
			}
			if slices.ContainsFunc(parts[i+1:], func(name string) bool { return r.runs[folded(name)] }) {
				return r.why
			}
			if r.dir == ".jj" && i == len(parts)-2 && folded(parts[i+1]) == folded("repo") && c.Type != "directory" {
				return r.why
			}
		}
	}
	return ""
}
