package protect

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// walkAll walks until everything that a command has made was looked at.
func (p *Protector) walkAll(t testing.TB) {
	t.Helper()
	for {
		whole, err := p.walkFor(time.Minute)
		must(t, err)
		p.mu.Lock()
		over := whole || p.running > 0
		p.mu.Unlock()
		if over {
			return
		}
	}
}

const evilConfig = "[core]\n\tfsmonitor = evil\n"

// evilIn reports whether a file exists and contains what only a command wrote.
func evilIn(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(text), "evil")
}

// A repository that a command makes is looked at, however deep it is.
func TestADeepRepositoryIsFound(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command func(dir string)
		harm    string // path of the file that must not contain evil at the end
	}{
		{"two down", func(dir string) { repository(dir+"/a/b", evilConfig) }, "a/b/.git/config"},
		{"bare", func(dir string) { repository(dir+"/a/b/store", evilConfig) }, "a/b/store/HEAD"},
		{"a hook", func(dir string) {
			repository(dir+"/a/b", "")
			put(t, dir+"/a/b/.git/hooks/post-index-change", "evil")
		}, "a/b/.git/hooks/post-index-change"},
		{"far down", func(dir string) {
			repository(dir+"/"+strings.Repeat("a/", 300)+"r", evilConfig)
		}, strings.Repeat("a/", 300) + "r/.git/config"},
		{"a file that leads to it", func(dir string) {
			repository(dir+"/x/y/z", evilConfig)
			put(t, dir+"/a/b/.git", "gitdir: ../../x/y/z/.git\n")
		}, "x/y/z/.git/config"},
		{"hg", func(dir string) { put(t, dir+"/a/b/c/.hg/hgrc", "evil") }, "a/b/c/.hg/hgrc"},
		{"in the directory of another one", func(dir string) { repository(dir+"/a/.git/b/c", evilConfig) }, "a/.git/b/c/.git/config"},
		{"behind a closed door", func(dir string) {
			repository(dir+"/a/b/c", evilConfig)
			must(t, os.Chmod(dir+"/a/b", 0o100))
		}, "a/b/c/.git/config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p *Protector
			var dir string
			p, dir = guarded(t, func(dir string) { put(t, dir+"/a/b/c/file", "") })
			harm := filepath.Join(dir, tt.harm)
			during(t, p, func() { tt.command(dir) })
			wrong := func() bool {
				if strings.HasSuffix(harm, "HEAD") {
					_, err := os.Stat(harm)
					return err == nil
				}
				return evilIn(harm)
			}
			if !wrong() && os.Getuid() == 0 {
				t.Error("it was gone before a walk found it: the test proves nothing")
			}
			p.walkAll(t)
			if wrong() {
				t.Error("it is still there")
			}
		})
	}
}

// The files that a person has deep in the workspace stay as they are, whenever the walk
// reaches them: before the first command, after it has begun, or with a second server.
func TestAPersonsDeepRepositoryIsKept(t *testing.T) {
	const mine = "[core]\n\tfsmonitor = mine\n\thooksPath = tools\n"
	own := func(dir string) {
		repository(dir+"/a/b/repo", mine)
		put(t, dir+"/a/b/repo/.git/hooks/post-commit", "of a person")
		put(t, dir+"/a/b/repo/tools/post-merge", "of a person")
		repository(dir+"/a/b/c/store", mine)
		put(t, dir+"/a/b/linked/.git", "gitdir: /elsewhere\n")
	}
	kept := func(t *testing.T, dir, when string) {
		t.Helper()
		for name, want := range map[string]string{
			"a/b/repo/.git/config": mine, "a/b/repo/.git/hooks/post-commit": "of a person", "a/b/repo/tools/post-merge": "of a person",
			"a/b/c/store/config": mine, "a/b/c/store/HEAD": "ref: refs/heads/main\n", "a/b/linked/.git": "gitdir: /elsewhere\n",
		} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
				t.Errorf("%s: %s is %q, %v; want %q", when, name, text, err, want)
			}
		}
	}
	t.Run("before", func(t *testing.T) {
		testenv.Need(t, testenv.Root)
		p, dir := guarded(t, own)
		inPins(t, p, dir, func() {
			must(t, os.WriteFile(dir+"/a/b/repo/file", nil, 0o644))
			for _, name := range []string{"a/b/repo/.git/hooks/pre-commit", "a/b/repo/.git/hooks/post-commit", "a/b/repo/.git/config", "a/b/linked/.git", "a/b/c/store/hooks/pre-push"} {
				if os.WriteFile(filepath.Join(dir, name), []byte("evil"), 0o755) == nil {
					t.Errorf("%s could be written", name)
				}
			}
		})
		kept(t, dir, "after a command")
		for _, name := range []string{"a/b/repo/.git/hooks/pre-commit", "a/b/c/store/hooks/pre-push"} {
			if evilIn(filepath.Join(dir, name)) {
				t.Errorf("%s is still there", name)
			}
		}
		p.walkAll(t)
		during(t, p, func() {})
		kept(t, dir, "after another one")
	})
	t.Run("made while none runs", func(t *testing.T) {
		p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/c/x", "") })
		during(t, p, func() {})
		p.walkAll(t)
		own(dir)
		older(t, dir)
		must(t, p.start())
		put(t, dir+"/a/b/repo/.git/index.lock", "")
		put(t, dir+"/a/b/x/y", "")
		p.lookAndWalk()
		for _, name := range []string{".git/hooks/post-commit", "tools/post-merge"} {
			must(t, os.WriteFile(dir+"/a/b/repo/"+name, []byte("evil"), 0o755))
		}
		_, err := p.stop()
		must(t, err)
		p.walkAll(t)
		kept(t, dir, "after a command that began later")
		if p.guards["a/b/repo/.git/config"] == nil {
			t.Error("it was not found at all")
		}
	})
	t.Run("where times do not show every change", func(t *testing.T) {
		p, dir := guarded(t, nil)
		own(dir)
		older(t, dir)
		for _, p.trust = range []trust{{near: true, mapped: true}, {near: true, times: true}} {
			if p.late("a/b/repo", time.Now(), newBudget()) {
				t.Errorf("%+v: it is taken for a person's", p.trust)
			}
		}
	})
	t.Run("with a young hook", func(t *testing.T) {
		p, dir := guarded(t, nil)
		own(dir)
		older(t, dir)
		since := fileClock()
		put(t, dir+"/a/b/repo/.git/hooks/pre-push", "evil")
		if homes := len(p.homes); p.late("a/b/repo", since, newBudget()) || len(p.homes) != homes {
			t.Errorf("what a command has made is a person's: %d directories, want %d", len(p.homes), homes)
		}
	})
	t.Run("beyond the bound", func(t *testing.T) {
		p, dir := guarded(t, nil)
		for i := range maxHomes {
			p.homes = append(p.homes, &home{path: "none", dir: openForTest(t, dir), id: birth{ident{1, uint64(i)}, 0}})
		}
		own(dir)
		older(t, dir)
		p.unseen = fileClock()
		for _, at := range []string{"a/b/repo", "a/b/c/store"} {
			if !p.late(at, p.unseen, newBudget()) {
				t.Errorf("%s is not a person's any more", at)
			}
		}
		repository(dir+"/a/b/young", evilConfig)
		if p.late("a/b/young", p.unseen, newBudget()) {
			t.Error("what a command has made is a person's")
		}
		if len(p.homes) != maxHomes || p.guards["a/b/repo/.git/config"] != nil {
			t.Error("it became one of those that are looked at")
		}
		p.unseen = time.Time{}
		p.walk.begun = p.begun
	})
}

func openForTest(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// older returns when the next file that is made has another time than the existing files.
func older(t *testing.T, dir string) {
	t.Helper()
	put(t, dir+"/a/now", "")
	var st unix.Stat_t
	must(t, unix.Stat(dir+"/a/now", &st))
	for !fileClock().After(time.Unix(st.Ctim.Unix())) {
		runtime.Gosched()
	}
}

// A repository that a command has changed before the walk came there is not taken for a
// person's, whatever old files the command has used for it.
func TestOldFilesDoNotMakeARepositoryAPersons(t *testing.T) {
	for _, tt := range []struct {
		name, harm string
		command    func(dir string)
	}{
		{"a directory that becomes .git", "a/b/r/.git/config", func(dir string) {
			put(t, dir+"/a/b/r/x", "")
			must(t, os.Rename(dir+"/old/git", dir+"/a/b/r/.git"))
		}},
		{"hooks", "a/b/mine/.git/hooks/pre-commit", func(dir string) {
			must(t, os.RemoveAll(dir+"/a/b/mine/.git/hooks"))
			must(t, os.Rename(dir+"/old/git/hooks", dir+"/a/b/mine/.git/hooks"))
		}},
		{"a file", "a/b/mine/.git/config", func(dir string) {
			must(t, os.Rename(dir+"/old/git/config", dir+"/a/b/mine/.git/config"))
		}},
		{"a second name", "a/b/mine/.git/config.worktree", func(dir string) {
			must(t, os.Link(dir+"/old/git/config", dir+"/a/b/mine/.git/config.worktree"))
		}},
		{"a submodule", "a/b/mine/.git/modules/m/config", func(dir string) {
			must(t, os.Mkdir(dir+"/a/b/mine/.git/modules", 0o755))
			put(t, dir+"/old/git/HEAD", "ref: refs/heads/main\n")
			must(t, os.Rename(dir+"/old/git", dir+"/a/b/mine/.git/modules/m"))
		}},
		{"what a file leads to", "a/b/t/config", func(dir string) {
			put(t, dir+"/old/git/HEAD", "ref: refs/heads/main\n")
			must(t, os.Rename(dir+"/old/git", dir+"/a/b/t"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/x", "") })
			repository(dir+"/a/b/mine", "")
			put(t, dir+"/a/b/leads/.git", "gitdir: ../t\n")
			for _, d := range []string{"objects", "refs"} {
				must(t, os.MkdirAll(dir+"/old/git/"+d, 0o755))
			}
			put(t, dir+"/old/git/config", evilConfig)
			put(t, dir+"/old/git/hooks/pre-commit", "evil")
			older(t, dir)
			during(t, p, func() { tt.command(dir) })
			if !evilIn(filepath.Join(dir, tt.harm)) {
				t.Fatal("nothing was done: the test proves nothing")
			}
			p.walkAll(t)
			during(t, p, func() {})
			harm := filepath.Join(dir, tt.harm)
			if _, err := os.Stat(filepath.Join(filepath.Dir(harm), "HEAD")); evilIn(harm) && (err == nil || strings.Contains(harm, "hooks")) {
				t.Error("it is still there")
			}
		})
	}
}

// The times of another file system in the workspace are relied on as far as that file
// system allows.
func TestAnotherFileSystemInTheWorkspace(t *testing.T) {
	p, _ := guarded(t, nil)
	if !p.times {
		t.Skip("nothing is known of this one either")
	}
	var st unix.Stat_t
	must(t, unix.Fstat(int(p.root.Fd()), &st))
	st.Dev++
	proc := openForTest(t, "/proc") // a file system about which nothing is known
	if got := p.trustOf(int(proc.Fd()), &st); got != (trust{}) {
		t.Errorf("got %+v, want nothing", got)
	}
	if got := p.trustAt("none", &st); got != (trust{}) {
		t.Errorf("of what cannot be opened: got %+v, want nothing", got)
	}
	if st.Dev--; p.trustOf(int(proc.Fd()), &st) != p.trust || p.trustAt("none", &st) != p.trust {
		t.Error("the workspace's own file system is not known")
	}
}

// A walk that could not open a directory for lack of descriptors has not been everywhere.
func TestAWalkWithoutDescriptorsIsNotWhole(t *testing.T) {
	p, dir := guarded(t, func(dir string) { put(t, dir+"/a/b/x", "") })
	during(t, p, func() { repository(dir+"/a/b/r", evilConfig) })
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}))
	whole, err := p.walkFor(time.Minute)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	if whole || err == nil {
		t.Errorf("got %v, %v; want an error", whole, err)
	}
	p.walkAll(t)
	if evilIn(dir + "/a/b/r/.git/config") {
		t.Error("it is still there")
	}
}
