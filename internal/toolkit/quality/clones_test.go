//go:build quality

package quality

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/clone"
	"belljar.dev/internal/toolkit/code/lex"
)

// goroot200 copies 200 files of the Go standard library below a new directory.
func goroot200(tb testing.TB) (dir string, names []string) {
	tb.Helper()
	dir = tb.TempDir()
	return dir, testenv.GoFiles(tb, dir)
}

// copied copies n of the files, spread evenly over all of them, below a new directory.
func copied(tb testing.TB, root string, all []string, n int) (dir string, names []string) {
	tb.Helper()
	dir = tb.TempDir()
	for i := range n {
		name := all[i*len(all)/n]
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			tb.Fatal(err)
		}
		names = append(names, name)
	}
	return dir, names
}

// parse reads files of a directory.
func parse(tb testing.TB, dir string, names []string) []*code.File {
	tb.Helper()
	var files []*code.File
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		f := lex.Parse(filepath.ToSlash(name), code.Detect(name, string(text)), string(text))
		lex.Halstead(f)
		files = append(files, f)
	}
	return files
}

// jscpd returns the path of jscpd, a clone finder from npm. The path is that of the
// compiled program, not of the script for node that npm starts.
func jscpd(tb testing.TB) string {
	tb.Helper()
	modules := npm(tb, "jscpd@5.3.3")
	found, err := filepath.Glob(filepath.Join(modules, "jscpd-*", "bin", "jscpd*"))
	if err != nil || len(found) != 1 {
		tb.Skip("jscpd has no program for this machine:", found, err)
	}
	return found[0]
}

// lines is a set of lines of files.
type lines map[string]map[int]bool

// add adds the lines of a place to the set.
func (l lines) add(path string, first, last int) {
	if l[path] == nil {
		l[path] = make(map[int]bool)
	}
	for line := first; line <= last; line++ {
		l[path][line] = true
	}
}

// count returns the number of lines in the set, and how many of them the other set
// contains, too.
func (l lines) count(other lines) (n, shared int) {
	for path, all := range l {
		for line := range all {
			n++
			if other[path][line] {
				shared++
			}
		}
	}
	return n, shared
}

// leastShared is the least share of the lines of one program that the other program must
// find, too.
const leastShared = 0.95

// belljar and jscpd find nearly the same lines. Pairs of jscpd whose halves overlap do not
// count: they are tables, whose rows are similar.
func TestClonesAgreeWithJscpd(t *testing.T) {
	program := jscpd(t)
	dir, names := goroot200(t)
	files := parse(t, dir, names)
	for _, tt := range []struct {
		kinds []clone.Kind
		args  []string
	}{
		{[]clone.Kind{clone.Exact}, nil},
		{[]clone.Kind{clone.Exact, clone.Renamed}, []string{"--ignore-identifiers", "--ignore-literals"}},
	} {
		out := t.TempDir()
		args := append([]string{"-m", "weak", "-r", "json", "-o", out, "--max-lines", "100000", "--max-size", "10mb", "--no-gitignore", "."}, tt.args...)
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("jscpd: %v\n%s", err, said)
		}
		text, err := os.ReadFile(filepath.Join(out, "jscpd-report.json"))
		if err != nil {
			t.Fatal(err)
		}
		type place struct {
			Name       string
			Start, End int
		}
		var report struct {
			Duplicates []struct{ FirstFile, SecondFile place }
		}
		if err := json.Unmarshal(text, &report); err != nil {
			t.Fatal(err)
		}
		theirs, apart := make(lines), make(lines)
		for _, d := range report.Duplicates {
			a, b := d.FirstFile, d.SecondFile
			theirs.add(a.Name, a.Start, a.End)
			theirs.add(b.Name, b.Start, b.End)
			if a.Name != b.Name || a.End < b.Start || b.End < a.Start {
				apart.add(a.Name, a.Start, a.End)
				apart.add(b.Name, b.Start, b.End)
			}
		}
		res, err := clone.Find(t.Context(), files, clone.Options{Kinds: tt.kinds})
		if err != nil {
			t.Fatal(err)
		}
		ours := make(lines)
		for _, c := range res.Clones {
			for _, p := range c.Places {
				ours.add(p.Path, p.First, p.Last)
			}
		}
		n, known := ours.count(theirs)
		m, found := apart.count(ours)
		t.Logf("%v: %d clones, %d lines, of which jscpd has %d; %d pairs of jscpd, %d lines without overlaps, of which we have %d",
			tt.kinds, len(res.Clones), n, known, len(report.Duplicates), m, found)
		if float64(known) < leastShared*float64(n) || float64(found) < leastShared*float64(m) {
			t.Errorf("%v: jscpd has %d of our %d lines, and we have %d of its %d: want a share of %g", tt.kinds, known, n, found, m, leastShared)
		}
	}
}
