package keyfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// All callers that make a key at the same time get the same key, and no other file is left.
func TestMake(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "some.key")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before: %v", err)
	}
	keys := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := Make(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	all.Wait()
	for _, key := range keys {
		if len(key) != Size || !bytes.Equal(key, keys[0]) {
			t.Errorf("got the key %x, want the %d bytes of the others", key, Size)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want the key alone", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
}

// A file that cannot be a key is not used, and not replaced.
func TestUnfit(t *testing.T) {
	key := bytes.Repeat([]byte{7}, Size)
	for what, put := range map[string]func(path string) error{
		"others can read it": func(path string) error { return os.WriteFile(path, key, 0o644) },
		"too short":          func(path string) error { return os.WriteFile(path, key[1:], 0o600) },
		"too long":           func(path string) error { return os.WriteFile(path, append(key, 0), 0o600) },
		"empty":              func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"a link": func(path string) error {
			return errors.Join(os.WriteFile(path+".real", key, 0o600), os.Symlink(path+".real", path))
		},
	} {
		path := filepath.Join(t.TempDir(), "some.key")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Make(path); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: got %x, %v", what, got, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the file was replaced, %v", what, err)
		}
	}
}

// Create makes a key that Read accepts, and replaces no file.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	key, err := Read(path)
	if err != nil || len(key) != Size || bytes.Equal(key, make([]byte, Size)) {
		t.Fatalf("%x, %v", key, err)
	}
	if err := Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("once more: %v", err)
	}
	if again, err := Read(path); err != nil || !bytes.Equal(again, key) {
		t.Errorf("%x, %v, want %x", again, err, key)
	}
}
