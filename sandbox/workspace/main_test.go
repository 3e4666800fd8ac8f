package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// childEnv names the directory of a store. If it is set, the test program applies the set
// "set" of that store and ends.
const childEnv = "BELLJAR_TEST_APPLY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		s, err := Open(dir)
		if err == nil {
			_, err = s.Apply(context.Background(), "set", Options{Protected: true})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(0)
	}
	testenv.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store returns a store and an empty base directory.
func store(t testing.TB) (s *Store, base string) {
	t.Helper()
	dir := t.TempDir()
	base = filepath.Join(dir, "base")
	must(t, os.Mkdir(base, 0o755))
	s, err := Open(filepath.Join(dir, "store"))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s, base
}

// put writes a file, and makes the directories that it needs.
func put(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// top returns the directory to which the box of a set would write.
func top(t testing.TB, s *Store, id string) string {
	t.Helper()
	h, err := s.hold(id)
	must(t, err)
	defer h.close()
	return filepath.Join(s.path, layersDir, h.meta.Top, upperDir)
}

// whiteout marks a path of the base as deleted, in the way of overlayfs.
func whiteout(t testing.TB, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, unix.Mknod(path, unix.S_IFCHR, 0))
}

// opaque makes a directory that hides the directory below it.
func opaque(t testing.TB, path string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
	must(t, unix.Setxattr(path, attrOpaque, []byte("y"), 0))
}

// listed returns changes as "kind type path", with all that is special about each of them.
func listed(all []Change) []string {
	var text []string
	for _, c := range all {
		line := fmt.Sprintf("%s %s %s", c.Kind, c.Type, quotePath(c.Path))
		if c.WasType != "" {
			line += " was " + c.WasType
		}
		if c.Kind == Mode {
			line += " " + c.WasMode + " to " + c.Mode
		}
		if c.Target != "" {
			line += " -> " + c.Target
		}
		if c.LinkTo != "" {
			line += " = " + c.LinkTo
		}
		if c.Conflict != "" {
			line += " CONFLICT"
		}
		if c.Problem != "" {
			line += ": " + c.Problem
		}
		text = append(text, line)
	}
	return text
}

func diff(t testing.TB, s *Store, id string) []string {
	t.Helper()
	d, err := s.Changes(t.Context(), id)
	must(t, err)
	return listed(d.Changes)
}

// tree returns the files of a directory by path, each with its type, mode and content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(content)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		all[rel] = text
		return nil
	}))
	return all
}
