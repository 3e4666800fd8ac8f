package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func apply(t testing.TB, s *Store, opts Options) *Report {
	t.Helper()
	if opts.Guard == nil {
		opts.Protected = true
	}
	r, err := s.Apply(t.Context(), "set", opts)
	must(t, err)
	return r
}

// An apply that is interrupted says that a part may be done, and what to do.
func TestApplyThatIsInterrupted(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{}))
	put(t, top(t, s, "set")+"/file", "x")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Apply(ctx, "set", Options{Guard: func(string, Protect, []Change) (func(*Change) string, error) {
		cancel()
		return func(*Change) string { return "" }, nil
	}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "apply again to do the rest") {
		t.Errorf("got %v", err)
	}
	if r := apply(t, s, Options{}); !r.Resumed || len(r.Applied) != 1 {
		t.Errorf("got %+v, want the rest", r)
	}
}

// The record of what was applied never becomes too long to be read, and a line that a crash
// has cut does not swallow the next one.
func TestTheRecordOfAnApplyIsBounded(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{}))
	put(t, base+"/file", "x")
	h, err := s.hold("set")
	must(t, err)
	defer h.close()
	record := func(before string, size int64) (map[string]int64, int64) {
		t.Helper()
		name := filepath.Join(s.path, setsDir, "set", appliedName)
		must(t, os.WriteFile(name, []byte(before), 0o600))
		if size > 0 {
			must(t, os.Truncate(name, size))
		}
		dir, err := os.Open(base)
		must(t, err)
		defer dir.Close()
		m, err := openMarks(h.dir)
		must(t, err)
		m.add(dir, "file")
		m.close()
		marks, err := h.readMarks()
		must(t, err)
		info, err := os.Stat(name)
		must(t, err)
		return marks, info.Size()
	}
	if _, size := record("", maxMarks-5); size > maxMarks {
		t.Errorf("the record has %d bytes, want at most %d", size, maxMarks)
	}
	if marks, _ := record("Zm9v 12", 0); marks["file"] == 0 {
		t.Errorf("after a line that was cut: got %v, want the file", marks)
	}
}

func TestApplyMakesTheBaseTheSet(t *testing.T) {
	s, base, _ := scripted(t)
	before := tree(t, base)
	r := apply(t, s, Options{DryRun: true})
	if d := cmp.Diff(before, tree(t, base)); d != "" || len(r.Applied) == 0 {
		t.Fatalf("a dry run of %d changes changed:\n%s", len(r.Applied), d)
	}
	r = apply(t, s, Options{})
	if len(r.Skipped) != 1 || r.Skipped[0].Path != "fifo" || r.Emptied {
		t.Errorf("got %+v, %t; want the fifo to be skipped and the set to stay for it", r.Skipped, r.Emptied)
	}
	want := map[string]string{
		".": "drwxr-xr-x", "same": "-rw-r--r-- same\n", "text": "-rw-r--r-- one\n2\nthree\n", "mode": "-rwxr-xr-x x", "touched": "-rw-r--r-- x",
		"attr": "-rw-r--r-- x", "dir": "drwxr-xr-x", "dir/b": "-rw-r--r-- b", "dir/c": "-rw-r--r-- c", "hidden": "drwxr-xr-x", "hidden/b": "-rw-r--r-- B", "hidden/sub": "drwxr-xr-x", "hidden/sub/b": "-rw-r--r-- B",
		"todir": "drwxr-xr-x", "todir/in": "-rw-r--r-- x", "tofile": "-rw-r--r-- x", "tolink": "Lrwxrwxrwx /etc", "link": "Lrwxrwxrwx text",
		"samelink": "Lrwxrwxrwx same", "new": "drwxr-xr-x", "new/one\nline": "-rw-r--r-- x", "new/b\xffd": "-rw-r--r-- x", "new/two": "-rw-r--r-- x",
		"big": "-rw-r--r-- " + strings.Repeat("x", 99_999) + "y", "sub": "drwxr-xr-x", "sub/keep": "-rw-r--r-- k",
		"untouched": "drwxr-xr-x", "untouched/deep": "drwxr-xr-x", "untouched/deep/file": "-rw-r--r-- x",
	}
	got := tree(t, base)
	if sparse := got["sparse"]; !strings.HasPrefix(sparse, "-rw------- head\x00") || len(sparse) != 64<<20+len("-rw------- ") {
		t.Errorf("sparse: got %d bytes", len(sparse))
	}
	delete(got, "sparse")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	var st unix.Stat_t
	must(t, unix.Stat(base+"/sparse", &st))
	if st.Blocks > 1024 {
		t.Errorf("the sparse file takes %d blocks", st.Blocks)
	}
	must(t, unix.Stat(base+"/touched", &st))
	if st.Mtim.Sec != 1 {
		t.Errorf("touched has the time %d", st.Mtim.Sec)
	}
	buf := make([]byte, 8)
	if n, err := unix.Getxattr(base+"/attr", "user.note", buf); err != nil || string(buf[:n]) != "y" {
		t.Errorf("attribute: %q, %v", buf[:max(n, 0)], err)
	}
	// A change that was applied is not listed any more, and Apply leaves no files of its
	// own.
	if d := cmp.Diff([]string{"added fifo fifo: a fifo is never applied"}, diff(t, s, "set")); d != "" {
		t.Errorf("after apply: want (-), got (+):\n%s", d)
	}
	must(t, os.Remove(top(t, s, "set")+"/fifo"))
	put(t, top(t, s, "set")+"/text", "again\n") // changes a file that was just applied, which is not a conflict
	if r = apply(t, s, Options{}); !r.Emptied || len(r.Applied) != 1 {
		t.Errorf("got %+v", r)
	}
	if left := diff(t, s, "set"); len(left) > 0 {
		t.Errorf("the emptied set has %q", left)
	}
}

// TestApplyFollowsNoLink checks that Apply does not follow a link, whether the link is in
// the set or replaced a directory of the base after the set was made.
func TestApplyFollowsNoLink(t *testing.T) {
	s, base := store(t)
	outside := t.TempDir()
	put(t, outside+"/file", "outside\n")
	put(t, base+"/dir/file", "x")
	put(t, base+"/dir/sub/file", "x")
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	put(t, up+"/dir/file", "evil\n")
	put(t, up+"/dir/new", "evil\n")
	whiteout(t, up+"/dir/sub/file")
	must(t, os.Symlink(outside, up+"/planted")) // link made by the agent, to be applied as a link
	// The directory of the base becomes a link to a directory with files of the same names.
	must(t, os.Rename(base+"/dir", base+"/away"))
	must(t, os.Symlink(outside, base+"/dir"))
	must(t, os.Mkdir(outside+"/sub", 0o755))
	put(t, outside+"/sub/file", "outside\n")
	want := tree(t, outside)
	r, err := s.Apply(t.Context(), "set", Options{Protected: true})
	if !errors.Is(err, ErrConflict) || len(r.Conflicts) != 1 || r.Conflicts[0].Path != "dir" {
		t.Errorf("got %+v, %v; want a conflict of dir", r, err)
	}
	r = apply(t, s, Options{SkipConflicts: true})
	if len(r.Applied) != 1 || r.Applied[0].Path != "planted" {
		t.Errorf("applied %+v; want the link", listed(r.Applied))
	}
	if d := cmp.Diff(want, tree(t, outside)); d != "" {
		t.Errorf("outside before (-), after (+):\n%s", d)
	}
	if target, err := os.Readlink(base + "/planted"); err != nil || target != outside {
		t.Errorf("the link: %q, %v", target, err)
	}
	// A file beneath a planted link in a later layer replaces the link.
	must(t, os.Remove(top(t, s, "set")+"/planted"))
	put(t, top(t, s, "set")+"/planted/file", "evil\n")
	apply(t, s, Options{Paths: []string{"planted"}})
	if d := cmp.Diff(want, tree(t, outside)); d != "" {
		t.Errorf("outside before (-), after (+):\n%s", d)
	}
	if text, err := os.ReadFile(base + "/planted/file"); err != nil || string(text) != "evil\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestConflicts(t *testing.T) {
	s, base := store(t)
	for _, name := range []string{"mine", "both", "theirs", "removed", "kept", "dir/a", "dir/b"} {
		put(t, base+"/"+name, "old\n")
	}
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	put(t, up+"/mine", "agent\n")
	put(t, up+"/both", "agent\n")
	put(t, up+"/new", "agent\n")
	whiteout(t, up+"/removed")
	whiteout(t, up+"/dir")
	put(t, base+"/both", "person\n")
	put(t, base+"/theirs", "person\n")
	put(t, base+"/new", "person\n")
	put(t, base+"/removed", "person\n")
	put(t, base+"/dir/b", "person\n")
	before := tree(t, base)
	r, err := s.Apply(t.Context(), "set", Options{Protected: true})
	var paths []string
	for _, c := range r.Conflicts {
		paths = append(paths, c.Path)
	}
	if d := cmp.Diff([]string{"both", "dir/b", "new", "removed"}, paths); d != "" || !errors.Is(err, ErrConflict) {
		t.Errorf("%v: want (-), got (+):\n%s", err, d)
	}
	if d := cmp.Diff(before, tree(t, base)); d != "" || len(r.Applied) > 0 {
		t.Errorf("applied %v:\n%s", r.Applied, d)
	}
	r = apply(t, s, Options{SkipConflicts: true})
	if d := cmp.Diff([]string{"deleted file dir/a", "modified file mine"}, listed(r.Applied)); d != "" || r.Emptied {
		t.Errorf("%t: want (-), got (+):\n%s", r.Emptied, d)
	}
	want := before
	want["mine"] = "-rw-r--r-- agent\n"
	delete(want, "dir/a")
	if d := cmp.Diff(want, tree(t, base)); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
	// If a person gives the file the same content as the set, there is no conflict any
	// more.
	put(t, base+"/both", "agent\n")
	for _, line := range diff(t, s, "set") {
		if strings.Contains(line, "both") && !strings.HasPrefix(line, "times ") {
			t.Errorf("got %q", line)
		}
	}
}

func TestProtectedPathsStay(t *testing.T) {
	s, base := store(t)
	must(t, s.Create("set", base, Protect{Also: []string{"secret"}}))
	up := top(t, s, "set")
	put(t, up+"/.vscode/tasks.json", "evil")
	put(t, up+"/secret", "evil")
	put(t, up+"/fine", "x")
	guard := func(dir string, p Protect, _ []Change) (func(*Change) string, error) {
		if dir != base {
			t.Errorf("asked for %s", dir)
		}
		return func(c *Change) string {
			if strings.HasPrefix(c.Path, ".vscode/") || c.Path == p.Also[0] {
				return "reason"
			}
			return ""
		}, nil
	}
	r := apply(t, s, Options{Guard: guard})
	if d := cmp.Diff([]Skip{{".vscode/tasks.json", "", "it is protected: reason"}, {"secret", "", "it is protected: reason"}}, r.Skipped); d != "" || r.Emptied {
		t.Errorf("%t: want (-), got (+):\n%s", r.Emptied, d)
	}
	if _, err := s.Apply(t.Context(), "set", Options{}); err == nil {
		t.Error("apply without a guard worked")
	}
	if r = apply(t, s, Options{}); len(r.Skipped) > 0 || !r.Emptied {
		t.Errorf("got %+v", r)
	}
}

func TestApplySomePaths(t *testing.T) {
	s, base := store(t)
	put(t, base+"/old/a", "x")
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	for _, name := range []string{"a/b/one.go", "a/b/two.go", "a/c/three.txt", "four.go"} {
		put(t, up+"/"+name, "x")
	}
	whiteout(t, up+"/old")
	for _, c := range []struct {
		paths, want []string
	}{
		{[]string{"a/b/one.go"}, []string{"added directory a", "added directory a/b", "added file a/b/one.go"}},
		{[]string{"**/*.go"}, []string{"added file a/b/two.go", "added file four.go"}},
		{[]string{"./a/", "old"}, []string{"added directory a/c", "added file a/c/three.txt", "deleted directory old", "deleted file old/a"}},
	} {
		r := apply(t, s, Options{Paths: c.paths})
		if d := cmp.Diff(c.want, listed(r.Applied)); d != "" {
			t.Errorf("%q: want (-), got (+):\n%s", c.paths, d)
		}
	}
	if _, err := s.Apply(t.Context(), "set", Options{Protected: true, Paths: []string{"nothing"}}); err == nil {
		t.Error("a path that was not changed was taken")
	}
}

// wide returns a base and a set that changes many files of it.
func wide(t testing.TB) (s *Store, base string) {
	t.Helper()
	s, base = store(t)
	for i := range 60 {
		put(t, filepath.Join(base, name(i)), strings.Repeat("old\n", 2000))
	}
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	for i := range 60 {
		switch i % 4 {
		case 0, 1:
			put(t, filepath.Join(up, name(i)), strings.Repeat("new\n", 2000))
		case 2:
			whiteout(t, filepath.Join(up, name(i)))
		case 3:
			put(t, filepath.Join(up, name(i), "file"), "new\n")
		}
	}
	return s, base
}

func name(i int) string { return "dir" + string(rune('a'+i%5)) + "/file" + string(rune('A'+i)) }

// TestApplySurvivesKill checks that an Apply that is killed leaves each file either as it
// was or as it is to be, and that the next Apply does the rest.
func TestApplySurvivesKill(t *testing.T) {
	kills := 0
	// marks is the number of files that were applied before the kill: every second number,
	// to save time.
	for marks := 1; marks < 46; marks += 2 {
		if testing.Short() && marks%5 > 0 {
			continue
		}
		s, base := wide(t)
		old := tree(t, base)
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+s.path)
		must(t, c.Start())
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		for alive := true; alive && applied(s) < marks; {
			select {
			case err := <-done:
				done <- err
				alive = false
			default:
			}
		}
		_ = c.Process.Kill()
		if err := <-done; err == nil {
			continue // it was done before the kill
		}
		kills++
		for path, got := range tree(t, base) {
			was := old[path]
			switch {
			case strings.Contains(path, "/"+scratchPrefix), got == was, strings.HasPrefix(got, "d"):
			case got == strings.ReplaceAll(was, "old\n", "new\n") && was != "":
			case strings.HasSuffix(path, "/file") && got == "-rw-r--r-- new\n":
			default:
				t.Fatalf("after %d files: %s is neither old nor new: %.40q", marks, path, got)
			}
		}
		if marks%4 == 1 { // sometimes the set is discarded instead
			must(t, s.Discard("set"))
			for path := range tree(t, base) {
				if strings.Contains(path, scratchPrefix) {
					t.Errorf("after %d files: discard left %s", marks, path)
				}
			}
			continue
		}
		r := apply(t, s, Options{})
		if len(r.Conflicts)+len(r.Skipped) > 0 || !r.Emptied {
			t.Fatalf("after %d files: %+v %+v", marks, r.Skipped, r.Conflicts)
		}
		for path, got := range tree(t, base) {
			if strings.Contains(path, scratchPrefix) || strings.Contains(got, "old") {
				t.Fatalf("after %d files: %s is left: %.40q", marks, path, got)
			}
		}
		if n := len(tree(t, base)); n != 1+5+30+15+15 {
			t.Fatalf("after %d files: %d entries", marks, n)
		}
	}
	t.Logf("killed %d times", kills)
	if kills < 3 {
		t.Error("it was hardly ever killed: the test proves nothing")
	}
}

// applied returns the number of files that an Apply has recorded, or -1 if it has not
// begun.
func applied(s *Store) int {
	text, err := os.ReadFile(filepath.Join(s.path, setsDir, "set", appliedName))
	if err != nil {
		return -1
	}
	return strings.Count(string(text), "\n")
}
