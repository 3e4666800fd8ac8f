package websession

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestBook(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	open := func() *Book {
		kept := store.New(dir)
		t.Cleanup(func() {
			if err := kept.Close(); err != nil {
				t.Error(err)
			}
		})
		return NewBook(kept, func() time.Time { return now })
	}
	b := open()
	s := mcp.KeptSession{ID: "s-SECRET", Tenant: "a", Principal: "token:x", Revision: "2025-11-25", Initialize: []byte(`{"clientInfo":{}}`)}
	if err := b.Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	find := func(b *Book, want bool) {
		t.Helper()
		got, found, err := b.Find(t.Context(), s.ID)
		if err != nil || found != want || found && fmt.Sprint(got) != fmt.Sprint(s) {
			t.Errorf("got %+v, %v, %v; want it found: %v", got, found, err, want)
		}
	}
	find(open(), true) // as another process does
	now = now.Add(lasts - time.Second)
	find(b, true)
	if err := b.Keep(t.Context(), s); err != nil { // it is used
		t.Fatal(err)
	}
	now = now.Add(lasts - time.Second)
	find(b, true)
	now = now.Add(time.Second)
	find(b, false)
	if err := b.Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := b.Forget(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	find(b, false)

	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(s.ID)) {
			t.Errorf("%s has the id of a session", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
