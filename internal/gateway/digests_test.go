package gateway

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The digest of a program is remembered until the program changes, whatever its size and
// its modification time are. It is not remembered while the program could still change
// without a new time.
func TestDigestsOfPrograms(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	at := time.Now().Add(-time.Hour)
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	check := func(d *digests, remembered int) {
		t.Helper()
		got, err := d.file(name)
		want, _ := digestFile(name, "")
		if err != nil || got != want || want == "" {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if len(d.of) != remembered {
			t.Errorf("%d digests are remembered, want %d", len(d.of), remembered)
		}
	}
	put("one")
	fresh := new(digests)
	check(fresh, 0)
	kept := &digests{settled: 1}
	check(kept, 1)
	for s := range kept.of {
		kept.of[s] = "remembered"
	}
	if got, err := kept.file(name); got != "remembered" || err != nil {
		t.Errorf("the file was read again: %q, %v", got, err)
	}
	// The clock of the file system may stand still for some milliseconds.
	before := changed(t, name)
	for put("two"); changed(t, name) == before; {
		put("two")
	}
	check(kept, 2)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if got, err := kept.file(name); got != "" || err != nil {
		t.Errorf("a file that is gone has the digest %q, %v", got, err)
	}
	for i := range 2 * digestsMost {
		kept.of[fileState{inode: uint64(i)}] = "x"
		if i == digestsMost {
			put("three")
			check(kept, 1)
		}
	}
}

// changed returns the state of a file, with the time of its change by the kernel.
func changed(t *testing.T, name string) fileState {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, _ := stateOf(f)
	return fileState{changed: s.changed}
}

// While a name changes between two files, each file is remembered with its own digest.
func TestDigestsOfANameThatChanges(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "program")
	want := make(map[uint64]string)
	var files []string
	for i, text := range []string{"one", "two"} {
		file := filepath.Join(dir, text)
		if err := os.WriteFile(file, bytes.Repeat([]byte(text), 1<<16), 0o700); err != nil {
			t.Fatal(err)
		}
		sum, err := digestFile(file, "")
		if err != nil {
			t.Fatal(err)
		}
		want[inode(t, file)] = sum
		files = append(files, file)
		if i == 0 {
			err = os.Symlink(file, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		next := filepath.Join(dir, "next")
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := errors.Join(os.Symlink(files[i%2], next), os.Rename(next, name)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer changing.Wait()
	defer close(done)
	for range 500 {
		d := &digests{settled: 1}
		if _, err := d.file(name); err != nil {
			t.Error(err)
		}
		for state, sum := range d.of {
			if sum != want[state.inode] {
				t.Fatal("the digest of one file is remembered as that of the other")
			}
		}
	}
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := stateOf(f)
	if err != nil {
		t.Fatal(err)
	}
	return s.inode
}
