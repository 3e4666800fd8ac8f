package protect

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
)

// guarded returns the Protector of a workspace in which prepare ran before, and the
// workspace.
func guarded(t testing.TB, prepare func(dir string), also ...string) (*Protector, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(dir)
	}
	return protect(t, dir, also...), dir
}

func protect(t testing.TB, dir string, also ...string) *Protector {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	p, err := newProtector(f, also, "")
	if err != nil {
		t.Fatal(err)
	}
	p.schedule.closed = true // a test decides when there is a look
	t.Cleanup(func() { p.Close() })
	return p
}

// newProtector is Open for an open directory and the file of a record.
func newProtector(workspace *os.File, also []string, record string) (*Protector, error) {
	return open(workspace, Config{Also: also}, record, true)
}

// begun contains the commands that run in workspaces.
var begun = struct {
	sync.Mutex
	watches map[*Protector][]*Watch
}{watches: map[*Protector][]*Watch{}}

// start begins a command, and stop ends the oldest one. Each command is of a box of its
// own.
func (p *Protector) start() error {
	w, err := p.Begin(&BoxState{}, func(error) {})
	if err == nil {
		begun.Lock()
		defer begun.Unlock()
		begun.watches[p] = append(begun.watches[p], w)
	}
	return err
}

func (p *Protector) stop() ([]Reverted, error) {
	begun.Lock()
	w := begun.watches[p][0]
	begun.watches[p] = begun.watches[p][1:]
	begun.Unlock()
	return w.End()
}

// check does what the end of a command does to a workspace, while commands continue to run.
func (p *Protector) check() ([]Reverted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judge(p.running <= 1, false)
}

// during runs what a command would do, between begin and end.
func during(t testing.TB, p *Protector, command func()) []Reverted {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	command()
	told, err := p.stop()
	if err != nil {
		t.Fatalf("end: %v", err)
	}
	return told
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func pinned(t testing.TB, p *Protector) map[string]Pin {
	t.Helper()
	all, err := p.Pins()
	must(t, err)
	byPath := map[string]Pin{}
	for _, one := range all {
		byPath[one.Path] = one
	}
	return byPath
}

// tree returns everything beneath a directory: kind, mode and text, by path.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(b)
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		all[rel] = text
		return nil
	}))
	return all
}

func allProtected() []string {
	var all []string
	for _, names := range protectedNames {
		for _, name := range names {
			all = append(all, strings.ReplaceAll(name, "*", ".x."))
		}
	}
	slices.Sort(all)
	return all
}

// standing makes the things that may be at a path; outside is a directory that must stay as
// it is.
var standing = map[string]func(t testing.TB, path, outside string){
	"absent":       func(testing.TB, string, string) {},
	"file":         func(t testing.TB, path, _ string) { put(t, path, "file\n") },
	"dir":          func(t testing.TB, path, _ string) { put(t, path+"/a/b", "in a directory\n") },
	"link inside":  func(t testing.TB, path, _ string) { must(t, os.Symlink("target", path)) },
	"link outside": func(t testing.TB, path, outside string) { must(t, os.Symlink(outside, path)) },
	"dangling":     func(t testing.TB, path, _ string) { must(t, os.Symlink("nowhere", path)) },
	"fifo":         func(t testing.TB, path, _ string) { must(t, syscall.Mkfifo(path, 0o644)) },
	"deep": func(t testing.TB, path, _ string) {
		put(t, path+strings.Repeat("/d", 100)+"/f", "deep\n")
		for i := range 300 {
			put(t, fmt.Sprintf("%s/many%d/%d", path, i%7, i), "")
		}
		must(t, os.Chmod(path+"/d/d", 0))
	},
}

// outsideOf makes a directory next to a workspace, with something in it. It returns the
// directory and its tree.
func outsideOf(t testing.TB, dir string) (string, map[string]string) {
	t.Helper()
	outside := filepath.Join(filepath.Dir(dir), "outside")
	put(t, outside+"/sub/secret", "secret\n")
	put(t, outside+"/config", "[core]\n\tfsmonitor = mine\n")
	put(t, outside+"/hooks/pre-commit", "mine\n")
	return outside, tree(t, outside)
}

func TestWhatAppearsIsTakenAway(t *testing.T) {
	for kind, plant := range standing {
		if kind == "absent" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			names := append(allProtected(), ".git")
			if kind == "deep" {
				names = []string{".vscode", ".envrc"}
			}
			p, dir := guarded(t, func(dir string) {
				put(t, dir+"/target/x", "x")
				for _, name := range names {
					must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				}
			})
			outside, before := outsideOf(t, dir)
			want := tree(t, dir)
			var told []Reverted
			for some := range slices.Chunk(names, maxTold/2) {
				told = append(told, during(t, p, func() {
					for _, name := range some {
						if kind == "dir" && name == ".git" {
							put(t, dir+"/.git/hooks/pre-commit", "evil") // a directory may appear, see TestRepository
							continue
						}
						plant(t, filepath.Join(dir, name), outside)
					}
				})...)
			}
			if kind == "dir" {
				must(t, os.RemoveAll(dir+"/.git"))
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Errorf("the workspace before (-) and after (+):\n%s", diff)
			}
			if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
				t.Errorf("outside before (-) and after (+):\n%s", diff)
			}
			for _, name := range names {
				if !slices.ContainsFunc(told, func(r Reverted) bool { return r.Path == name || strings.HasPrefix(r.Path, name+"/") }) {
					t.Errorf("%s was taken away and not told: %v", name, told)
				}
			}
		})
	}
}

func TestWhatExistsIsPinnedOrPutBack(t *testing.T) {
	for kind, plant := range standing {
		for attack, strike := range standing {
			if kind == "absent" || kind == "deep" {
				continue
			}
			t.Run(kind+" becomes "+attack, func(t *testing.T) {
				const name = ".envrc"
				var outside string
				p, dir := guarded(t, func(dir string) {
					outside, _ = outsideOf(t, dir)
					put(t, dir+"/target/x", "x")
					plant(t, filepath.Join(dir, name), outside)
				})
				before, want := tree(t, outside), tree(t, dir)
				_, isPinned := pinned(t, p)[name]
				if should := kind == "file" || kind == "dir"; isPinned != should {
					t.Fatalf("pinned: got %t, want %t", isPinned, should)
				}
				if isPinned {
					return // TestPinsHold checks what a mount keeps
				}
				if err := p.start(); err != nil {
					t.Fatal(err)
				}
				must(t, os.RemoveAll(filepath.Join(dir, name)))
				strike(t, filepath.Join(dir, name), outside)
				_, err := p.stop()
				if kind == "fifo" {
					if attack != "fifo" && !errors.Is(err, errUnprotected) {
						t.Errorf("a FIFO cannot be put back: got error %v", err)
					}
				} else if err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
					t.Errorf("the workspace before (-) and after (+):\n%s", diff)
				}
				if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
					t.Errorf("outside before (-) and after (+):\n%s", diff)
				}
			})
		}
	}
}

func TestPinsOfARepository(t *testing.T) {
	p, _ := guarded(t, func(dir string) {
		put(t, dir+"/.git/HEAD", "ref: refs/heads/main\n")
		put(t, dir+"/.git/config", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../.gitextra\n[alias]\n\tx = !/usr/bin/x\n")
		put(t, dir+"/.git/hooks/pre-commit", "")
		put(t, dir+"/.git/modules/a/b/HEAD", "")
		put(t, dir+"/.git/modules/a/b/config", "")
		put(t, dir+"/.git/worktrees/w/HEAD", "")
		put(t, dir+"/.git/worktrees/w/commondir", "../..\n")
		put(t, dir+"/.gitextra", "")
		put(t, dir+"/.gitmodules", "")
		put(t, dir+"/tools/hooks/pre-push", "")
		put(t, dir+"/sub/.git/config", "")
		put(t, dir+"/bare/HEAD", "")
		put(t, dir+"/bare/config", "")
		put(t, dir+"/bare/objects/x", "")
		put(t, dir+"/bare/refs/x", "")
		put(t, dir+"/linked/.git", "gitdir: ../.real\n")
		put(t, dir+"/.real/config", "")
		put(t, dir+"/real.idea/x", "")
		must(t, os.Symlink("real.idea", dir+"/.idea"))
		put(t, dir+"/ops/run", "")
	}, "ops/run")
	got, err := p.Pins()
	must(t, err)
	want := []Pin{
		{".git", true, true},
		{".git/config", false, false},
		{".git/hooks", true, false},
		{".git/modules", true, true},
		{".git/modules/a", true, true},
		{".git/modules/a/b", true, true},
		{".git/modules/a/b/config", false, false},
		{".git/worktrees", true, true},
		{".git/worktrees/w", true, true},
		{".git/worktrees/w/commondir", false, false},
		{".gitextra", false, false},
		{".real", true, true},
		{".real/config", false, false},
		{"bare", true, true},
		{"bare/config", false, false},
		{"linked", true, true},
		{"linked/.git", false, false},
		{"ops", true, true},
		{"ops/run", false, false},
		{"real.idea", true, false},
		{"sub", true, true},
		{"sub/.git", true, true},
		{"sub/.git/config", false, false},
		{"tools", true, true},
		{"tools/hooks", true, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pins, wanted (-) and got (+):\n%s", diff)
	}
	notes := strings.Join(p.Remarks(), "\n")
	for _, part := range []string{"include.path", "alias.x"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the remarks do not name %s:\n%s", part, notes)
		}
	}
}

func TestManySubmodulesArePinnedAsAWhole(t *testing.T) {
	p, _ := guarded(t, func(dir string) {
		for i := range maxPerKind + 1 {
			put(t, fmt.Sprintf("%s/.git/modules/m%d/config", dir, i), "")
			put(t, fmt.Sprintf("%s/.git/modules/m%d/HEAD", dir, i), "")
		}
	})
	if got := pinned(t, p)[".git/modules"]; got != (Pin{".git/modules", true, false}) {
		t.Errorf("got %+v", got)
	}
	if told := during(t, p, func() {}); len(told) > 0 {
		t.Errorf("told without a change: %v", told)
	}
}

// The things that git would run of a repository that a command made, and the paths that are
// reported for them.
func TestRepository(t *testing.T) {
	const plainConfig = "[core]\n\trepositoryformatversion = 0\n"
	for name, test := range map[string]struct {
		plant func(t testing.TB, dir string)
		told  string // path that is reported
		gone  string // a path that must not be there
		kept  map[string]string
	}{
		"hook": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/hooks/pre-commit", "evil")
				put(t, dir+"/.git/hooks/pre-commit.sample", "ok")
			}, ".git/hooks/pre-commit", ".git/hooks/pre-commit", map[string]string{".git/hooks/pre-commit.sample": "ok"},
		},
		"hooks are a link": {
			func(t testing.TB, dir string) {
				put(t, dir+"/h/pre-commit", "evil")
				must(t, os.Symlink("../h", dir+"/.git/hooks"))
			}, ".git/hooks", ".git/hooks", nil,
		},
		"a sample that is a link": {
			func(t testing.TB, dir string) {
				must(t, os.Mkdir(dir+"/.git/hooks", 0o755))
				must(t, os.Symlink("x", dir+"/.git/hooks/a.sample"))
			}, ".git/hooks/a.sample", ".git/hooks/a.sample", nil,
		},
		"settings": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/config", "[core]\n\tbare = false ; yes\n\tfsmonitor = ./evil\n# a remark\n[alias] st = !evil\n[remote \"o\"]\n\turl = https://x/y\n\tuploadpack = evil\n")
			}, ".git/config", "", map[string]string{".git/config": "[core]\n\tbare = false ; yes\n# a remark\n[alias]\n[remote \"o\"]\n\turl = https://x/y\n"},
		},
		"commondir": {
			func(t testing.TB, dir string) {
				put(t, dir+"/evil/config", "[core]\n\tfsmonitor = ./evil\n")
				put(t, dir+"/.git/commondir", "../evil\n")
			}, ".git/commondir", ".git/commondir", nil,
		},
		"config.worktree": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/config.worktree", "[core]\n\teditor = evil\n\tbare = false\n")
			}, ".git/config.worktree", "", map[string]string{".git/config.worktree": "[core]\n\tbare = false\n"},
		},
		"a worktree's commondir": {
			func(t testing.TB, dir string) { put(t, dir+"/.git/worktrees/w/commondir", "../../../evil\n") },
			".git/worktrees/w/commondir", ".git/worktrees/w/commondir", nil,
		},
		"a submodule's hook": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/modules/a/b/HEAD", "x")
				put(t, dir+"/.git/modules/a/b/hooks/post-checkout", "evil")
			}, ".git/modules/a/b/hooks/post-checkout", ".git/modules/a/b/hooks/post-checkout", nil,
		},
		"a submodule that is a link": {
			func(t testing.TB, dir string) {
				must(t, os.MkdirAll(dir+"/.git/modules", 0o755))
				must(t, os.Symlink("../../evil", dir+"/.git/modules/m"))
			}, ".git/modules/m", ".git/modules/m", nil,
		},
		"one directory down": {
			func(t testing.TB, dir string) { put(t, dir+"/sub/.git/config", "[core]\n\tsshCommand = evil\n") },
			"sub/.git/config", "",
			map[string]string{"sub/.git/config": "[core]\n"},
		},
		"a bare repository": {
			func(t testing.TB, dir string) {
				put(t, dir+"/docs/HEAD", "ref: refs/heads/main\n")
				put(t, dir+"/docs/objects/x", "")
				put(t, dir+"/docs/refs/x", "")
				put(t, dir+"/docs/config", "[core]\n\tfsmonitor = ./evil\n")
				put(t, dir+"/docs/hooks/useState.ts", "of an innocent project\n")
			}, "docs/HEAD", "docs/HEAD", map[string]string{"docs/config": "[core]\n\tfsmonitor = ./evil\n", "docs/hooks/useState.ts": "of an innocent project\n"},
		},
		"the workspace as a bare repository": {
			func(t testing.TB, dir string) {
				must(t, os.Symlink("refs/heads/main", dir+"/HEAD"))
				put(t, dir+"/commondir", "evil\n")
				put(t, dir+"/hooks/pre-commit", "evil")
			}, "HEAD", "HEAD", map[string]string{"hooks/pre-commit": "evil"},
		},
		"a file that leads out": {
			func(t testing.TB, dir string) { put(t, dir+"/sub/.git", "gitdir: ../../outside\n") },
			"sub/.git", "sub/.git", nil,
		},
		"a file that leads through a link": {
			func(t testing.TB, dir string) {
				must(t, os.Symlink("../outside", dir+"/l"))
				put(t, dir+"/sub/.git", "gitdir: ../l\n")
			}, "sub/.git", "sub/.git", nil,
		},
		"a file that leads to a hook": {
			func(t testing.TB, dir string) {
				put(t, dir+"/evil/deep/hooks/pre-commit", "evil")
				put(t, dir+"/sub/.git", "gitdir: ../evil/deep\n")
			}, "sub/.git", "sub/.git", map[string]string{"evil/deep/hooks/pre-commit": "evil"},
		},
		"a configuration that git cannot read": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/config", plainConfig+"what is this\n[alias]\n\tx = !evil\n")
			},
			".git/config", "",
			map[string]string{".git/config": plainConfig},
		},
		"a configuration that is too large": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/config", plainConfig+strings.Repeat("#", maxConfigText)+"\n[alias]\n\tx = !evil\n")
			}, ".git/config", ".git/config", nil,
		},
		"a configuration that is a FIFO": {
			func(t testing.TB, dir string) { must(t, syscall.Mkfifo(dir+"/.git/config", 0o644)) },
			".git/config", ".git/config", nil,
		},
		"a configuration with a second name": {
			func(t testing.TB, dir string) {
				put(t, dir+"/second", plainConfig+"[alias]\n\tx = !evil\n")
				must(t, os.Link(dir+"/second", dir+"/.git/config"))
			}, ".git/config", "", map[string]string{".git/config": plainConfig + "[alias]\n", "second": plainConfig + "[alias]\n\tx = !evil\n"},
		},
		"read-only to its owner": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/config", "[alias]\n\tx = !evil\n")
				put(t, dir+"/.git/hooks/pre-commit", "evil")
				must(t, os.Chmod(dir+"/.git/config", 0o444))
				must(t, os.Chmod(dir+"/.git/hooks", 0o555))
				must(t, os.Chmod(dir+"/.git", 0o555))
				t.Cleanup(func() { _ = os.Chmod(dir+"/.git", 0o755) }) // so that the directory can be removed
			}, ".git/config", ".git/hooks/pre-commit", map[string]string{".git/config": "[alias]\n"},
		},
		"closed to its owner": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.git/modules/m/config", "[alias]\n\tx = !evil\n")
				put(t, dir+"/.git/modules/m/HEAD", "")
				put(t, dir+"/.git/config", "[alias]\n\tx = !evil\n")
				for _, name := range []string{"/.git/modules/m", "/.git/modules", "/.git"} {
					must(t, os.Chmod(dir+name, 0))
				}
			}, ".git/modules/m/config", "", map[string]string{".git/config": "[alias]\n", ".git/modules/m/config": "[alias]\n"},
		},
		"gitmodules": {
			func(t testing.TB, dir string) {
				put(t, dir+"/.gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = ../a\n\tupdate = !evil\n")
			}, ".gitmodules", "", map[string]string{".gitmodules": "[submodule \"a\"]\n\tpath = a\n\turl = ../a\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := guarded(t, nil)
			outside, before := outsideOf(t, dir)
			told := during(t, p, func() {
				must(t, os.MkdirAll(dir+"/.git", 0o755))
				test.plant(t, dir)
			})
			if !slices.ContainsFunc(told, func(r Reverted) bool { return r.Path == test.told }) {
				t.Errorf("%s is not told in %v", test.told, told)
			}
			if _, err := os.Lstat(filepath.Join(dir, test.gone)); test.gone != "" && err == nil {
				t.Errorf("%s is still there", test.gone)
			}
			for path, want := range test.kept {
				if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
					t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
				}
			}
			if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
				t.Errorf("outside before (-) and after (+):\n%s", diff)
			}
			if told := during(t, p, func() {}); len(told) > 0 {
				t.Errorf("told again without a change: %v", told)
			}
		})
	}
}

// A box can write to a mapping long after a look that found the file harmless.
func TestAWriteThroughAMappingIsSeen(t *testing.T) {
	p, dir := guarded(t, nil)
	config := dir + "/.git/config"
	pad := strings.Repeat("#", 4095) + "\n"
	var mapped []byte
	must(t, p.start())
	put(t, config, pad)
	f, err := os.OpenFile(config, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	mapped, err = unix.Mmap(int(f.Fd()), 0, len(pad), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer func() { _ = unix.Munmap(mapped) }()
	mapped[0] = '#'
	if told, err := p.check(); err != nil || len(told) > 0 {
		t.Fatalf("a harmless file: %v, %v", told, err)
	}
	copy(mapped, "[alias]\nx=!evil\n#")
	told, err := p.stop()
	must(t, err)
	if len(told) != 1 {
		t.Errorf("got %v, want one thing taken back", told)
	}
}

func TestAPersonsWorkIsKept(t *testing.T) {
	p, dir := guarded(t, func(dir string) { put(t, dir+"/.git/config", "[core]\n\tbare = false\n") })
	if told := during(t, p, func() {}); len(told) > 0 {
		t.Fatalf("told without a change: %v", told)
	}
	// Between two commands, in the way of an editor and of git: with a new file.
	put(t, dir+"/.vscode/settings.json", "{}\n")
	put(t, dir+"/.git/new", "[core]\n\teditor = mine\n[alias]\n\tx = !mine\n")
	must(t, os.Rename(dir+"/.git/new", dir+"/.git/config"))
	want := tree(t, dir)
	told := during(t, p, func() {
		put(t, dir+"/.vscode/settings.json", "evil\n")
		put(t, dir+"/.vscode/tasks.json", "evil\n")
		put(t, dir+"/.git/config", "[core]\n\teditor = mine\n[alias]\n\tx = !mine\n\ty = !evil\n")
	})
	if len(told) != 3 {
		t.Errorf("got %d things told, want 3: %v", len(told), told)
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("the workspace before the command (-) and after (+):\n%s", diff)
	}
	told = during(t, p, func() { must(t, os.RemoveAll(dir+"/.vscode")) })
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" || len(told) != 1 {
		t.Errorf("told %v; the workspace before the command (-) and after (+):\n%s", told, diff)
	}
}

func TestNothingIsAdoptedWhileACommandRuns(t *testing.T) {
	p, dir := guarded(t, nil)
	other := protect(t, dir) // another server in the same workspace
	must(t, p.start())
	put(t, dir+"/.envrc", "evil\n")
	must(t, p.start()) // a second command begins, and a box is made
	if _, err := p.Pins(); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/.envrc", "evil\n")
	must(t, other.start())
	if told, err := other.stop(); err != nil || len(told) != 1 {
		t.Errorf("the other server: got %v, %v; want .envrc taken away", told, err)
	}
	put(t, dir+"/.envrc", "evil\n")
	for i, want := range []int{2, 1} { // number of changes that were reverted while they ran
		if told, err := p.stop(); err != nil || len(told) != want {
			t.Errorf("end %d: got %v, %v; want %d things told", i, told, err, want)
		}
	}
	if _, err := os.Lstat(dir + "/.envrc"); err == nil {
		t.Error(".envrc is still there")
	}
}

// A repository that is protected may move with the directory that it is in.
func TestARepositoryMovesWithItsDirectory(t *testing.T) {
	p, dir := guarded(t, func(dir string) {
		put(t, dir+"/sub/.git/config", "[alias]\n\tx = !mine\n")
		put(t, dir+"/sub/.git/hooks/pre-commit", "mine\n")
	})
	told := during(t, p, func() { must(t, os.Rename(dir+"/sub", dir+"/moved")) })
	if len(told) > 0 {
		t.Errorf("told: %v", told)
	}
	all := pinned(t, p)
	for _, path := range []string{"moved/.git", "moved/.git/config", "moved/.git/hooks"} {
		if _, ok := all[path]; !ok {
			t.Errorf("%s is not pinned: %v", path, all)
		}
	}
}

func TestALostPinIsAnError(t *testing.T) {
	p, dir := guarded(t, func(dir string) { put(t, dir+"/.husky/pre-commit", "mine\n") })
	must(t, p.start())
	must(t, os.Rename(dir+"/.husky", dir+"/old"))
	put(t, dir+"/.husky/pre-commit", "whose?\n")
	if _, err := p.stop(); !errors.Is(err, errUnprotected) {
		t.Errorf("got %v, want %v", err, errUnprotected)
	}
}

// A directory that is too large to be removed at one time is moved aside, where it has no
// effect.
func TestTooMuchIsMovedAside(t *testing.T) {
	p, dir := guarded(t, nil)
	must(t, p.start())
	for i := range 100 {
		put(t, fmt.Sprintf("%s/.vscode/%d", dir, i), "")
	}
	l := p.look(false)
	l.left = 10
	l.run()
	if len(l.errs) > 0 || len(l.told) != 1 {
		t.Fatalf("got %v, errors %v; want one thing told", l.told, l.errs)
	}
	if _, err := os.Lstat(dir + "/.vscode"); err == nil {
		t.Error(".vscode is still there")
	}
	if told, err := p.stop(); err != nil || len(told) > 0 {
		t.Errorf("after it: %v, %v", told, err)
	}
}

// The end of a file that git could not read before is not a command's work.
func TestAnUnreadableEndIsKept(t *testing.T) {
	const text = "[submodule \"a\"]\n\tpath = a\n<<<<<<< HEAD\n\turl = x\n"
	p, dir := guarded(t, func(dir string) { put(t, dir+"/.gitmodules", text) })
	told := during(t, p, func() { put(t, dir+"/file", "") })
	if got, err := os.ReadFile(dir + "/.gitmodules"); err != nil || string(got) != text || len(told) > 0 {
		t.Errorf("got %q, %v, told %v", got, err, told)
	}
}

// A directory of many repositories is a workspace too: repositories that are not pinned are
// watched, and none of them is taken for a new one.
func TestManyRepositories(t *testing.T) {
	const many = maxGitDirs
	p, dir := guarded(t, func(dir string) {
		for i := range many {
			put(t, fmt.Sprintf("%s/r%d/.git/hooks/pre-commit", dir, i), "mine\n")
			put(t, fmt.Sprintf("%s/r%d/.git/config", dir, i), "[alias]\n\tx = !mine\n")
		}
	})
	want := tree(t, dir)
	if all := pinned(t, p); len(all) < 3*maxPinnedGit || len(all) > maxPins {
		t.Errorf("%d pins", len(all))
	}
	told := during(t, p, func() { must(t, os.WriteFile(dir+"/a", nil, 0o644)) })
	must(t, os.Remove(dir+"/a"))
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" || len(told) > 0 {
		t.Errorf("told %v; before (-) and after (+):\n%s", told, diff)
	}
	watched := ""
	all := pinned(t, p)
	for i := range many {
		name := fmt.Sprintf("r%d", i)
		if _, ok := all[name+"/.git"]; !ok && !p.skipped[name] {
			watched = name
		}
	}
	told = during(t, p, func() { put(t, dir+"/"+watched+"/.git/hooks/pre-commit", "evil\n") })
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" || len(told) != 1 {
		t.Errorf("%s: told %v; before (-) and after (+):\n%s", watched, told, diff)
	}
}

// F18 of the escape probes: a command that does nothing leaves nothing.
func TestATrivialCommandLeavesTheWorkspaceAsItWas(t *testing.T) {
	for name, prepare := range map[string]func(dir string){
		"empty": nil,
		"full": func(dir string) {
			for _, name := range allProtected() {
				put(t, filepath.Join(dir, name), name)
			}
			put(t, dir+"/.git/config", "[core]\n\thooksPath = nowhere\n")
			put(t, dir+"/sub/.git/hooks/x", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "workspace")
			must(t, os.Mkdir(dir, 0o755))
			if prepare != nil {
				prepare(dir)
			}
			want := tree(t, dir)
			p := protect(t, dir)
			pinned(t, p)
			for range 2 {
				if told := during(t, p, func() {}); len(told) > 0 {
					t.Errorf("told: %v", told)
				}
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Errorf("before (-) and after (+):\n%s", diff)
			}
		})
	}
}

// swap does what a hostile process in a box does, again and again: it makes a directory
// that must be removed, and exchanges it for a link that leads outside. swap never follows
// a link itself, so any change outside was made by the look.
func swap(root *os.File, at, spare string) {
	dir, err := openDir(root, filepath.Dir(at), unix.O_PATH)
	if err != nil {
		return // the directory is a link now
	}
	defer dir.Close()
	name := filepath.Base(at)
	_ = unix.Mkdirat(int(dir.Fd()), name, 0o755)
	_ = unix.Renameat2(int(dir.Fd()), name, int(root.Fd()), spare, unix.RENAME_EXCHANGE)
	sub, err := openDir(dir, name, unix.O_PATH)
	if err != nil {
		return
	}
	defer sub.Close()
	_ = unix.Mkdirat(int(sub.Fd()), "hooks", 0o755)
	for _, plant := range []struct{ path, text string }{
		{"config", "[alias]\n\tx = !evil\n"}, {"hooks/pre-commit", "evil"}, {".git", "gitdir: ../spare0\n"},
	} {
		if fd, err := openBeneath(int(sub.Fd()), plant.path, unix.O_CREAT|unix.O_WRONLY|unix.O_NONBLOCK, 0o644); err == nil {
			_, _ = unix.Write(fd, []byte(plant.text))
			unix.Close(fd)
		}
	}
}

// A command that still runs swaps directories for links while the look removes them.
// Whoever is faster, nothing outside changes.
func TestSwapsNeverReachOutside(t *testing.T) {
	p, dir := guarded(t, nil)
	outside, before := outsideOf(t, dir)
	must(t, p.start())
	stop := make(chan struct{})
	var wg, begun sync.WaitGroup
	for i, name := range []string{".git", ".vscode", ".git/hooks", ".git/config", "sub", ".git/modules"} {
		spare := fmt.Sprintf("spare%d", i)
		must(t, os.Symlink(outside, filepath.Join(dir, spare)))
		begun.Add(1)
		wg.Go(func() {
			swap(p.root, name, spare)
			begun.Done()
			for {
				select {
				case <-stop:
					return
				default:
					swap(p.root, name, spare)
				}
			}
		})
	}
	begun.Wait()
	reverted := 0
	for range 10_000 {
		told, _ := p.check() // an error only says that the other side was faster
		if reverted += len(told); reverted > 200/int(testenv.Patience(t)) {
			break
		}
	}
	close(stop)
	wg.Wait()
	if reverted == 0 {
		t.Error("nothing was ever taken back: the test proves nothing")
	}
	if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
		t.Errorf("outside before (-) and after (+):\n%s", diff)
	}
	if _, err := p.stop(); err != nil {
		t.Fatalf("the workspace stays unprotected: %v", err)
	}
	if told, err := p.check(); err != nil || len(told) > 0 {
		t.Errorf("after the last look: %v, %v", told, err)
	}
}

// git runs git as an ordinary person configures it, with nothing of this machine.
func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestOrdinaryGitIsLeftAlone(t *testing.T) {
	testenv.Need(t, testenv.Git)
	p, dir := guarded(t, nil)
	origin := filepath.Join(filepath.Dir(dir), "origin")
	must(t, os.Mkdir(origin, 0o755))
	git(t, origin, "init", "-q", "-b", "main")
	git(t, origin, "commit", "-q", "--allow-empty", "-m", "first")
	for _, step := range [][]string{
		{"clone", "-q", origin, "."},
		{"config", "user.email", "agent@example.com"},
		{"remote", "add", "other", "git@example.com:x/y.git"},
		{"commit", "-q", "--allow-empty", "-m", "x"},
		{"checkout", "-q", "-b", "topic", "--track", "main"},
		{"worktree", "add", "-q", "tree"},
		{"-C", "tree", "commit", "-q", "--allow-empty", "-m", "y"},
		{"config", "pull.rebase", "true"},
		{"branch", "-m", "renamed"},
		{"-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "mod"},
		{"sparse-checkout", "init", "--cone"},
		{"stash"},
		{"gc", "-q"},
		{"init", "-q", "new"},
		{"init", "-q", "--bare", "store"},
		{"-C", "new", "init", "-q", "--separate-git-dir=../elsewhere"},
		{"worktree", "remove", "tree"},
		{"remote", "remove", "other"},
	} {
		config := "" // the configuration that git itself left, before the look
		told := during(t, p, func() {
			git(t, dir, step...)
			text, err := os.ReadFile(dir + "/.git/config")
			must(t, err)
			config = string(text)
		})
		if len(told) > 0 {
			t.Errorf("git %v: %v", step, told)
		}
		if text, err := os.ReadFile(dir + "/.git/config"); err != nil || string(text) != config {
			t.Errorf("git %v: .git/config changed from\n%s\nto\n%s", step, config, text)
		}
	}
	git(t, dir, "status")
}

// git and readConfig must read the same in a configuration.
func TestGitReadsWhatWeRead(t *testing.T) {
	testenv.Need(t, testenv.Git)
	for _, text := range configSamples {
		path := filepath.Join(t.TempDir(), "config")
		put(t, path, text)
		c := exec.CommandContext(t.Context(), "git", "config", "--file", path, "--list", "-z")
		c.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := c.Output()
		all, good := readConfig([]byte(text))
		if (err == nil) != (good == len(text)) {
			// readConfig may refuse more than git does, but not less.
			if err == nil {
				t.Logf("stricter than git: %q", text)
			} else {
				t.Errorf("git refuses %q, and we do not: %v", text, err)
			}
			continue
		}
		if err != nil {
			continue
		}
		var got strings.Builder
		for i := range all {
			s := &all[i]
			if s.bare {
				fmt.Fprintf(&got, "%s\x00", s.name())
			} else {
				fmt.Fprintf(&got, "%s\n%s\x00", s.name(), s.value)
			}
		}
		if diff := cmp.Diff(string(out), got.String()); diff != "" {
			t.Errorf("%q: git (-), we (+):\n%s", text, diff)
		}
	}
}

var configSamples = []string{
	"",
	"[core]\n\tbare = false\n",
	"[core] fsmonitor = ./evil\n",
	"[CORE]\nFsMonitor=./evil",
	"[core]\r\n\tfsmonitor = x\r\n\tbare\r\n",
	"[alias \"x\"]\n\tcommand = !a \\\n  b # c\n[remote \"a\\\"b\\\\c]\"] url = \"x;y\" ; z\n",
	"[remote.Origin]\n\turl=ext::sh\n[a.b \"c.d\"] e\n",
	"# [core]\n;[core]\n[core]#x\n\tpager = a\\\\\\\"\\n\\t\\bb\n",
	"[core]\n\tpager = \"a\n\tb\"\n",
	"[core]\n\tpager = a\\qb\n",
	"[core]\npager = \"a\\\n  b\"  c  d  \n",
	"[core]x=1\n[user]y=2\n[core][user]z=3\n",
	"\ufeff[core]\n\tbare = true\n",
	"fsmonitor = x\n[core]\n",
	"[core]\n\t1x = 2\n",
	"[core]\n\tx-1 = 2\n\tx_1 = 3\n",
	"[include]\n\tpath = x\\\n",
	"[core\n]x=1\n",
	"[core \"x]\n",
	"[core]\n\tx = 1\v2\f\n",
	"[a]\n\tx = 1\r2\r\n\ty=\"\\\r\n3\"\n",
	"[a]\n x \t = \t 1\t 2 \t\n",
}

func FuzzGitConfig(f *testing.F) {
	for _, text := range configSamples {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			t.Skip()
		}
		bad := func(s *gitSetting) bool { return !harmless(s, repoKeys) }
		var want []string // the parts that are harmless, byte for byte
		all, good := readConfig(text)
		harm := good < len(text)
		for i := range all {
			if s := &all[i]; bad(s) {
				harm = true
			} else {
				want = append(want, s.name()+"="+s.value+"="+strings.TrimRight(string(text[s.from:s.to]), "\r\n"))
			}
		}
		kept, taken := strip(text, bad, "")
		if harm != (len(taken) > 0) {
			t.Fatalf("%q: harm is %t, taken is %q", text, harm, taken)
		}
		if !harm && string(kept) != string(text) {
			t.Fatalf("%q was changed to %q", text, kept)
		}
		again, good := readConfig(kept)
		if good < len(kept) {
			t.Fatalf("%q became %q, which cannot be read", text, kept)
		}
		var got []string
		for i := range again {
			s := &again[i]
			if bad(s) {
				t.Fatalf("%q became %q, which still sets %s", text, kept, s.name())
			}
			got = append(got, s.name()+"="+s.value+"="+strings.TrimRight(string(kept[s.from:s.to]), "\r\n"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q became %q; wanted (-), got (+):\n%s", text, kept, diff)
		}
	})
}

// Every change of a directory shows in its times. unchanged relies on this if the kernel
// promises it.
func TestEveryChangeOfADirectoryShows(t *testing.T) {
	p, dir := guarded(t, nil)
	if !p.fine {
		t.Skip("this kernel or file system has coarse times, and they are not relied on")
	}
	var last unix.Stat_t
	for i := range 2000 {
		put(t, fmt.Sprintf("%s/%d", dir, i), "")
		var now unix.Stat_t
		must(t, unix.Fstat(int(p.root.Fd()), &now))
		if now.Ctim == last.Ctim {
			t.Fatalf("change %d does not show", i)
		}
		last = now
	}
}

// inPins runs a command with the view that a box has of the workspace: with the pins of the
// protector mounted as an init mounts them. The mounts are those of one thread, and end
// with it.
func inPins(t *testing.T, p *Protector, dir string, command func()) {
	t.Helper()
	all, err := p.Pins()
	must(t, err)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the mounts are those of this thread only
		err := mountPins(dir, all)
		if err == nil {
			command()
		}
		done <- err
	}()
	must(t, <-done)
}

func mountPins(dir string, all []Pin) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	for _, one := range all {
		if err := mountPin(root, one); err != nil {
			return fmt.Errorf("pin %s: %w", one.Path, err)
		}
	}
	return nil
}

func mountPin(root int, one Pin) error {
	at, err := openBeneath(root, one.Path, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if !one.Writable {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// F07 to F09 of the escape probes, and ordinary git with pins.
func TestPinsHold(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Git, testenv.Bash)
	p, dir := guarded(t, func(dir string) {
		git(t, dir, "init", "-q", "-b", "main")
		git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
		git(t, dir, "config", "core.hooksPath", "tools/hooks")
		put(t, dir+"/tools/hooks/pre-push", "mine\n")
		put(t, dir+"/.vscode/settings.json", "{}\n")
		put(t, dir+"/.envrc", "mine\n")
	})
	script := func(text string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-c", text)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	want := tree(t, dir)
	inPins(t, p, dir, func() {
		for _, attack := range []string{
			"echo x > .git/hooks/pre-commit",
			"mv .git .g2", "rm -rf .git/hooks", "mv .git/hooks .git/h", "ln -sfn /tmp .git/hooks", "rmdir .git/hooks",
			"echo x >> .git/config", "mv .git/config c", "ln .git/config c", "rm -f .git/config", "truncate -s 0 .git/config",
			"mv tools t", "mv tools/hooks h", "echo x > tools/hooks/pre-commit",
			"echo x > .vscode/tasks.json", "mv .vscode v", "echo x > .envrc", "rm .envrc", "ln -f tools/hooks/pre-push .envrc",
			"git config alias.x '!evil'", "git config --worktree core.editor evil",
		} {
			if out, err := script(attack); err == nil {
				t.Errorf("%s: it worked: %s", attack, out)
			}
		}
	})
	got := tree(t, dir)
	maps.DeleteFunc(got, func(path, _ string) bool { // what mv copied before it failed to remove the original
		return path == "c" || path == "h" || strings.HasPrefix(path, "h/")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the workspace before (-) and after (+):\n%s", diff)
	}
	told := during(t, p, func() {
		inPins(t, p, dir, func() {
			for _, args := range [][]string{
				{"commit", "-q", "--allow-empty", "-m", "second"},
				{"checkout", "-q", "-b", "topic"},
				{"worktree", "add", "-q", "tree"},
				{"stash"},
				{"gc", "-q"},
				{"checkout", "-q", "main"},
				{"branch", "-q", "-D", "topic"},
			} {
				git(t, dir, args...)
			}
			for _, text := range []string{"git config user.x y", "git remote add o https://example.com/x"} {
				out, err := script(text)
				if want := "could not write config file .git/config: Device or resource busy"; err == nil || !strings.Contains(out, want) {
					t.Errorf("%s: got %v, %q; want %q", text, err, out, want)
				}
			}
		})
	})
	if len(told) > 0 {
		t.Errorf("ordinary git: %v", told)
	}
}

// Pinned paths are looked at as well, because a person who replaces a file on the host ends
// the pin of every box.
func TestAHostThatReplacesAFileEndsItsPin(t *testing.T) {
	testenv.Need(t, testenv.Root)
	p, dir := guarded(t, func(dir string) { put(t, dir+"/.git/config", "[core]\n\tbare = false\n") })
	must(t, p.start())
	inPins(t, p, dir, func() {
		host := make(chan error)
		go func() { // another thread, which sees the host's mounts
			put(t, dir+"/.git/new", "[core]\n\tbare = false\n[user]\n\tname = person\n")
			host <- os.Rename(dir+"/.git/new", dir+"/.git/config")
		}()
		if err := <-host; err != nil {
			t.Errorf("rename on the host: %v", err)
		}
		f, err := os.OpenFile(dir+"/.git/config", os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Errorf("the pin outlived the file: %v", err)
			return
		}
		defer f.Close()
		_, _ = f.WriteString("[alias]\n\tx = !evil\n")
	})
	told, err := p.stop()
	if err != nil || len(told) != 1 {
		t.Errorf("got %v, %v; want one thing taken back", told, err)
	}
	text, err := os.ReadFile(dir + "/.git/config")
	if want := "[core]\n\tbare = false\n[user]\n\tname = person\n[alias]\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v; want %q", text, err, want)
	}
}

// The table of docs/protected-paths.md must be the same as the one in the code.
func TestProtectedNamesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/protected-paths.md")
	must(t, err)
	_, what, _ := strings.Cut(string(text), "\n## What\n")
	what, _, _ = strings.Cut(what, "\nIn the repository in `.git`")
	documented := map[string]bool{}
	for line := range strings.Lines(what) {
		cells := strings.Split(line, "|")
		if len(cells) > 2 {
			line = cells[1]
		} else if !strings.Contains(line, "/") {
			continue // a line of text
		}
		for i, part := range strings.Split(line, "`") {
			if i%2 == 1 {
				documented[part] = true
			}
		}
	}
	inCode := map[string]bool{}
	for _, names := range protectedNames {
		for _, name := range names {
			inCode[name] = true
		}
	}
	for _, name := range repositoryNames {
		inCode[name] = true
	}
	if diff := cmp.Diff(inCode, documented); diff != "" {
		t.Errorf("in the code (-) and documented (+):\n%s", diff)
	}
}

// A protected name is protected in any case, because a file system may not distinguish
// cases, and so is everything in it.
func TestProtectedAs(t *testing.T) {
	for at, want := range map[string]bool{
		".vscode": true, ".VSCode/tasks.json": true, "My.CODE-workspace": true, "mise.dev.toml": true, ".config/mise/conf.d/x.toml": true,
		"mise/config.toml": true, "proj/.hg/hgrc": true, ".hg/hgrc": true, ".autoenv.zsh": true,
		"mise/main.go": false, "sub/.vscode": false, ".config": false, "a/b/.hg/hgrc": false, ".hg/store": false, "vscode": false,
	} {
		if got := protectedAs(at) != ""; got != want {
			t.Errorf("%s: got %v, want %v", at, got, want)
		}
	}
	// Each name by itself, and at a place where it is not protected.
	try := func(name, at string, want bool) {
		at = strings.NewReplacer("*", "x").Replace(at)
		if got := protectedAs(strings.ToUpper(at)) != ""; got != want {
			t.Errorf("%s as %s: got %v, want %v", name, at, got, want)
		}
	}
	for _, names := range protectedNames {
		for _, name := range names {
			try(name, name, true)
			try(name, name+"/a/b", true)
			try(name, "a/"+name, false)
		}
	}
	for _, name := range repositoryNames {
		try(name, name, true)
		try(name, "a/"+name+"/b", true)
		try(name, "a/b/"+name, false)
		try(name, filepath.Dir(name), false)
	}
}

// The short way for ASCII has the same result as that for any text.
func TestFoldedASCII(t *testing.T) {
	for c := range rune(0x80) {
		text := "a/" + string(c) + ".Git"
		if got, want := folded(text), foldedRunes(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// While a command runs, the next look comes by itself, and Close waits for it.
func TestAWorkspaceIsLookedAtWhileACommandRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspace")
	must(t, os.Mkdir(dir, 0o755))
	synctest.Test(t, func(t *testing.T) {
		p := protect(t, dir)
		p.schedule.closed = false
		w, err := p.Begin(&BoxState{}, func(error) {})
		must(t, err)
		put(t, dir+"/.envrc", "evil\n")
		late := time.NewTimer(2 * lookEvery)
		<-late.C
		synctest.Wait()
		if _, err := os.Lstat(dir + "/.envrc"); err == nil {
			t.Error(".envrc is there after two seconds")
		}
		if told := w.Reverted(); len(told) != 1 {
			t.Errorf("told %v while the command runs, want one thing", told)
		}
		if told, err := w.End(); err != nil || len(told) != 1 {
			t.Errorf("told %v, %v at the end, want one thing", told, err)
		}
	})
}

// A command whose box cannot be protected any more is ended while it runs.
func TestALostWorkspaceEndsItsBoxes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspace")
	put(t, dir+"/.husky/pre-commit", "mine\n")
	p := protect(t, dir)
	lost := 0
	_, err := p.Begin(&BoxState{}, func(error) { lost++ })
	must(t, err)
	must(t, os.Rename(dir+"/.husky", dir+"/old"))
	put(t, dir+"/.husky/pre-commit", "whose?\n")
	for range maxFailed {
		must(t, os.RemoveAll(dir+"/.husky"))
		put(t, dir+"/.husky/pre-commit", "whose?\n")
		p.mu.Lock()
		p.guards[".husky"].held = true // the look has not noticed yet that its pin is lost
		p.mu.Unlock()
		p.lookAndWalk()
	}
	if lost != 1 {
		t.Errorf("its box was ended %d times, want once", lost)
	}
}
