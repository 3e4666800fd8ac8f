package testenv

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// GoSource returns the directory of the source of Go's standard library, as the go command
// on PATH reports it. runtime.GOROOT is empty in a test that was built with -trimpath.
func GoSource(tb testing.TB) string {
	tb.Helper()
	Need(tb, Go)
	root, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal("go env GOROOT: ", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src")
}

// GoFiles copies 200 files of Go's standard library into the directory to, below their own
// paths, and returns these paths, sorted. The files are every n-th of the sorted files of
// ten trees, without those that end in _test.go.
func GoFiles(t testing.TB, to string) (names []string) {
	t.Helper()
	src := GoSource(t)
	var all []string
	for tree := range strings.FieldsSeq("net go encoding crypto database text html image archive compress") {
		err := filepath.WalkDir(filepath.Join(src, tree), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all = append(all, strings.TrimPrefix(path, src+"/"))
			}
			return err
		})
		if err != nil {
			t.Fatalf("read the source of Go's standard library: %v", err)
		}
	}
	slices.Sort(all)
	const n = 200
	for i := range n {
		name := all[i*len(all)/n]
		text, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}
