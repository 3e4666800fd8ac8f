package protect

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// burrow is one random case of commands that make repositories deep in a workspace, or
// attack those that a person has there.
type burrow struct {
	siege
	commit string // path of a repository with a commit, whose objects others copy
}

// person is a configuration that a person has written.
const person = "[core]\n\trepositoryformatversion = 0\n[user]\n\tname = person\n"

func (b *burrow) at(name string) string { return filepath.Join(b.dir, name) }

// somewhere returns the path of a random directory two to eight levels down.
func (b *burrow) somewhere() string {
	parts := make([]string, 2+b.r.IntN(7))
	for i := range parts {
		parts[i] = []string{"a", "b", "c", "node_modules", ".x", ".git"}[min(b.r.IntN(16)/3, 5)]
	}
	return strings.Join(parts, "/")
}

// repository makes a git directory with a commit, so that `git add` takes the
// directory that it is in for a submodule.
func (b *burrow) repository(git, config string) {
	_ = os.MkdirAll(git+"/refs/heads", 0o755)
	_ = os.MkdirAll(git+"/hooks", 0o755)
	_ = os.CopyFS(git+"/objects", os.DirFS(b.commit+"/.git/objects"))
	if head, err := os.ReadFile(b.commit + "/.git/refs/heads/main"); err == nil {
		_ = os.WriteFile(git+"/refs/heads/main", head, 0o644)
	}
	_ = os.WriteFile(git+"/config", []byte(config), 0o644)
	_ = os.WriteFile(git+"/HEAD", []byte("ref: refs/heads/main\n"), 0o644)
}

func (b *burrow) hook(git string) {
	_ = os.MkdirAll(git+"/hooks", 0o755)
	_ = os.WriteFile(git+"/hooks/post-index-change", []byte("#!/bin/sh\npwd >> "+b.witness+"\n"), 0o755)
}

func (b *burrow) step() {
	here, there, home := b.somewhere(), b.somewhere(), b.home()
	kind := min(b.r.IntN(22), 17)
	b.log = append(b.log, fmt.Sprint(kind, " ", here, " ", there, " ", home))
	at := b.at
	switch kind {
	case 0, 1:
		b.repository(at(here)+"/.git", b.evil())
	case 2: // perhaps changed by the next command
		b.repository(at(here)+"/.git", person)
	case 3:
		_ = filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "config" && b.r.IntN(2) == 0 {
				if f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0); err == nil {
					_, _ = f.WriteString(b.evil())
					_ = f.Close()
				}
			}
			return nil
		})
	case 4:
		b.repository(at(here), b.evil())
	case 5:
		b.repository(at(here)+"/.git", person)
		b.hook(at(here) + "/.git")
	case 6:
		b.repository(at(there)+"/real", b.evil())
		_ = os.MkdirAll(at(here), 0o755)
		_ = os.WriteFile(at(here)+"/.git", []byte("gitdir: "+at(there)+"/real\n"), 0o644)
	case 7:
		b.repository(at(there)+"/real", b.evil())
		_ = os.MkdirAll(at(here), 0o755)
		_ = os.Symlink(at(there)+"/real", at(here)+"/.git")
	case 8:
		for _, name := range []string{".hg/hgrc", ".jj/repo/config.toml"} {
			_ = os.MkdirAll(filepath.Dir(filepath.Join(at(here), name)), 0o755)
			_ = os.WriteFile(filepath.Join(at(here), name), []byte("evil"), 0o644)
		}
	case 9: // made in pieces, which are then put together
		b.repository(at(here)+"/parts", b.evil())
		_ = os.Remove(at(here) + "/parts/HEAD")
		_ = os.MkdirAll(at(there), 0o755)
		_ = os.Rename(at(here)+"/parts", at(there)+"/.git")
		_ = os.WriteFile(at(there)+"/.git/HEAD", []byte("ref: refs/heads/main\n"), 0o644)
	case 10:
		_ = os.Chmod(at(here), []os.FileMode{0, 0o100, 0o300, 0o400}[b.r.IntN(4)])
	case 11:
		for i := range 60 {
			_ = os.MkdirAll(fmt.Sprintf("%s/crowd%d/x", at(here), i), 0o755)
		}
	case 12: // what was made moves, with its directories
		_ = os.MkdirAll(filepath.Dir(at(there)), 0o755)
		_ = os.Rename(at(here), at(there))
	case 13:
		if f, err := os.OpenFile(at(home)+"/.git/config", os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString(b.evil())
			_ = f.Close()
		}
		b.hook(at(home) + "/.git")
	case 14:
		_ = os.Rename(at(home), at(there))
		b.repository(at(home)+"/.git", b.evil())
	case 15:
		_ = os.RemoveAll(at(home) + "/.git")
		b.repository(at(home)+"/.git", b.evil())
	case 16: // a directory of the person that becomes a repository
		_ = os.MkdirAll(at(here), 0o755)
		_ = os.Rename(at("fixture/x/dotgit"), at(here)+"/.git")
		_ = os.WriteFile(at(here)+"/.git/HEAD", []byte("ref: refs/heads/main\n"), 0o644)
	case 17: // made where no walk comes, and moved up from there by a later command
		_ = os.MkdirAll(at("pit"), 0o755)
		hidden, closed, err := burrowed(at("pit"))
		if err != nil {
			return
		}
		defer closed()
		_ = os.MkdirAll(at(there), 0o755)
		_ = os.Rename(hidden+"/x", at(there)+"/up")
		b.repository(hidden+"/x/y/.git", b.evil())
	}
}

// command runs a few steps, with looks and a walk in between.
func (b *burrow) command(t *testing.T) {
	steps := 1 + b.r.IntN(4)
	if b.p == nil {
		for range steps {
			b.step()
		}
		return
	}
	w, err := b.p.Begin(&BoxState{}, func(error) {})
	if err != nil {
		t.Fatalf("begin: %v\n%s", err, strings.Join(b.log, "\n"))
	}
	for range steps {
		switch b.r.IntN(4) {
		case 0:
			b.p.lookNow()
		case 1:
			b.p.lookNow()
			b.pace()
		case 2:
			b.p.lookAndWalk()
		}
		b.box.run(b.step)
	}
	if b.r.IntN(3) == 0 { // a job runs while a person works
		b.p.lookAll()
		for range 2 { // the way that the first walk ends may have begun before
			b.p.walkAll(t)
		}
		b.ask(t, "while a command runs")
		b.box.run(b.step)
	}
	if _, err := w.End(); err != nil { // a job closes its box, too
		b.log = append(b.log, "closed: "+err.Error())
		b.reopen(t, false)
	}
	b.pace()
}

// pace makes a walk that is cut short again and again.
func (b *burrow) pace() {
	for range b.r.IntN(40) {
		_, _ = b.p.walkFor(0)
	}
}

// ask does what a person does who goes through the workspace with a prompt that asks git,
// adds all of it, and asks git for its status. It reports whether anything of a box ran.
func (b *burrow) ask(t *testing.T, when string) bool {
	t.Helper()
	git := func(dir string, args ...string) {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GIT_CONFIG_NOSYSTEM=1"}
		_ = c.Run()
	}
	bad := ""
	if b.harmless() {
		return false
	}
	git(b.dir, "add", ".")
	git(b.dir, "status")
	_ = filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what a box closed holds no canary
		}
		switch dir, last := filepath.Split(name); last {
		case "objects":
			return fs.SkipDir
		case ".git":
			git(dir, "status")
		case "HEAD":
			if !strings.HasSuffix(dir, "/.git/") {
				git(dir, "--git-dir=.", "--work-tree=.", "status")
			}
		case "hgrc", "config.toml":
			if evilIn(name) {
				bad = name
			}
		}
		return nil
	})
	if where, err := os.ReadFile(b.witness); err == nil {
		bad = string(where)
	}
	if bad != "" && b.p != nil {
		t.Errorf("%s something of a box ran in %s:\n%s", when, bad, strings.Join(b.log, "\n"))
	}
	return bad != ""
}

// harmless reports whether no file of the workspace names the witness, or is evil to
// another version control system. Then there is nothing to run, and git, which takes far
// longer than this check, need not be asked.
func (b *burrow) harmless() bool {
	err := filepath.WalkDir(b.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "objects" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		text, _ := os.ReadFile(name)
		if strings.Contains(string(text), b.witness) || string(text) == "evil" {
			return fs.ErrExist
		}
		return nil
	})
	return err == nil
}

// run plays one case, and reports whether anything of a box ran.
func (b *burrow) run(t *testing.T, protected bool) bool {
	must(t, os.Mkdir(b.dir, 0o755))
	b.repository(b.at(".git"), person)
	for range 1 + b.r.IntN(3) {
		home := "of/a/" + b.somewhere()
		b.repository(b.at(home)+"/.git", person)
		b.homes = append(b.homes, home)
	}
	if b.r.IntN(2) == 0 {
		b.repository(b.at("fixture/x/dotgit"), b.evil())
		must(t, os.Remove(b.at("fixture/x/dotgit/HEAD")))
	}
	for i := range 2 + b.r.IntN(2) {
		if protected && (i == 0 || b.r.IntN(3) == 0) {
			b.reopen(t, b.r.IntN(2) == 0)
			b.p.walk.mu.Lock()
			b.p.walk.most = []int{0, 10, 100}[b.r.IntN(3)]
			b.p.walk.mu.Unlock()
		}
		b.command(t)
		if !protected || b.r.IntN(2) > 0 {
			continue // the next command, or the end, comes before the walk
		}
		b.p.walkAll(t)
		if b.ask(t, "after a command") {
			break
		}
	}
	if b.box != nil {
		close(b.box.do)
	}
	if b.p != nil {
		if b.r.IntN(2) == 0 { // perhaps before the walk has ended: the next server continues it
			must(t, b.p.Close())
			b.open(t)
		}
		b.p.walkAll(t)
		must(t, b.p.Close())
	}
	return b.ask(t, "at the end")
}

// Whatever commands do deep in a workspace, at any depth and in any order: after a walk has
// been there, a person runs nothing of a box by going there, or by adding all of it to a
// repository and asking git for its status.
func TestRandomDeepRepositoriesNeverRun(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Git)
	cases, r := testenv.Cases(t, 20)
	seed := r.Uint64()
	top := t.TempDir()
	commit := top + "/commit"
	must(t, os.Mkdir(commit, 0o755))
	git(t, commit, "init", "-q", "-b", "main")
	git(t, commit, "commit", "-q", "--allow-empty", "-m", "x")
	play := func(n uint64, protected bool) bool {
		base := filepath.Join(top, fmt.Sprintf("%d-%v", n, protected))
		must(t, os.Mkdir(base, 0o755))
		defer func() {
			_ = exec.CommandContext(t.Context(), "rm", "-rf", base).Run() // os.RemoveAll keeps too many directories open in these depths
		}()
		b := &burrow{siege: siege{r: rand.New(rand.NewPCG(n, 0)), dir: base + "/workspace", witness: base + "/witness", record: base + "/record"}, commit: commit}
		return b.run(t, protected)
	}
	playAll(t, cases, seed, play)
}
