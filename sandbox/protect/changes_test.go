package protect_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/protect"
	"belljar.dev/sandbox/workspace"
)

// inMemory returns a directory that waits for no disk, if this host has one that supports
// what a layer needs.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "belljar-test-") //nolint:usetesting // a disk is what it is not to be
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if unix.Setxattr(dir, "user.belljar", []byte("y"), 0) != nil {
		return t.TempDir()
	}
	return dir
}

// evil marks everything that a set writes and that git, an editor or a shell would run.
const evil = "EVIL"

// evilConfig makes `git status` run a program, also in a bare repository.
const evilConfig = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = /tmp\n\tfsmonitor = \"touch \\\"$WITNESS\\\"; false\" # " + evil + "\n"

// applyCase is a random base, sets of changes that random boxes make to it, and applies of
// all or part of these sets.
type applyCase struct {
	*rand.Rand
	t     *testing.T
	base  string
	store *workspace.Store
	log   []string
}

var caseDirs = []string{".", "docs", "docs/api", "test/data/repo.git", "proj", "proj/sub", "lib.git", "a/b/c", "payload"}

func (c *applyCase) dir() string { return caseDirs[c.IntN(len(caseDirs))] }

func (c *applyCase) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%v, after\n%s", err, strings.Join(c.log, "\n"))
	}
}

// put makes a file in a tree, unless something else is in its way.
func put(top, path, text string) {
	if os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o755) == nil {
		_ = os.Remove(filepath.Join(top, path))
		_ = os.WriteFile(filepath.Join(top, path), []byte(text), 0o755)
	}
}

func link(top, path, target string) {
	if os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o755) == nil {
		_ = os.RemoveAll(filepath.Join(top, path))
		_ = os.Symlink(target, filepath.Join(top, path))
	}
}

const cleanConfig = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"

// person makes the base: repositories of all kinds, parts of them, and plain
// directories.
func (c *applyCase) person() {
	repository := func(at string) {
		put(c.base, at+"/HEAD", "ref: refs/heads/main\n")
		put(c.base, at+"/objects/x", "")
		put(c.base, at+"/refs/heads/x", "")
		put(c.base, at+"/config", cleanConfig)
		put(c.base, at+"/hooks/post-commit.sample", "exit 0\n")
	}
	for _, dir := range caseDirs {
		put(c.base, dir+"/file", "mine\n")
		switch c.IntN(8) {
		case 0:
			repository(dir)
		case 1:
			repository(dir + "/.git")
			if c.IntN(2) == 0 {
				repository(dir + "/.git/modules/sub")
				put(c.base, dir+"/.git/worktrees/w/HEAD", "ref: refs/heads/w\n")
				put(c.base, dir+"/.git/worktrees/w/commondir", "../..\n")
			}
		case 2:
			put(c.base, dir+"/.git", "gitdir: "+c.up(dir)+c.dir()+"\n")
		case 3:
			put(c.base, dir+"/config", "title = mine\n")
			put(c.base, dir+"/hooks/useUser.ts", "export {}\n")
		case 4:
			put(c.base, dir+"/HEAD", "ref: refs/heads/main\n")
			put(c.base, dir+"/objects/x", "")
		}
	}
}

// up returns the path from a directory to the top of the workspace.
func (c *applyCase) up(dir string) string {
	if dir == "." {
		return ""
	}
	return strings.Repeat("../", strings.Count(dir, "/")+1)
}

// piece changes one random part of a repository in a directory.
func (c *applyCase) piece(top, dir string) {
	to := func(name string) string { return dir + "/" + name }
	name := ""
	switch c.IntN(16) {
	case 0, 1:
		name = "HEAD"
		put(top, to(name), "ref: refs/heads/main\n")
	case 2, 3:
		name = "objects, refs"
		put(top, to("objects/k"), "")
		put(top, to("refs/heads/k"), "")
	case 4, 5:
		name = "config"
		put(top, to(name), evilConfig)
	case 6:
		name = "hooks/post-checkout"
		put(top, to(name), "#!/bin/sh\ntouch \"$WITNESS\" # "+evil+"\n")
	case 7:
		name = "config to payload"
		put(top, "payload/text", evilConfig)
		link(top, to("config"), c.up(dir)+"payload/text")
	case 8:
		name = "hooks to payload"
		put(top, "payload/post-checkout", "# "+evil)
		link(top, to("hooks"), c.up(dir)+"payload")
	case 9:
		name = "commondir"
		put(top, to(name), c.up(dir)+c.dir()+"\n")
	case 10:
		name = "config.worktree"
		put(top, to(name), evilConfig)
	case 11:
		name = ".git file"
		put(top, to(".git"), "gitdir: "+c.up(dir)+c.dir()+"\n")
	case 12:
		name = ".git link"
		link(top, to(".git"), c.up(dir)+c.dir())
	case 13:
		name = []string{"HEAD", "config", "objects", "refs", "hooks", ".git"}[c.IntN(6)]
		gone := filepath.Join(top, to(name))
		_ = os.RemoveAll(gone)
		if _, err := os.Lstat(filepath.Join(c.base, to(name))); err == nil && os.MkdirAll(filepath.Dir(gone), 0o755) == nil {
			_ = unix.Mknod(gone, unix.S_IFCHR, 0)
			name += " deleted"
		}
	case 14:
		name = []string{".vscode/tasks.json", ".envrc", ".Claude/settings.json", ".hg/hgrc", ".GIT/config"}[c.IntN(5)]
		put(top, name, evil)
	case 15:
		name = "link to payload"
		put(top, "payload/tasks.json", evil)
		link(top, ".vscode", "payload")
	}
	c.log = append(c.log, "  "+dir+": "+name)
}

// run makes a sequence of sets and applies, and returns the harm that it finds after one of
// them.
func (c *applyCase) run(opts workspace.Options) (harm []string) {
	c.person()
	target := c.dir()
	for round := range 2 + c.IntN(4) {
		set := []string{"a", "b"}[c.IntN(2)]
		c.log = append(c.log, "round "+strconv.Itoa(round)+", set "+set)
		l, err := c.store.Use(set, "local", c.base, workspace.Protect{})
		c.must(err)
		top := filepath.Join(l.Dirs()[0], workspace.Upper)
		for range 1 + c.IntN(4) {
			dir := target
			switch c.IntN(6) {
			case 0:
				dir = c.dir()
			case 1:
				dir += "/.git"
			}
			c.piece(top, dir)
		}
		c.must(l.Close())
		c.aside(set)
		some := opts
		some.SkipConflicts = true
		d, err := c.store.Changes(c.t.Context(), set)
		if errors.Is(err, workspace.ErrNotFound) {
			continue // the set does not exist
		}
		c.must(err)
		if len(d.Changes) > 0 && c.IntN(2) == 0 {
			for range 1 + c.IntN(3) {
				some.Paths = append(some.Paths, d.Changes[c.IntN(len(d.Changes))].Path)
			}
		}
		if len(some.Paths) == 0 && c.IntN(3) == 0 {
			some.As = d.Digest
		}
		r, err := c.store.Apply(c.t.Context(), set, some)
		c.must(err)
		for _, one := range r.Applied {
			c.log = append(c.log, "  applied "+string(one.Kind)+" "+one.Path)
		}
		if harm = runs(c.base); len(harm) > 0 {
			return harm
		}
	}
	return nil
}

// aside does something with a set that a person may do between applies.
func (c *applyCase) aside(set string) {
	switch c.IntN(8) {
	case 0:
		if err := c.store.Checkpoint(set, "x"+strconv.Itoa(c.Int())); err == nil {
			c.log = append(c.log, "  checkpoint")
		}
	case 1:
		if info, err := c.store.Info(set); err == nil && len(info.Checkpoints) > 0 {
			c.must(c.store.Rollback(set, info.Checkpoints[0].Name))
			c.log = append(c.log, "  rolled back")
		}
	case 2:
		if c.store.Fork(set, "f"+strconv.Itoa(c.Int())) == nil {
			c.log = append(c.log, "  forked")
		}
	case 3:
		if c.store.Discard(set) == nil {
			c.log = append(c.log, "  discarded")
		}
	}
}

// runs returns the files of a set that git would run in any directory of a tree, or an
// editor, an agent or a shell at its top. It follows links, like these programs.
func runs(base string) (harm []string) {
	bad := func(path string) {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), evil) {
			harm = append(harm, path)
		}
	}
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	for _, name := range []string{".vscode/tasks.json", ".envrc", ".Claude/settings.json", ".hg/hgrc", ".GIT/config"} {
		bad(filepath.Join(base, name))
	}
	_ = filepath.WalkDir(base, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && e.Type()&fs.ModeSymlink == 0 {
			return nil //nolint:nilerr // not to be read by git either
		}
		if _, err := os.Lstat(at + "/HEAD"); err != nil {
			return nil //nolint:nilerr // not a git directory
		}
		common := at
		if text, err := os.ReadFile(at + "/commondir"); err == nil {
			if common = strings.TrimRight(string(text), "\n"); !filepath.IsAbs(common) {
				common = filepath.Join(at, common)
			}
		}
		if !there(common+"/objects") || !there(common+"/refs") {
			return nil
		}
		for _, dir := range []string{at, common} {
			bad(dir + "/config")
			bad(dir + "/config.worktree")
			hooks, _ := filepath.Glob(dir + "/hooks/*")
			for _, hook := range hooks {
				bad(hook)
			}
		}
		return nil
	})
	return harm
}

// witnessed reports whether git, in any directory of a tree, runs something that
// makes a file.
func witnessed(t *testing.T, base string) bool {
	t.Helper()
	witness := filepath.Join(t.TempDir(), "witness")
	_ = filepath.WalkDir(base, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && !strings.Contains(at, "/objects") && !strings.Contains(at, "/refs") {
			for _, command := range []string{"status", "log"} {
				c := exec.CommandContext(t.Context(), "git", "-C", at, command)
				c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(base), "WITNESS=" + witness}
				_ = c.Run() // most directories are not whole repositories
			}
		}
		return nil
	})
	_, err := os.Lstat(witness)
	return err == nil
}

// Whatever sets are made in whatever order, and whatever parts of them are applied, git, an
// editor or a shell runs nothing of a set afterwards. Without a guard, the same sequences
// do harm.
func TestApplyProperty(t *testing.T) {
	const side = 4 // number of groups that run in parallel; an apply mostly waits
	n, r := testenv.Cases(t, 60)
	seed := r.Uint64()
	var harmed, asked, ran atomic.Int64
	t.Run("cases", func(t *testing.T) {
		for first := range side {
			t.Run(strconv.Itoa(first), func(t *testing.T) {
				t.Parallel()
				top := inMemory(t)
				for i := first; i < n; i += side {
					git := i/side%5 == 0 && hasGit()
					if harm, saw, log := applied(t, top, seed, i, true, git); len(harm) > 0 || saw {
						t.Fatalf("case %d: %v runs (git ran something: %t), after\n%s", i, harm, saw, log)
					}
					harm, saw, _ := applied(t, top, seed, i, false, git)
					if len(harm) > 0 {
						harmed.Add(1)
						if git {
							asked.Add(1)
						}
					}
					if saw {
						ran.Add(1)
					}
				}
			})
		}
	})
	t.Logf("without a guard %d of %d do harm; git was asked about %d of these, and ran something in %d", harmed.Load(), n, asked.Load(), ran.Load())
	if harmed.Load() < int64(n)/5 || n >= 1000 && hasGit() && ran.Load() == 0 {
		t.Error("without a guard hardly any case did harm: the test proves nothing")
	}
}

func hasGit() bool {
	_, err := exec.LookPath("git")
	return err == nil
}

// applied runs one case, and returns the files of a set that would run, whether git ran
// something, and a log.
func applied(t *testing.T, top string, seed uint64, i int, guarded, git bool) (harm []string, ran bool, log string) {
	t.Helper()
	dir := filepath.Join(top, strconv.Itoa(i))
	c := &applyCase{Rand: rand.New(rand.NewPCG(seed, uint64(i))), t: t, base: filepath.Join(dir, "base")}
	c.must(os.MkdirAll(c.base, 0o755))
	var err error
	c.store, err = workspace.Open(filepath.Join(dir, "store"))
	c.must(err)
	harm = c.run(workspace.Options{Guard: protect.Changes, Protected: !guarded})
	ran = git && witnessed(t, c.base)
	c.must(c.store.Close())
	c.must(os.RemoveAll(dir))
	return harm, ran, strings.Join(c.log, "\n")
}

// Several names that a file system takes for one name count as one.
func TestApplyGuardsOtherSpellings(t *testing.T) {
	base := t.TempDir()
	var changes []workspace.Change
	paths := []string{
		".GIT/config", ".g\u200cit/hooks/x", "a/.Git/Config", "bare/con\ufb01g", ".V\u017fcode/tasks.json", ".cLaude", ".hg/hgrc", "deep/.HG/hgrc",
		"x/.jj/repo", "x/_darcs/prefs/defaults", ".sl", "y/.git/rebase-merge/git-rebase-todo", "y/.git/sequencer/opts", "bare/hook\u017f/x",
	}
	for _, path := range append(paths, "bare/HEAD", "fine/config", "hooks/useUser.ts") {
		changes = append(changes, workspace.Change{Path: path, Kind: workspace.Added, Type: "file"})
	}
	why, err := protect.Changes(base, workspace.Protect{}, changes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		if got, want := why(&changes[i]) != "", i < len(paths); got != want {
			t.Errorf("%s is protected: %t, want %t", fmt.Sprintf("%+q", changes[i].Path), got, want)
		}
	}
}

// A file that a person's repository names is protected, however deep it is.
func TestApplyFollowsDeepConfiguration(t *testing.T) {
	base := t.TempDir()
	put(base, "a/b/app/.git/HEAD", "ref: refs/heads/main\n")
	put(base, "a/b/app/.git/objects/x", "")
	put(base, "a/b/app/.git/refs/x", "")
	put(base, "a/b/app/.git/config", "[core]\n\thooksPath = .githooks\n[include]\n\tpath = ../shared.conf\n")
	changes := []workspace.Change{
		{Path: "a/b/app/.githooks/pre-commit", Kind: workspace.Added, Type: "file"},
		{Path: "a/b/app/shared.conf", Kind: workspace.Added, Type: "file"},
		{Path: "a/b/app/main.go", Kind: workspace.Added, Type: "file"},
	}
	why, err := protect.Changes(base, workspace.Protect{}, changes)
	if err != nil {
		t.Fatal(err)
	}
	if why(&changes[0]) == "" || why(&changes[1]) == "" || why(&changes[2]) != "" {
		t.Errorf("got %q, %q, %q", why(&changes[0]), why(&changes[1]), why(&changes[2]))
	}
}

// The targets of links of a person's own repository are protected, however deep the
// repository is and however many links there are on the way.
func TestApplyFollowsLinksOfARepository(t *testing.T) {
	base := t.TempDir()
	put(base, "a/b/app/.git/HEAD", "ref: refs/heads/main\n")
	link(base, "a/b/app/.git/config", "../conf")
	put(base, "a/b/app/conf", "[core]\n\thooksPath = ../far\n")
	link(base, "a/b/far", "near")
	put(base, "a/b/near/x", "")
	link(base, "a/b/app/.git/hooks", "../../one")
	link(base, "a/b/one", filepath.Join(base, "a/two/../two"))
	link(base, "a/two", "three/four")
	put(base, "a/three/four/x", "")
	link(base, "a/b/app/.git/commondir", "../loop")
	link(base, "a/b/app/loop", "loop")
	protected := []string{"a/b/app/conf", "a/b/far", "a/b/near/pre-commit", "a/b/one", "a/two", "a/three/four/pre-commit"}
	var changes []workspace.Change
	for _, path := range append(protected, "a/b/app/main.go", "a/three/x") {
		changes = append(changes, workspace.Change{Path: path, Kind: workspace.Modified, Type: "file"})
	}
	changes = append(changes, workspace.Change{Path: "a/b/app/new", Kind: workspace.Added, Type: "file"})
	why, err := protect.Changes(base, workspace.Protect{}, changes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		if got, want := why(&changes[i]) != "", i < len(protected); got != want {
			t.Errorf("%s is protected: %t, want %t", changes[i].Path, got, want)
		}
	}
}
