package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// runGit is the Run of the tests.
func runGit(ctx context.Context, args, env []string, stdin io.Reader) (io.Reader, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	cmd.Stdin = stdin
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return &out, nil
}

// work is a repository in a temporary directory.
type work struct {
	testing.TB

	dir string
}

func newWork(t testing.TB) *work {
	t.Helper()
	testenv.Need(t, testenv.Git)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &work{t, dir}
	w.git("init", "-q", "-b", "main")
	return w
}

// git runs a git command as a user would, with the repository's own configuration.
func (w *work) git(args ...string) string {
	w.Helper()
	return w.with(nil, "", args...)
}

func (w *work) with(env []string, stdin string, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "git", args...)
	cmd.Dir = w.dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
		"GIT_ALLOW_PROTOCOL=file",
	}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// fail runs a git command that may fail, because the canary program does not speak the
// protocol of git.
func (w *work) fail(args ...string) {
	cmd := exec.CommandContext(w.Context(), "git", args...)
	cmd.Dir = w.dir
	_ = cmd.Run()
}

func (w *work) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// commit commits all files at a given time.
func (w *work) commit(author, email string, seconds int64) {
	w.Helper()
	w.git("add", "-A")
	date := fmt.Sprintf("@%d +0000", seconds)
	w.with([]string{"GIT_AUTHOR_NAME=" + author, "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date},
		"", "commit", "-q", "--allow-empty", "-m", "change")
}

// In each case, the configuration of a repository starts the same program in another way,
// and the program leaves a mark. A plain git command starts it; no command of this package
// does.
func TestNoProgramOfTheRepositoryStarts(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(w *work, canary string)
		// runs a git command that starts the program, as proof that the way works here; nil
		// if no command can
		plain func(w *work)
	}{
		{"fsmonitor", func(w *work, canary string) {
			w.git("config", "core.fsmonitor", canary)
		}, func(w *work) { w.git("status") }},
		{"external diff", func(w *work, canary string) {
			w.git("config", "diff.external", canary)
		}, func(w *work) { w.git("diff") }},
		{"diff driver", func(w *work, canary string) {
			w.git("config", "diff.evil.command", canary)
			w.write(".git/info/attributes", "* diff=evil\n")
		}, func(w *work) { w.git("diff") }},
		{"textconv", func(w *work, canary string) {
			w.git("config", "diff.evil.textconv", canary)
			w.write(".git/info/attributes", "* diff=evil\n")
		}, func(w *work) { w.git("log", "-p") }},
		{"filter", func(w *work, canary string) {
			w.git("config", "filter.evil.clean", canary)
			w.git("config", "filter.evil.required", "true")
			w.write(".git/info/attributes", "* filter=evil\n")
		}, func(w *work) { w.git("diff") }},
		{"filter with an equals sign in its name", func(w *work, canary string) {
			w.git("config", "filter.a=b.clean", canary)
			w.write(".git/info/attributes", "* filter=a=b\n")
		}, func(w *work) { w.git("diff") }},
		{"filter process", func(w *work, canary string) {
			w.git("config", "filter.evil.process", canary)
			w.write(".git/info/attributes", "* filter=evil\n")
		}, func(w *work) { w.fail("diff") }},
		{"filter of an included file", func(w *work, canary string) {
			w.write(".git/more", "[filter \"evil\"]\n\tclean = "+canary+"\n")
			w.git("config", "include.path", "more")
			w.write(".git/info/attributes", "* filter=evil\n")
		}, func(w *work) { w.git("diff") }},
		{"signature program", func(w *work, canary string) {
			w.git("config", "gpg.program", canary)
			w.git("config", "log.showSignature", "true")
		}, func(w *work) { w.git("log") }},
		{"hooks", func(w *work, canary string) {
			w.git("config", "core.hooksPath", filepath.Dir(canary))
			if err := os.Symlink(canary, filepath.Join(filepath.Dir(canary), "post-index-change")); err != nil {
				w.Fatal(err)
			}
		}, func(w *work) { w.git("add", "a.txt") }}, // git status writes the index only sometimes
		{"alias", func(w *work, canary string) {
			for _, name := range []string{"log", "diff", "rev-parse", "rev-list", "config", "ls-tree", "ls-files", "merge-base", "mine"} {
				w.git("config", "alias."+name, "!"+canary)
			}
		}, func(w *work) { w.git("mine") }},
		{"pager", func(w *work, canary string) {
			w.git("config", "core.pager", canary)
			w.git("config", "pager.log", canary)
			w.git("config", "pager.diff", canary)
		}, nil}, // git starts a pager only at a terminal
		{"submodule", func(w *work, canary string) {
			w.git("-C", "sub", "config", "core.fsmonitor", canary)
			w.git("config", "diff.ignoreSubmodules", "none")
			w.git("config", "diff.submodule", "diff")
		}, func(w *work) { w.git("status") }},
		{"transport of a partial clone", func(w *work, canary string) {
			other := newWork(w.TB)
			w.git("config", "remote.origin.url", other.dir)
			w.git("config", "remote.origin.uploadpack", canary)
			w.git("config", "remote.origin.promisor", "true")
			w.git("config", "core.repositoryFormatVersion", "1")
			w.git("config", "extensions.partialClone", "origin")
			blob := w.git("rev-parse", "HEAD~1:a.txt")
			if err := os.Remove(filepath.Join(w.dir, ".git/objects", blob[:2], blob[2:])); err != nil {
				w.Fatal(err)
			}
		}, func(w *work) { w.fail("log", "--numstat") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWork(t)
			w.write("sub/inner.txt", "inner\n")
			w.git("-C", "sub", "init", "-q")
			w.git("-C", "sub", "add", ".")
			w.git("-C", "sub", "commit", "-qm", "inner")
			w.write("a.txt", "one\n")
			w.commit("Ada", "ada@example.org", 1_700_000_000)
			base := w.git("rev-parse", "HEAD")
			w.write("a.txt", "one\ntwo\n")
			w.git("add", "a.txt")
			tree := w.git("write-tree")
			signed := w.with(nil, "tree "+tree+"\nparent "+base+"\nauthor Ada <ada@example.org> 1700000001 +0000\ncommitter Ada <ada@example.org> 1700000001 +0000\n"+
				"gpgsig -----BEGIN PGP SIGNATURE-----\n \n aGVsbG8=\n -----END PGP SIGNATURE-----\n\nsigned\n", "hash-object", "-t", "commit", "-w", "--stdin")
			w.git("update-ref", "HEAD", signed)

			outside := t.TempDir()
			canary, mark := filepath.Join(outside, "canary"), filepath.Join(outside, "mark")
			if err := os.WriteFile(canary, []byte("#!/bin/sh\necho started >>"+mark+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.write("a.txt", "one\nthree\n") // as long as before, so that git has to compare the content
			c.set(w, canary)
			started := func() bool {
				_, err := os.Stat(mark)
				return !errors.Is(err, os.ErrNotExist)
			}

			h, err := Measure(t.Context(), runGit, w.dir, w.dir, unixTime(0))
			if err != nil {
				t.Fatal(err)
			}
			changes, gaps, err := Changed(t.Context(), runGit, w.dir, w.dir, base)
			if err != nil {
				t.Fatal(err)
			}
			if started() {
				t.Error("the program was started")
			}
			if !strings.Contains(c.name, "partial") {
				if len(h.Files) == 0 || len(changes) != 1 || changes[0].Path != "a.txt" || changes[0].Added != 1 {
					t.Errorf("history %+v, changes %+v, gaps %+v: want a.txt in both", h, changes, gaps)
				}
			} else if len(h.Files) != 0 || len(h.Gaps) == 0 {
				t.Errorf("got %+v of a history with a missing object, want a gap alone", h)
			}
			if c.plain == nil {
				return
			}
			c.plain(w)
			if !started() {
				t.Error("a plain git command does not start the program: the test proves nothing")
			}
		})
	}
}

// Most ways are closed twice: in the configuration, and by an option or a variable. So the
// test above still passes if one of the two is removed. This test fails then.
func TestEachWayIsClosed(t *testing.T) {
	args := strings.Join(Args("/p", "log"), "\x00") + "\x00"
	for _, c := range []string{
		"safe.directory=*", "core.fsmonitor=", "core.hooksPath=/dev/null", "core.pager=cat", "core.sshCommand=false", "core.gitProxy=false",
		"core.askPass=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.quotePath=true", "credential.helper=",
		"protocol.allow=never", "submodule.recurse=false", "diff.external=", "diff.orderFile=/dev/null", "diff.ignoreSubmodules=all",
		"diff.submodule=short", "log.showSignature=false", "log.showRoot=true", "log.follow=false", "gpg.program=false",
		"gpg.ssh.program=false", "gpg.x509.program=false", "gpg.ssh.defaultKeyCommand=false",
	} {
		if !strings.Contains(args, "\x00-c\x00"+c+"\x00") {
			t.Errorf("the setting %s is missing", c)
		}
	}
	if !strings.Contains(args, "\x00--no-pager\x00") || !strings.HasSuffix(args, "\x00log\x00") {
		t.Errorf("got %q", args)
	}
	for _, options := range [][]string{LogArgs("/p"), diffs("diff")} {
		for _, o := range []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color", "--relative"} {
			if !slices.Contains(options, o) {
				t.Errorf("%q lacks %s", options, o)
			}
		}
	}
	if !slices.Contains(LogArgs("/p"), "--no-show-signature") {
		t.Error("log shows signatures")
	}
	env := Env("/p")
	for _, v := range []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=", "GIT_PROTOCOL_FROM_USER=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES=/", "GIT_PAGER=cat", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_SSH_COMMAND=false", "GIT_EDITOR=false",
		"HOME=/dev/null", "XDG_CONFIG_HOME=/dev/null", "LC_ALL=C", "TZ=UTC",
	} {
		if !slices.Contains(env, v) {
			t.Errorf("the variable %s is missing", v)
		}
	}
}

func TestGitGetsNoVariableOfThisProcess(t *testing.T) {
	for _, e := range Env("/srv/ada/project") {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "PATH" {
			t.Errorf("got the variable %q", e)
		}
	}
	for root, want := range map[string]string{"/srv/ada/project": "/srv/ada", "/srv/ada/project/": "/srv/ada", "/srv": "/", "/": "/"} {
		if got := above(root); got != want {
			t.Errorf("above(%q) = %q, want %q", root, got, want)
		}
	}
}
