package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

var notes = Schema{Name: "notes", Steps: []string{"CREATE TABLE notes_all (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT"}}

// opened returns a store that is closed at the end of the test.
func opened(t *testing.T, dir string) *Store {
	t.Helper()
	s := New(dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func put(ctx context.Context, notes *Tables, text string) error {
	return notes.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes_all (text) VALUES (?)", text)
		return err
	})
}

func count(t *testing.T, notes *Tables) (n int) {
	t.Helper()
	err := notes.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM notes_all").Scan(&n)
	})
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}

func TestNothingIsMadeBeforeTheFirstUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	tables := opened(t, dir).Tables(notes)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat %s before the first use: %v, want that it does not exist", dir, err)
	}
	if err := put(t.Context(), tables, "a"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, filepath.Dir(Path(dir)): 0o700, Path(dir): 0o600, Path(dir) + "-wal": 0o600, Path(dir) + "-shm": 0o600} {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

func TestWhatWasWrittenIsThereAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a dir?with#odd%41 signs")
	first := New(dir)
	if err := put(t.Context(), first.Tables(notes), "a"); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	err := first.Tables(notes).Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO notes_all (text) VALUES ('b')"); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("a write that fails: got %v, want %v", err, failed)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := put(t.Context(), first.Tables(notes), "c"); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: got %v, want %v", err, ErrClosed)
	}
	if got := count(t, opened(t, dir).Tables(notes)); got != 1 {
		t.Errorf("got %d notes in the store that was opened again, want 1", got)
	}
}

func TestInMemory(t *testing.T) {
	s := opened(t, "")
	if s.Durable() {
		t.Error("a store without a directory says that it is durable")
	}
	tables := s.Tables(notes)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := put(t.Context(), tables, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := count(t, tables); got != 8 {
		t.Errorf("got %d notes, want 8", got)
	}
}

// Writers of one process wait in a queue, and do not poll for a lock: with enough of them,
// one of them would never get it.
func TestWritersStandInLine(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "st"))
	tables := s.Tables(notes)
	gone, leave := context.WithCancelCause(t.Context())
	why := errors.New("somebody else came")
	leave(why)
	err := tables.Write(t.Context(), func(*sql.Tx) error {
		if err := put(gone, tables, "a"); !errors.Is(err, why) {
			t.Errorf("a writer that does not wait any more got %v, want %v", err, why)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := count(t, tables); got != 0 {
		t.Errorf("got %d notes, want none", got)
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if err := put(t.Context(), tables, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := count(t, tables); got != 32 {
		t.Errorf("got %d notes, want 32", got)
	}
}

// Several stores that open an empty state directory at the same time all succeed.
func TestStoresOpenAnEmptyDirectoryTogether(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		var all errgroup.Group
		for range 8 {
			all.Go(func() error {
				s := New(dir)
				return errors.Join(put(t.Context(), s.Tables(notes), "a"), s.Close())
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTablesMove(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	newer := Schema{Name: "notes", Steps: append(notes.Steps[:1:1], "ALTER TABLE notes_all ADD COLUMN who TEXT NOT NULL DEFAULT 'me'")}
	old := New(dir)
	if err := put(t.Context(), old.Tables(notes), "a"); err != nil {
		t.Fatal(err)
	}
	old.Close()

	s := opened(t, dir)
	var who string
	err := s.Tables(newer).Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT who FROM notes_all").Scan(&who)
	})
	if err != nil || who != "me" {
		t.Errorf("got %q, %v from the column of version 2, want me", who, err)
	}
	err = put(t.Context(), opened(t, dir).Tables(notes), "b")
	if !errors.Is(err, ErrNewer) {
		t.Errorf("version 1 of the program on version 2 of the tables: got %v, want %v", err, ErrNewer)
	}
	t.Logf("%v", err)

	broken := Schema{Name: "other", Steps: []string{"CREATE TABLE other_a (n INTEGER) STRICT; CREATE TABLE other_b (wrong"}}
	if err := s.Tables(broken).Read(t.Context(), func(*sql.Tx) error { return nil }); err == nil {
		t.Error("tables whose SQL is wrong were opened")
	}
	fixed := Schema{Name: "other", Steps: []string{"CREATE TABLE other_a (n INTEGER) STRICT"}}
	if err := s.Tables(fixed).Read(t.Context(), func(*sql.Tx) error { return nil }); err != nil {
		t.Errorf("after half a migration: %v", err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	written := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "st")
		s := New(dir)
		if err := put(t.Context(), s.Tables(notes), strings.Repeat("x", 3*pageBytes)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	patch := func(t *testing.T, dir string, at int64, text string) {
		f, err := os.OpenFile(Path(dir), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), at); err != nil {
			t.Fatal(err)
		}
	}
	pragma := func(text string) func(*testing.T, string) error {
		return func(t *testing.T, dir string) error {
			return opened(t, dir).Tables(notes).Write(t.Context(), func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(t.Context(), text); err != nil {
					return err
				}
				_, err := tx.ExecContext(t.Context(), "INSERT INTO notes_all (text) VALUES (?)", strings.Repeat("x", 1<<20))
				return err
			})
		}
	}
	write := func(t *testing.T, dir string) error { return put(t.Context(), opened(t, dir).Tables(notes), "b") }
	for _, tt := range []struct {
		name string
		try  func(t *testing.T, dir string) error
		want error
		says string
	}{
		{"full", pragma("PRAGMA max_page_count = 20"), ErrFull, "make room"},
		{"read-only", pragma("PRAGMA query_only = 1"), ErrReadOnly, "--state"},
		{"not a database", func(t *testing.T, dir string) error {
			patch(t, dir, 0, "no database, whatever its name says")
			return write(t, dir)
		}, ErrCorrupt, "move its directory away"},
		{"damaged", func(t *testing.T, dir string) error {
			patch(t, dir, 100, strings.Repeat("\xff", pageBytes-100))
			return write(t, dir)
		}, ErrCorrupt, "move its directory away"},
		{"of another program", func(t *testing.T, dir string) error {
			patch(t, dir, 68, "else")
			return write(t, dir)
		}, ErrCorrupt, "another program's"},
		{"of a newer program", func(t *testing.T, dir string) error {
			patch(t, dir, 71, "\x02")
			return write(t, dir)
		}, ErrNewer, "a newer belljar"},
		{"open to others", func(t *testing.T, dir string) error {
			if err := os.Chmod(Path(dir), 0o644); err != nil {
				t.Fatal(err)
			}
			return write(t, dir)
		}, nil, "chmod go-rwx"},
		{"directory open to others", func(t *testing.T, dir string) error {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			return write(t, dir)
		}, nil, "chmod go-rwx"},
		{"a link", func(t *testing.T, dir string) error {
			if err := errors.Join(os.Rename(Path(dir), filepath.Join(dir, "x")), os.Symlink("../x", Path(dir))); err != nil {
				t.Fatal(err)
			}
			return write(t, dir)
		}, nil, "move it away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.try(t, written(t))
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v that says %q", err, tt.want, tt.says)
			}
			t.Logf("%v", err)
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	s := New(filepath.Join(b.TempDir(), "st"))
	defer s.Close()
	tables := s.Tables(notes)
	for b.Loop() {
		if err := put(b.Context(), tables, "a"); err != nil {
			b.Fatal(err)
		}
	}
}
