package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/toolkit/code"
)

func unixTime(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func (w *work) measure(since int64) History {
	w.Helper()
	h, err := Measure(w.Context(), runGit, w.dir, w.dir, unixTime(since))
	if err != nil {
		w.Fatal(err)
	}
	return h
}

func (w *work) file(h History, path string) File {
	w.Helper()
	i := slices.IndexFunc(h.Files, func(f File) bool { return f.Path == path })
	if i < 0 {
		w.Fatalf("no %q in %+v", path, h)
	}
	return h.Files[i]
}

// hard returns a repository with contents that make an output of git hard to read.
func hard(t testing.TB) *work {
	w := newWork(t)
	lines := func(from, to int) string {
		var s strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&s, "line", i)
		}
		return s.String()
	}
	w.write("a.txt", lines(1, 10))
	w.write("odd/tab\tnewline\n|\"pipe", lines(1, 3))
	w.write("bin", "x\x00y")
	w.write("12\t3\tdigits", "x\n")
	w.commit("a|b", "tab\there@example.org", 0) // in the year 1970
	w.write("a.txt", lines(3, 12))
	w.commit("-\t|-", "|\t", 4_102_444_800) // in the year 2100
	w.git("mv", "a.txt", "b c.txt")
	w.commit("Ada", "ada@example.org", 1_700_000_000)
	w.git("checkout", "-q", "-b", "side", "HEAD~1")
	w.write("side.txt", lines(1, 4))
	w.commit("Bob", "bob@example.org", 1_700_000_100)
	w.git("checkout", "-q", "main")
	w.with([]string{"GIT_COMMITTER_DATE=@1700000200 +0000"}, "", "merge", "-q", "--no-ff", "-m", "merge", "side")
	w.write("bin", "x\x00z")
	w.write("side.txt", lines(1, 2))
	w.commit("ada", "ADA@example.org", 1_700_000_300)
	w.commit("empty", "empty@example.org", 1_700_000_400)
	return w
}

// TestMeasureIsTheSumOfGitLog compares the numbers with the sums of the numbers of git log
// --numstat.
func TestMeasureIsTheSumOfGitLog(t *testing.T) {
	w := hard(t)
	w.git("config", "log.showRoot", "false")
	w.git("config", "diff.renames", "false")
	w.git("config", "log.date", "relative")
	h := w.measure(0)
	w.git("config", "--unset", "log.showRoot")
	// The same sums are computed in another way: without -z, from the paths as git quotes
	// them.
	type sum struct{ commits, added, deleted int }
	want := map[string]sum{}
	for line := range strings.Lines(w.git("-c", "core.quotePath=false", "log", "--numstat", "--format=", "--no-renames")) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(f) != 3 {
			continue
		}
		path := f[2]
		if strings.HasPrefix(path, `"`) {
			var err error
			if path, err = strconv.Unquote(path); err != nil {
				t.Fatal(err)
			}
		}
		s := want[path]
		added, _ := strconv.Atoi(f[0])
		deleted, _ := strconv.Atoi(f[1])
		want[path] = sum{s.commits + 1, s.added + added, s.deleted + deleted}
	}
	// The one rename, from a.txt to "b c.txt", is neither a deletion nor an
	// addition.
	want["a.txt"] = sum{2, 12, 2}
	want["b c.txt"] = sum{1, 0, 0}
	got := map[string]sum{}
	for _, f := range h.Files {
		got[f.Path] = sum{f.Commits, f.Added, f.Deleted}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sum{})); diff != "" {
		t.Error(diff)
	}
	if h.Commits != 5 || len(h.Gaps) != 0 {
		t.Errorf("got %d commits, gaps %v, want 5 and none: a merge and an empty commit change nothing", h.Commits, h.Gaps)
	}

	a, renamed, bin := w.file(h, "a.txt"), w.file(h, "b c.txt"), w.file(h, "bin")
	if !a.First.Equal(unixTime(0)) || !a.Last.Equal(unixTime(4_102_444_800)) {
		t.Errorf("a.txt from %v to %v, want 1970 to 2100", a.First, a.Last)
	}
	if !slices.Equal(a.Authors, []string{"-\t|-", "a|b"}) {
		t.Errorf("authors of a.txt: %q", a.Authors)
	}
	if renamed.Was != "a.txt" || a.Was != "" {
		t.Errorf("got %q before %q, want a.txt", renamed.Was, renamed.Path)
	}
	if !bin.Binary || a.Binary || !slices.Equal(bin.Authors, []string{"ada", "a|b"}) {
		t.Errorf("got %+v", bin)
	}
	if side := w.file(h, "side.txt"); side.Score != 0.6*2/2+0.4*6/14 {
		t.Errorf("score of side.txt %v, want %v", side.Score, 0.6*2/2+0.4*6/14)
	}
	for _, f := range h.Files {
		if math.IsNaN(f.Score) || f.Score <= 0 || f.Score > 1 {
			t.Errorf("%s has the score %v", f.Path, f.Score)
		}
	}
}

// Two commits under one address are of one author, whether the address is in capitals or
// not.
func TestAuthorsAreToldApartByAddress(t *testing.T) {
	w := newWork(t)
	for i, who := range [][2]string{{"Ada L.", "ada@example.org"}, {"ada", "Ada@Example.org"}, {"Bob", "bob@example.org"}} {
		w.write("f", strings.Repeat("x\n", i+1))
		w.commit(who[0], who[1], int64(i+1))
	}
	if got := w.file(w.measure(0), "f").Authors; !slices.Equal(got, []string{"Bob", "ada"}) {
		t.Errorf("authors %q, want Bob, and Ada by the name of her last commit", got)
	}
}

// A commit counts if its own time lies in the period, whatever the times of the commits
// before and after it are.
func TestPeriodIsOfEachCommit(t *testing.T) {
	w := newWork(t)
	for i, at := range []int64{5000, 2000, 6000, 10, 7000} {
		w.write("f", strings.Repeat("x\n", i+1))
		w.commit("Ada", "ada@example.org", at)
	}
	for since, want := range map[int64]int{0: 5, 10: 5, 11: 4, 2001: 3, 5000: 3, 6001: 1, 7000: 1} {
		if got := w.file(w.measure(since), "f").Commits; got != want {
			t.Errorf("since %d: %d commits, want %d", since, got, want)
		}
	}
	if h := w.measure(7001); len(h.Files) != 0 || len(h.Gaps) != 0 {
		t.Errorf("got %+v, want neither a file nor a gap: nothing was committed then", h)
	}
}

// One more commit changes each number that it concerns.
func TestOneMoreChangeChangesEachNumber(t *testing.T) {
	w := newWork(t)
	w.write("f", "1\n2\n")
	w.write("g", "1\n")
	w.commit("Ada", "ada@example.org", 1000)
	w.write("g", "1\n2\n3\n4\n")
	w.commit("Ada", "ada@example.org", 2000)
	before := w.measure(0)
	w.write("f", "1\n3\n")
	w.commit("Bob", "bob@example.org", 3000)
	after := w.measure(0)
	f, g := w.file(before, "f"), w.file(after, "f")
	if after.Commits != before.Commits+1 || g.Commits != f.Commits+1 || g.Added != f.Added+1 || g.Deleted != f.Deleted+1 ||
		len(g.Authors) != 2 || !g.Last.Equal(unixTime(3000)) || !g.First.Equal(f.First) || g.Score <= f.Score {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if since := w.file(w.measure(1500), "g"); !since.First.Equal(unixTime(2000)) || since.Commits != 1 {
		t.Errorf("since 1500: %+v", since)
	}
}

func TestSubdirectory(t *testing.T) {
	w := newWork(t)
	w.write("top.txt", "x\n")
	w.write("sub/in.txt", "x\n")
	w.commit("Ada", "ada@example.org", 1000)
	h, err := Measure(t.Context(), runGit, filepath.Join(w.dir, "sub"), w.dir, unixTime(0))
	if err != nil || len(h.Files) != 1 || h.Files[0].Path != "in.txt" || len(h.Gaps) != 0 {
		t.Errorf("got %+v, %v, want in.txt alone", h, err)
	}
	w.write("sub/in.txt", "y\n")
	w.write("top.txt", "y\n")
	changes, _, err := Changed(t.Context(), runGit, filepath.Join(w.dir, "sub"), w.dir, "HEAD")
	if err != nil || len(changes) != 1 || changes[0].Path != "in.txt" || len(changes[0].Ranges) != 1 {
		t.Errorf("got %+v, %v, want in.txt alone", changes, err)
	}
	// If the repository lies outside of root, there is no history.
	h, err = Measure(t.Context(), runGit, filepath.Join(w.dir, "sub"), filepath.Join(w.dir, "sub"), unixTime(0))
	if err != nil || len(h.Files) != 0 || len(h.Gaps) != 1 {
		t.Errorf("got %+v, %v, want a gap alone", h, err)
	}
}

func TestWhatCannotBeMeasuredIsAGap(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(t *testing.T) (dir, root string)
		reason string
	}{
		{"no repository", func(t *testing.T) (string, string) {
			newWork(t) // newWork needs git
			dir := real(t, t.TempDir())
			return dir, dir
		}, "not a git repository"},
		{"no commit", func(t *testing.T) (string, string) {
			w := newWork(t)
			return w.dir, w.dir
		}, "no commit"},
		{"bare", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.git("init", "-q", "--bare", "bare.git")
			return w.dir + "/bare.git", w.dir
		}, "bare"},
		{"shallow", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "1\n")
			w.commit("Ada", "ada@example.org", 1000)
			w.write("f", "2\n")
			w.commit("Ada", "ada@example.org", 2000)
			dir := real(t, t.TempDir())
			w.git("clone", "-q", "--depth=1", "file://"+w.dir, dir+"/clone")
			return dir + "/clone", dir
		}, "shallow"},
		{".git file that leads out", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "secret\n")
			w.commit("Ada", "ada@example.org", 1000)
			dir := real(t, t.TempDir())
			if err := os.WriteFile(dir+"/.git", []byte("gitdir: "+w.dir+"/.git\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir, dir
		}, "outside the workspace"},
		{"linked worktree", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "x\n")
			w.commit("Ada", "ada@example.org", 1000)
			dir := real(t, t.TempDir()) + "/linked"
			w.git("worktree", "add", "-q", dir)
			return dir, dir
		}, "this worktree or submodule"},
		{"linked worktree in a box, which has the workspace only", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "x\n")
			w.commit("Ada", "ada@example.org", 1000)
			dir := real(t, t.TempDir()) + "/linked"
			w.git("worktree", "add", "-q", dir)
			if err := os.RemoveAll(w.dir + "/.git"); err != nil {
				t.Fatal(err)
			}
			return dir, dir
		}, "this worktree or submodule"},
		{"submodule in a box", func(t *testing.T) (string, string) {
			dir := real(t, t.TempDir())
			if err := os.WriteFile(dir+"/.git", []byte("gitdir: ../.git/modules/inner\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir, dir
		}, "this worktree or submodule"},
		{"commondir that leads out", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "secret\n")
			w.commit("Ada", "ada@example.org", 1000)
			other := newWork(t)
			other.write(".git/commondir", w.dir+"/.git\n")
			return other.dir, other.dir
		}, "outside the workspace"},
		{"linked .git", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "secret\n")
			w.commit("Ada", "ada@example.org", 1000)
			dir := real(t, t.TempDir())
			if err := os.Symlink(w.dir+"/.git", dir+"/.git"); err != nil {
				t.Fatal(err)
			}
			return dir, dir
		}, "outside the workspace"},
		{"core.worktree that leads out", func(t *testing.T) (string, string) {
			w := newWork(t)
			w.write("f", "x\n")
			w.commit("Ada", "ada@example.org", 1000)
			w.git("config", "core.worktree", real(t, t.TempDir()))
			return w.dir, w.dir
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := c.make(t)
			h, err := Measure(t.Context(), runGit, dir, root, unixTime(0))
			if err != nil || len(h.Files) != 0 || len(h.Gaps) != 1 || !strings.Contains(h.Gaps[0].Reason, c.reason) || h.Gaps[0].Field != "churn" {
				t.Errorf("got %+v, %v, want one gap that says %q", h, err, c.reason)
			}
			changes, gaps, err := Changed(t.Context(), runGit, dir, root, "HEAD")
			if err != nil || len(changes) != 0 || len(gaps) != 1 || !strings.Contains(gaps[0].Reason, c.reason) || gaps[0].Field != "base" {
				t.Errorf("got %+v, %v, %v, want one gap that says %q", changes, gaps, err, c.reason)
			}
		})
	}
}

func real(t *testing.T, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSubmodulesAreNamed(t *testing.T) {
	w := newWork(t)
	w.write("f", "1\n")
	w.write("sub/f", "1\n")
	w.git("-C", "sub", "init", "-q")
	w.git("-C", "sub", "add", ".")
	w.git("-C", "sub", "commit", "-qm", "inner")
	w.commit("Ada", "ada@example.org", 1000)
	h := w.measure(0)
	if len(h.Gaps) != 1 || h.Gaps[0].Path != "sub" || len(h.Files) != 1 {
		t.Errorf("got %+v, want f, and a gap for sub", h)
	}
}

func TestWithoutGit(t *testing.T) {
	started := false
	run := func(context.Context, []string, []string, io.Reader) (io.Reader, error) {
		started = true
		return nil, &exec.Error{Name: "git", Err: exec.ErrNotFound}
	}
	// If no directory up to root belongs to git, git is not started.
	plain := t.TempDir()
	below := filepath.Join(plain, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := Measure(t.Context(), run, below, plain, unixTime(0))
	if want := []code.Gap{{Field: "churn", Reason: "not a git repository"}}; err != nil || !slices.Equal(h.Gaps, want) || started {
		t.Errorf("got %+v, %v, want %v without a start of git", h, err, want)
	}
	for _, name := range []string{"a/.git", ".git", "a/b/HEAD"} {
		started = false
		at := filepath.Join(plain, name)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Measure(t.Context(), run, below, plain, unixTime(0))
		if want := []code.Gap{{Field: "churn", Reason: "the program git is not installed"}}; err != nil || !slices.Equal(h.Gaps, want) || !started {
			t.Errorf("%s: got %+v, %v, want %v", name, h, err, want)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, run, plain, plain, unixTime(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	if _, _, err := Changed(ctx, run, plain, plain, "main"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

// A program that fails late is a gap, and no part of the history is returned as if it were
// the whole.
func TestFailureWhileReading(t *testing.T) {
	w := newWork(t)
	w.write("f", "1\n")
	w.commit("Ada", "ada@example.org", 1000)
	run := func(ctx context.Context, args, env []string, stdin io.Reader) (io.Reader, error) {
		out, err := runGit(ctx, args, env, stdin)
		if slices.Contains(args, "log") {
			out = io.MultiReader(out, failing{})
		}
		return out, err
	}
	h, err := Measure(t.Context(), run, w.dir, w.dir, unixTime(0))
	if err != nil || len(h.Files) != 0 || h.Commits != 0 || len(h.Gaps) != 1 || !strings.Contains(h.Gaps[0].Reason, "killed by signal") {
		t.Errorf("got %+v, %v, want a gap alone", h, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("exit status 9: killed\nby signal") }

// TestMeasureAgreesWithAwk compares the history of this project, or of a small repository
// if the project has none, with numbers that git and awk compute.
func TestMeasureAgreesWithAwk(t *testing.T) {
	w := hard(t)
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("awk is not installed")
	}
	if top, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output(); err == nil {
		w.dir = real(t, strings.TrimSpace(string(top)))
	}
	// root is / because the repository of a work tree lies elsewhere
	h, err := Measure(t.Context(), runGit, w.dir, "/", unixTime(0))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Gaps) > 0 {
		t.Skip(h.Gaps[0].Reason)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`git -c core.quotePath=false log --numstat --format= -M50% -l1000 | awk -F'\t' 'NF == 3 && $3 !~ /^"/ && $3 !~ / => / {c[$3]++; a[$3] += $1; d[$3] += $2} END {for (p in c) print c[p] "\t" a[p] "\t" d[p] "\t" p}'`)
	cmd.Dir = w.dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	renamed := map[string]bool{} // paths that git log abbreviates in one of its lines
	log, err := runGit(t.Context(), Args(w.dir, "rev-list", "HEAD"), Env("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if log, err = runGit(t.Context(), LogArgs(w.dir), Env("/"), log); err != nil {
		t.Fatal(err)
	}
	err = Parse(log, func(c Commit) bool {
		for _, s := range c.Files {
			renamed[s.Path] = renamed[s.Path] || s.Was != ""
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range h.Files {
		got[f.Path] = fmt.Sprintf("%d\t%d\t%d", f.Commits, f.Added, f.Deleted)
	}
	compared := 0
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if renamed[f[3]] {
			continue
		}
		compared++
		if want := strings.Join(f[:3], "\t"); got[f[3]] != want {
			t.Errorf("%s: got %q, want %q", f[3], got[f[3]], want)
		}
	}
	t.Logf("%d commits, %d files, %d of them compared", h.Commits, len(h.Files), compared)
	if compared == 0 {
		t.Error("nothing was compared")
	}
}
