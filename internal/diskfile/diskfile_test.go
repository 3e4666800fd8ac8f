package diskfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, text := range []string{"one\n", "two"} {
		if err := Replace(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v; want the mode 0640", info, err)
	}
}

// If Replace fails, the old file stays, and no other file is left.
func TestReplaceThatFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "a"), []byte("text"), 0o600); err == nil {
		t.Error("a file took the place of a directory")
	}
	if err := Replace(filepath.Join(dir, "none", "a"), []byte("text"), 0o600); err == nil {
		t.Error("a file was made in a directory that does not exist")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want the directory a alone", entries, err)
	}
}
