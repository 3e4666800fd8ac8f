package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A copy that is made while others write is a complete snapshot: it contains all that was
// on the disk before, and no write without the writes before it.
func TestCopyWhileOthersWrite(t *testing.T) {
	dir := t.TempDir()
	tables := opened(t, dir).Tables(notes)
	if err := put(t.Context(), tables, "before"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		other := opened(t, dir).Tables(notes)
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := put(t.Context(), other, fmt.Sprintf("%d-%d", w, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := 0
	for i := range 5 {
		to := filepath.Join(t.TempDir(), "state")
		if err := os.MkdirAll(filepath.Dir(Path(to)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := opened(t, dir).Copy(t.Context(), Path(to)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(Path(to)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy has the mode %v, %v; want 0600", info.Mode(), err)
		}
		restored := opened(t, to)
		if err := restored.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := count(t, restored.Tables(notes))
		if n < 1 || n < last {
			t.Errorf("copy %d has %d rows, want at least the %d of the one before", i, n, last)
		}
		last = n
	}
	close(stop)
	writers.Wait()
}

func TestCopyOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := opened(t, dir).Copy(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is no database", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat %s: %v, want that it was not made", dir, err)
	}
}

// Copy does not write over an existing file.
func TestCopyIsNew(t *testing.T) {
	dir := t.TempDir()
	if err := put(t.Context(), opened(t, dir).Tables(notes), "a"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, dir).Copy(t.Context(), file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want that the file is there", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	dir := t.TempDir()
	s := New(dir)
	for range 500 {
		if err := put(t.Context(), s.Tables(notes), strings.Repeat("text ", 50)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	copy(text[5*pageBytes:], bytes.Repeat([]byte{0xff}, 4*pageBytes))
	if err := os.WriteFile(Path(dir), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, dir).Check(t.Context()); err == nil {
		t.Error("a damaged database is fine")
	}
}
