package workspace

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
)

func TestUnified(t *testing.T) {
	s, _, _ := scripted(t)
	var out strings.Builder
	must(t, s.Unified(t.Context(), &out, "set", nil))
	text, digest, ok := strings.Cut(out.String(), "# digest ") // the digest depends on the times of the files
	if out.Reset(); !ok || len(digest) != 65 {
		t.Errorf("the diff ends with the digest %q", digest)
	}
	out.WriteString(text)
	const golden = "testdata/scripted.diff"
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile(golden, []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out.String(), "\n")); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
}

// TestGitTakesTheDiff checks that git can apply the diff, and that the result is the same
// as that of Apply.
func TestGitTakesTheDiff(t *testing.T) {
	testenv.Need(t, testenv.Git)
	s, base := store(t)
	random := rand.New(rand.NewPCG(1, 2))
	text := func(lines int) string {
		var b strings.Builder
		for range lines {
			b.WriteString([]string{"a\n", "b\n", "c\n", "dd\n", "\n", "eee\n"}[random.IntN(6)])
		}
		if random.IntN(3) == 0 {
			b.WriteString("no end")
		}
		return b.String()
	}
	for i := range 40 {
		put(t, filepath.Join(base, name(i)), text(random.IntN(60)))
	}
	must(t, os.Symlink("old", base+"/link"))
	must(t, s.Create("set", base, Protect{}))
	up := top(t, s, "set")
	must(t, os.Symlink("new", up+"/link"))
	for i := range 60 {
		switch random.IntN(4) {
		case 0:
			if i < 40 {
				whiteout(t, filepath.Join(up, name(i)))
			}
		case 1:
			old, _ := os.ReadFile(filepath.Join(base, name(i)))
			lines := strings.SplitAfter(string(old), "\n")
			at := random.IntN(len(lines))
			put(t, filepath.Join(up, name(i)), strings.Join(lines[:at], "")+text(random.IntN(5))+strings.Join(lines[min(at+random.IntN(9), len(lines)):], ""))
		case 2:
			put(t, filepath.Join(up, name(i)+" with \t tab"), text(random.IntN(30)))
		}
	}
	copied := t.TempDir()
	must(t, os.CopyFS(copied, os.DirFS(base)))
	var out bytes.Buffer
	must(t, s.Unified(t.Context(), &out, "set", nil))
	c := exec.CommandContext(t.Context(), "git", "apply", "-p1", "-")
	c.Dir, c.Stdin = copied, &out
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + copied, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(copied)}
	shown := out.String()
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s\n%s", err, text, shown)
	}
	apply(t, s, Options{})
	if d := cmp.Diff(files(t, base), files(t, copied)); d != "" {
		t.Errorf("apply (-), git apply (+):\n%s", d)
	}
}

// files returns the files of a tree without directories, since git knows no empty ones.
func files(t testing.TB, dir string) map[string]string {
	all := tree(t, dir)
	for path, text := range all {
		if strings.HasPrefix(text, "d") {
			delete(all, path)
		}
	}
	return all
}

func FuzzCompareLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nd")
	f.Add("", "x")
	f.Add("x\nw\ny\n", "y\nz\nx\n")
	f.Add(strings.Repeat("a\n", 900), strings.Repeat("b\n", 900)) // needs more than maxEdits
	f.Fuzz(func(t *testing.T, old, now string) {
		a, b := lines([]byte(old)), lines([]byte(now))
		if len(a)+len(b) > 4000 {
			t.Skip()
		}
		var was, is bytes.Buffer
		x, y := 0, 0
		for _, e := range compareLines(a, b) {
			for range e.n {
				if e.op != '+' {
					was.Write(a[x])
					x++
				}
				if e.op == '+' {
					is.Write(b[y])
				}
				if e.op == ' ' {
					is.Write(a[x-1])
				}
				if e.op != '-' {
					y++
				}
			}
		}
		if was.String() != old || is.String() != now {
			t.Errorf("%q to %q: the edits make %q of %q", old, now, is.String(), was.String())
		}
		var out strings.Builder
		hunks(&out, []byte(old), []byte(now))
	})
}
