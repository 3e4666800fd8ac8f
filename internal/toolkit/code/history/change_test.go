package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (w *work) changed(base string) []Change {
	w.Helper()
	all, gaps, err := Changed(w.Context(), runGit, w.dir, w.dir, base)
	if err != nil || len(gaps) != 0 {
		w.Fatal(gaps, err)
	}
	return all
}

func TestChanged(t *testing.T) {
	w := newWork(t)
	w.write("mod.txt", "1\n2\n3\n4\n5\n6\n7\n8\n")
	w.write("gone.txt", "x\n")
	w.write("old name.txt", strings.Repeat("same\n", 20))
	w.write("same.txt", "same\n")
	w.write("bin", "x\x00y")
	w.write("odd\t\"\nä/dashes", "-- a/x\n++ b/y\n@@ -1 +1 @@\n")
	w.write("noend", "a")
	w.write(".gitignore", "ignored\n")
	w.commit("Ada", "ada@example.org", 1000)
	w.write("mod.txt", "1\nTWO\nAND A HALF\n3\n4\n6\n7\n8\nnine\n")
	w.git("mv", "old name.txt", "new name.txt")
	w.git("rm", "-q", "gone.txt")
	w.write("committed.txt", "a\nb\n")
	w.commit("Ada", "ada@example.org", 2000)
	w.write("bin", "x\x00z")
	w.write("odd\t\"\nä/dashes", "-- a/x\n++ b/z\n@@ -1 +1 @@\n")
	w.write("noend", "b")
	w.write("staged.txt", "a\n")
	w.git("add", "staged.txt")
	w.write("sub/un tracked", "a\n")
	w.write("ignored", "a\n")

	want := []Change{
		{Path: "bin", Binary: true},
		{Path: "committed.txt", Added: 2, New: true, Ranges: []Range{{1, 2}}},
		{Path: "gone.txt", Deleted: 1, Gone: true},
		{Path: "mod.txt", Added: 3, Deleted: 2, Ranges: []Range{{2, 3}, {6, 5}, {9, 9}}},
		{Path: "new name.txt", Was: "old name.txt"},
		{Path: "noend", Added: 1, Deleted: 1, Ranges: []Range{{1, 1}}},
		{Path: "odd\t\"\nä/dashes", Added: 1, Deleted: 1, Ranges: []Range{{2, 2}}},
		{Path: "staged.txt", Added: 1, New: true, Ranges: []Range{{1, 1}}},
		{Path: "sub/un tracked", New: true},
	}
	if diff := cmp.Diff(want, w.changed("HEAD~1")); diff != "" {
		t.Error(diff)
	}

	// The configuration of the repository does not change the result.
	for _, c := range []string{
		"diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.context=5", "diff.interHunkContext=9", "diff.renames=false",
		"color.ui=always", "diff.relative=false", "core.quotePath=false", "diff.orderFile=/nonexistent", "diff.algorithm=patience",
		"diff.ignoreSubmodules=all", "diff.wordRegex=.", "diff.statGraphWidth=1", "core.attributesFile=/dev/zero", "status.showUntrackedFiles=no",
	} {
		key, value, _ := strings.Cut(c, "=")
		w.git("config", key, value)
	}
	if diff := cmp.Diff(want, w.changed("HEAD~1")); diff != "" {
		t.Error(diff)
	}
}

// If the base has newer commits, the changes are counted from the commit where the two
// histories parted.
func TestChangedSinceTheFork(t *testing.T) {
	w := newWork(t)
	w.write("a", "1\n")
	w.write("b", "1\n")
	w.commit("Ada", "ada@example.org", 1000)
	w.git("checkout", "-q", "-b", "topic")
	w.write("a", "2\n")
	w.commit("Ada", "ada@example.org", 2000)
	w.git("checkout", "-q", "main")
	w.write("b", "2\n")
	w.commit("Bob", "bob@example.org", 3000)
	w.git("checkout", "-q", "topic")
	want := []Change{{Path: "a", Added: 1, Deleted: 1, Ranges: []Range{{1, 1}}}}
	if diff := cmp.Diff(want, w.changed("main")); diff != "" {
		t.Error(diff)
	}
}

func TestBadBases(t *testing.T) {
	w := newWork(t)
	w.write("a", "1\n")
	w.commit("Ada", "ada@example.org", 1000)
	blob := w.git("rev-parse", "HEAD:a")
	w.git("checkout", "-q", "--orphan", "other")
	w.commit("Ada", "ada@example.org", 2000)
	mark := filepath.Join(t.TempDir(), "mark")
	for _, base := range []string{
		"", "-p", "--output=" + mark, "--ext-diff", "main\n", "main\x00", "\x1b[2J", "\xff", strings.Repeat("a", 251), "nothing", blob,
		"main..HEAD", "main...HEAD", "main HEAD", "^main", "HEAD:a", "--", "main",
	} {
		_, _, err := Changed(t.Context(), runGit, w.dir, w.dir, base)
		if _, bad := errors.AsType[*BadBase](err); !bad {
			t.Errorf("base %q: got %v, want a BadBase", base, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a base was read as an option")
	}
	if _, _, err := Changed(t.Context(), runGit, w.dir, w.dir, "HEAD"); err != nil {
		t.Error(err)
	}
}

func TestTouches(t *testing.T) {
	c := Change{Ranges: []Range{{5, 7}, {11, 10}}}
	for _, x := range []struct {
		first, last int
		want        bool
	}{{1, 4, false}, {1, 5, true}, {6, 6, true}, {7, 9, true}, {8, 10, false}, {8, 11, true}, {11, 12, false}, {10, 11, true}} {
		if got := c.Touches(x.first, x.last); got != x.want {
			t.Errorf("Touches(%d, %d) = %v, want %v", x.first, x.last, got, x.want)
		}
	}
	if !(Change{New: true}).Touches(3, 3) {
		t.Error("a new file has a line that is not new")
	}
}
