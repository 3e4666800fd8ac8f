package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// GoFiles copies 200 files of Go's standard library below a directory, of those without
// tests in ten trees and as evenly as it can, and returns their names, sorted.
func GoFiles(t testing.TB, to string) (names []string) {
	t.Helper()
	src := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the toolchain that builds this test
	var all []string
	for tree := range strings.FieldsSeq("net go encoding crypto database text html image archive compress") {
		err := filepath.WalkDir(filepath.Join(src, tree), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all = append(all, strings.TrimPrefix(path, src+"/"))
			}
			return err
		})
		if err != nil {
			t.Skipf("no source of Go's standard library: %v", err)
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
