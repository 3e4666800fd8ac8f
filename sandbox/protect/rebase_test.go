package protect

import (
	"os"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// The strategy of a rebase or a cherry-pick in progress must not be a path into the work
// tree: git would run it when a person continues.
func TestAStrategyIsNotAPath(t *testing.T) {
	p, dir := guarded(t, func(dir string) {
		repository(dir, "")
		put(t, dir+"/.git/rebase-merge/strategy", "of/a/person\n")
	})
	strategy, opts := dir+"/.git/rebase-merge/strategy", dir+"/.git/sequencer/opts"
	during(t, p, func() { put(t, opts, "[options]\n\tstrategy = ort\n\tstrategy-option = subtree=a/b\n") })
	for _, name := range []string{strategy, opts} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%v; want what was there, or is harmless, kept", err)
		}
	}
	for _, evil := range []string{"[options]\n\tstrategy = x/../evil\n", "[options]strategy=x\\\n/../evil\n", "[options]\nstrategy = \"x/../e\"vil", "[options\n"} {
		during(t, p, func() { put(t, opts, evil) })
		if _, err := os.Stat(opts); err == nil {
			t.Errorf("%q is still there", evil)
		}
	}
	during(t, p, func() { put(t, strategy, "ort\n") })
	during(t, p, func() { put(t, strategy, "x/../evil\n") }) // overwritten in place
	if _, err := os.Stat(strategy); err == nil {
		t.Error("the strategy of a rebase is still there")
	}
}

// A command names a program of the work tree as the strategy of a person's rebase.
func TestARebaseMergesByNoProgramOfABox(t *testing.T) {
	testenv.Need(t, testenv.Git)
	run := func(protected bool) bool {
		var p *Protector
		var dir string
		prepare := func(dir string) {
			git(t, dir, "init", "-q", "-b", "main")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
			git(t, dir, "branch", "side")
			for _, branch := range []string{"main", "side"} {
				git(t, dir, "checkout", "-q", branch)
				put(t, dir+"/"+branch, "")
				git(t, dir, "add", ".")
				git(t, dir, "commit", "-q", "-m", branch)
			}
			git(t, dir, "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "main")
		}
		command := func() {
			put(t, dir+"/git-merge-x/y", "")
			must(t, os.WriteFile(dir+"/evil", []byte("#!/bin/sh\ntouch ../witness\n: >side\ngit add side\n"), 0o755))
			put(t, dir+"/.git/rebase-merge/strategy", "x/../evil\n")
		}
		if protected {
			p, dir = guarded(t, prepare)
			during(t, p, command)
		} else {
			dir = t.TempDir() + "/workspace"
			must(t, os.Mkdir(dir, 0o755))
			prepare(dir)
			command()
		}
		git(t, dir, "rebase", "--continue")
		_, err := os.Stat(dir + "/../witness")
		return err == nil
	}
	if run(true) {
		t.Error("what a box added ran")
	}
	if !run(false) {
		t.Error("without protection it does not run: the test proves nothing")
	}
}

// A person is in the middle of a rebase while a command runs, and continues it: of the
// commands in its list only the person's own run. A command's own rebase may run commands
// while the command runs.
func TestARebaseRunsNothingOfABox(t *testing.T) {
	testenv.Need(t, testenv.Git)
	run := func(protected bool) (witness, own bool) {
		var p *Protector
		var dir string
		prepare := func(dir string) {
			git(t, dir, "init", "-q", "-b", "main")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "two")
			git(t, dir, "-c", "sequence.editor=printf 'break\\nexec touch ../own\\n' >", "rebase", "-q", "-i", "--keep-empty", "HEAD~1")
		}
		if protected {
			p, dir = guarded(t, prepare)
			must(t, p.start())
		} else {
			dir = t.TempDir() + "/workspace"
			must(t, os.Mkdir(dir, 0o755))
			prepare(dir)
		}
		list := dir + "/.git/rebase-merge/git-rebase-todo"
		text, err := os.ReadFile(list)
		must(t, err)
		put(t, list, "exec touch ../witness\n \tx touch ../witness\n"+string(text)+"x\ttouch ../witness\n")
		if protected {
			p.lookNow()
			if text, err := os.ReadFile(list); err != nil || !strings.Contains(string(text), "witness") {
				t.Errorf("while the command runs its list is %q, %v", text, err)
			}
			told, err := p.stop()
			must(t, err)
			if len(told) != 1 || !strings.Contains(told[0].String(), "lost 3") {
				t.Errorf("told %v", told)
			}
		}
		git(t, dir, "rebase", "--continue")
		there := func(name string) bool {
			_, err := os.Stat(dir + "/../" + name)
			return err == nil
		}
		return there("witness"), there("own")
	}
	if witness, own := run(true); witness || !own {
		t.Errorf("what a box added ran: %v; what a person wrote ran: %v", witness, own)
	}
	if witness, _ := run(false); !witness {
		t.Error("without protection it does not run: the test proves nothing")
	}
}

// A link that is protected leads over other links, and each of them is protected.
func TestLinksOnTheWayAreKept(t *testing.T) {
	p, dir := guarded(t, func(dir string) {
		put(t, dir+"/real/hooks/x", "of a person")
		must(t, os.Symlink("second/hooks", dir+"/.husky"))
		must(t, os.Symlink("third", dir+"/second"))
		must(t, os.Symlink("real", dir+"/third"))
	})
	during(t, p, func() {
		put(t, dir+"/other/hooks/x", "evil")
		must(t, os.Remove(dir+"/third"))
		must(t, os.Symlink("other", dir+"/third"))
	})
	if evilIn(dir + "/.husky/x") {
		t.Error("the link leads to what a command made")
	}
	during(t, p, func() {
		must(t, os.Rename(dir+"/second", dir+"/x"))
		must(t, os.Symlink("other", dir+"/second"))
	})
	if evilIn(dir + "/.husky/x") {
		t.Error("the first link leads to what a command made")
	}
}
