package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/protect"
)

// shop is a workspace in which several servers work, one after the other, with the same
// state.
type shop struct {
	dir, state, witness string
	profile             string
	server              *sandbox.Supervisor
	box                 *sandbox.Box
}

func newShop(t *testing.T, profile string) *shop {
	t.Helper()
	return newShopIn(t, t.TempDir(), profile)
}

func newShopIn(t *testing.T, top, profile string) *shop {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Git, testenv.Bash)
	s := &shop{dir: top + "/workspace", state: top + "/state", witness: top + "/witness", profile: profile}
	for _, dir := range []string{s.dir, s.state} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.close(t) })
	return s
}

func (s *shop) close(t *testing.T) {
	t.Helper()
	if s.server == nil {
		return
	}
	if err := s.server.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	s.server = nil
}

// open ends the server, if there is one, and starts another.
func (s *shop) open(t *testing.T) {
	t.Helper()
	s.close(t)
	server, err := sandbox.New(sandbox.Config{Workspace: s.dir, State: s.state})
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	if n := testenv.Patience(t); n > 1 {
		server.SetPatience(n * 10 * time.Second)
	}
	if s.box, err = server.Open(t.Context(), "box", policytest.GrantProfile(t, s.profile)); err != nil {
		t.Fatal(err)
	}
}

// git runs git on the host, as the person whose workspace it is.
func (s *shop) git(t *testing.T, in string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = filepath.Join(s.dir, in)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.state, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Logf("git %v: %v\n%s", args, err, out)
	}
}

// harmed reports whether a person who asks git for the status of a repository runs what a
// box wrote.
func (s *shop) harmed(t *testing.T, in string) bool {
	t.Helper()
	s.git(t, in, "status")
	_, err := os.Stat(s.witness)
	return err == nil
}

const (
	protecting   = "fs: {system: true, workspace: rw}"
	unprotecting = "fs: {system: true, workspace: rw, protect: none}"
)

// A box tries the following to attack a repository that existed before the box. In between,
// its server is restarted or the box is parked: the pins of the repository are then made
// again.
func TestARepositoryKeepsItsProtection(t *testing.T) {
	const (
		anew    = "a new server"
		parking = "the box is parked"
		evil    = `{ printf '[core]\n\tfsmonitor = "touch WITNESS; false"\n' >> proj/.git/config
			printf '#!/bin/sh\ntouch WITNESS\n' > proj/.git/hooks/post-index-change; chmod +x proj/.git/hooks/post-index-change; } 2>/dev/null; true`
		// git asks a repository that is in the index for its state, however deep it is.
		nested = `mkdir -p proj/a/b/c && cd proj/a/b/c && git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git -C /workspace/proj add a/b/c`
		config = `cd /workspace/proj/a/b/c && git config core.fsmonitor 'touch WITNESS; false'`
	)
	for name, steps := range map[string][]string{
		"written":                  {evil},
		"moved, and a link":        {"mkdir -p .cache; mv proj .cache/proj && ln -s .cache/proj proj", evil, anew, evil},
		"moved while it is parked": {"mkdir -p .cache; mv proj .cache/proj && ln -s .cache/proj proj", evil, parking, evil},
		"copied over":              {"cp -r proj new; mv proj old; mv new proj", evil, anew, evil},
		"in a directory that is moved": {
			"mkdir -p d; mv proj d/proj; mv d e; ln -s e/proj proj", anew, evil,
		},
		"another one in its index": {nested + "; " + config},
		"in its index, later":      {nested, anew, config},
		"in its index, as a file":  {nested + "; mv .git ../real; echo gitdir: ../real > .git; " + config},
		"in its index, large":      {"cd proj; for i in {1..300}; do echo x > $i; done; git add .; cd ..; " + nested, "cd proj; git update-index --index-version 4 --split-index", anew, config},
		"a crowd of directories":   {"mkdir a{0001..1100}", anew, evil, "rmdir a????"},
		"a crowd of repositories":  {"mkdir -p a{001..135}/.git/{objects,refs}; for i in a*; do echo ref: refs/heads/x > $i/.git/HEAD; done", anew, evil},
		"a crowd of files":         {"seq 70000 | xargs touch", anew, evil},
		"a crowd, and moved":       {"mkdir a{0001..1100}", anew, "mkdir -p .cache; mv proj .cache/proj && ln -s .cache/proj proj", parking, evil, anew, evil},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(profile string) bool {
				top := t.TempDir()
				if name == "a crowd of files" {
					top = testenv.MemoryDir(t)
				}
				s := newShopIn(t, top, profile)
				s.git(t, "", "init", "-q", "proj")
				s.open(t)
				for _, step := range steps {
					switch step {
					case anew:
						s.open(t)
					case parking:
						shares(t)
						park(t, s.box)
					default:
						shell(t, s.box, strings.ReplaceAll(step, "WITNESS", s.witness))
					}
				}
				return s.harmed(t, "proj")
			}
			if run(protecting) {
				t.Error("git ran what a box wrote")
			}
			if strings.Contains(name, "files") {
				return // the crowd of directories without files is its control
			}
			if !run(unprotecting) {
				t.Error("without protection the same does no harm: the test proves nothing")
			}
		})
	}
}

// One file, or a number of files, that a box writes must not make the workspace unusable
// forever.
func TestNothingMakesTheWorkspaceUnusable(t *testing.T) {
	for name, script := range map[string]string{
		"a deep .git file": `p=$(printf 'p/%.0s' {1..300}); mkdir -p s $p/g/objects $p/g/refs/heads
			echo 'ref: refs/heads/main' > $p/g/HEAD; printf 'gitdir: ../%s/g\n' "${p%/}" > s/.git`,
		"many .git files": `for i in {1..60}; do mkdir -p s$i $i/a/b/c/d/e/g/{objects,refs}; echo 'ref: refs/heads/main' > $i/a/b/c/d/e/g/HEAD
			echo "gitdir: ../$i/a/b/c/d/e/g" > s$i/.git; done`,
		"many submodules":    `git init -q .; mkdir -p .git/modules/m{1..600}; for i in {1..600}; do : > .git/modules/m$i/HEAD; done`,
		"many worktrees":     `git init -q .; mkdir -p .git/worktrees/m{1..600}`,
		"deep submodules":    `git init -q .; mkdir -p .git/modules/$(printf 'p/%.0s' {1..40}); : > .git/modules/p/p/p/p/p/p/p/p/p/HEAD`,
		"many repositories":  `for i in {1..600}; do mkdir -p r$i/.git/{hooks,objects,refs}; : > r$i/.git/HEAD; : > r$i/.git/config; done`,
		"many in .git":       `git init -q .; mkdir .git/modules; cd .git/modules; seq 66000 | xargs touch`,
		"closed directories": `git init -q .; git init -q r; chmod 0 .git/hooks r/.git r`,
		"many hooks":         `git init -q r; cd r/.git/hooks; seq -f %g.sample 66000 | xargs touch; true`,
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			if strings.Contains(script, "xargs touch") {
				top = testenv.MemoryDir(t)
			}
			s := newShopIn(t, top, protecting)
			t.Cleanup(func() { // an ordinary user cannot remove what is closed
				for _, closed := range []string{"r", "r/.git", ".git/hooks"} {
					_ = os.Chmod(filepath.Join(s.dir, closed), 0o700)
				}
			})
			s.open(t)
			r, err := s.box.Run(t.Context(), sandbox.Cmd{Grant: s.box.Grant(), Shell: script, Timeout: 30 * time.Second * testenv.Patience(t)})
			if err != nil {
				t.Fatal(err)
			}
			if name == "a deep .git file" && (len(r.Reverted) != 1 || r.Reverted[0].Path != "s/.git") {
				t.Errorf("told %v, want s/.git by name", r.Reverted)
			}
			for range 2 {
				s.open(t)
				if _, out := shell(t, s.box, "echo open"); out != "open\n" {
					t.Errorf("in the next server: %q", out)
				}
			}
		})
	}
}

// A job makes what a person's programs run, and continues. What it made is soon removed,
// and the job, the next command and the end of the job report that.
func TestWhatAJobMakesIsTakenAwayWhileItRuns(t *testing.T) {
	const script = `mkdir -p .vscode .claude; echo '{}' > .vscode/tasks.json; echo '{}' > .claude/settings.json; git init -q .; git config core.fsmonitor 'touch WITNESS; false'
		echo evil > .envrc; while [ -e .envrc ] || [ -e .vscode ] || grep -q fsmonitor .git/config; do sleep 0.05; done; echo taken; exec sleep 1000`
	for profile, want := range map[string]string{protecting: "taken\n", unprotecting: ""} {
		s := newShop(t, profile)
		s.open(t)
		job, err := s.box.Start(t.Context(), sandbox.Cmd{Grant: s.box.Grant(), Shell: strings.ReplaceAll(script, "WITNESS", s.witness), Timeout: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		patience, cancel := context.WithTimeout(t.Context(), 4*time.Second*testenv.Patience(t))
		_ = job.Output().Wait(patience, 0)
		cancel()
		if got := read(t, job.Output()); got != want {
			t.Errorf("%s: the job saw %q, want %q", profile, got, want)
		}
		if got := s.harmed(t, ""); got != (want == "") {
			t.Errorf("%s: git on the host ran what a job wrote: %v", profile, got)
		}
		if want == "" {
			continue
		}
		next, _ := shell(t, s.box, "true")
		for what, told := range map[string][]protect.Reverted{"the job": job.Reverted(), "the next command": next.Reverted, "its end": job.Kill(0).Reverted} {
			if len(told) != 4 {
				t.Errorf("%s tells %v, want 4 things", what, told)
			}
		}
	}
}

// A file that other users run with its owner's rights keeps these rights when it is written
// through a mapping. A box that could write to it would choose what they run.
func TestABoxCannotWriteToSetIDFiles(t *testing.T) {
	testenv.Need(t, testenv.Python)
	const script = `python3 - /workspace/bin/deep/tool <<'P'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(fd, os.fstat(fd).st_size)
m[:4] = b"evil"
m.flush()
P`
	crowd := "mkdir -p crowd; cd crowd; seq 60000 | xargs touch"
	for profile, want := range map[string]string{protecting: "text of a program", unprotecting: "evil of a program"} {
		s := newShopIn(t, testenv.MemoryDir(t), profile)
		tool := s.dir + "/bin/deep/tool"
		if err := os.MkdirAll(filepath.Dir(tool), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, tool, "text of a program")
		if err := os.Chmod(tool, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		s.open(t)
		shell(t, s.box, script)
		shell(t, s.box, "mv bin/deep/tool x; mv bin/deep d; mv bin b; ln bin/deep/tool y")
		shell(t, s.box, crowd)
		s.open(t)
		shell(t, s.box, script)
		if profile == unprotecting {
			tool = s.dir + "/x"
			shell(t, s.box, strings.ReplaceAll(script, "bin/deep/tool", "x"))
		}
		text, err := os.ReadFile(tool)
		info, statErr := os.Stat(tool)
		if err != nil || statErr != nil || string(text) != want || info.Mode()&os.ModeSetuid == 0 {
			t.Errorf("%s: got %q, %v, %v; want %q and its mode", profile, text, info, err, want)
		}
	}
}
