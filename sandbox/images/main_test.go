package images_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox/images"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// store returns an empty store with small bounds, and its directory.
func store(t testing.TB) (*images.Store, string) {
	t.Helper()
	return storeOf(t, images.Config{Dir: filepath.Join(t.TempDir(), "images"), Bytes: 1 << 20, Entries: 200})
}

func storeOf(t testing.TB, cfg images.Config) (*images.Store, string) {
	t.Helper()
	s, err := images.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, cfg.Dir
}

// picture describes everything below a directory, one line for each entry: its type and,
// for a file, its content.
func picture(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		text := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if text, err = os.Readlink(path); err != nil {
				return err
			}
			text = " -> " + text
		case info.Mode().IsRegular():
			f, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if text = fmt.Sprintf(" %q", f); len(f) > 40 {
				text = fmt.Sprintf(" %x", sha256.Sum256(f))
			}
		}
		mode := info.Mode()
		if mode&fs.ModeSymlink != 0 {
			mode = fs.ModeSymlink // the mode bits of links mean nothing
		}
		fmt.Fprintf(&b, "%s %s%s\n", mode, rel, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// file writes a file and returns its path.
func file(t testing.TB, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
