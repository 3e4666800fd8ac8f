package websession

import (
	"bytes"
	"database/sql"
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
		return NewBook(store.Config{Store: kept, Place: "/p", Now: func() time.Time { return now }})
	}
	b := open()
	s := mcp.KeptSession{ID: "s-SECRET", Tenant: "a", Principal: "token:x", Revision: "2025-11-25", Initialize: []byte(`{"clientInfo":{}}`), Level: "info", Subscriptions: []string{"a://b", "c://d"}}
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
	find(open(), true) // another process opens a book of its own
	now = now.Add(lasts - time.Second)
	find(b, true)
	if err := b.Keep(t.Context(), s); err != nil { // this uses the session
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

// A session of another workspace, or in a row of another format, is not found.
func TestRowsThatAreNoSessions(t *testing.T) {
	kept := store.New("")
	defer kept.Close()
	at := func(place string) *Book { return NewBook(store.Config{Store: kept, Place: place}) }
	s := mcp.KeptSession{ID: "s-1", Tenant: "a", Revision: "2025-11-25", Initialize: []byte(`{}`)}
	if err := at("/p").Keep(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, found, err := at("/other").Find(t.Context(), s.ID); found || err != nil {
		t.Errorf("in another workspace: found %t, %v", found, err)
	}
	if _, found, err := at("/p").Find(t.Context(), s.ID); !found || err != nil {
		t.Errorf("in its own: found %t, %v", found, err)
	}
	err := at("/p").kept.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE websessions_all SET format = format + 1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := at("/p").Find(t.Context(), s.ID); found || err != nil {
		t.Errorf("in a row of another format: found %t, %v", found, err)
	}
}

// The limit of a tenant counts only its own sessions.
func TestRoomOfATenant(t *testing.T) {
	kept := store.New("")
	defer kept.Close()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	b := NewBook(store.Config{Store: kept, Place: "/p", Now: func() time.Time { return now }})
	for n := range 2 * maxOfTenant {
		now = now.Add(time.Second)
		tenant := []string{"quiet", "loud"}[min(n/10, 1)]
		s := mcp.KeptSession{ID: fmt.Sprint(tenant, n), Tenant: tenant, Revision: "2025-11-25", Initialize: []byte(`{}`)}
		if err := b.Keep(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]bool{
		"quiet0": true, "quiet9": true, "loud10": false, fmt.Sprint("loud", maxOfTenant-1): false, fmt.Sprint("loud", maxOfTenant): true, fmt.Sprint("loud", 2*maxOfTenant-1): true,
	} {
		if _, found, err := b.Find(t.Context(), id); found != want || err != nil {
			t.Errorf("%s: found %t, %v; want %t", id, found, err, want)
		}
	}
}

// There is also a limit on the sessions of all tenants together.
func TestRoomOfAll(t *testing.T) {
	kept := store.New("")
	defer kept.Close()
	b := NewBook(store.Config{Store: kept, Place: "/p"})
	keep := func(id string) {
		t.Helper()
		if err := b.Keep(t.Context(), mcp.KeptSession{ID: id, Tenant: "t", Revision: "2025-11-25", Initialize: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	keep("first")
	err := b.kept.Write(t.Context(), func(tx *sql.Tx) error { // adds maxSessions sessions of 32 tenants
		_, err := tx.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			INSERT INTO websessions_all SELECT CAST('d' || i AS BLOB), format, place, 't' || (i % 32), principal, revision, initialize, level, subscriptions, created, used
			FROM n, websessions_all`, maxSessions)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	keep("last")
	var all int
	err = b.kept.Read(t.Context(), func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT count(*) FROM websessions_all").Scan(&all)
	})
	if _, found, _ := b.Find(t.Context(), "last"); err != nil || all != maxSessions || !found {
		t.Errorf("%d sessions are kept, the last one: %t, %v; want %d", all, found, err, maxSessions)
	}
}

// A tenant that begins too many sessions pushes out only its own.
func TestRoomIsShared(t *testing.T) {
	kept := store.New("")
	defer kept.Close()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	b := NewBook(store.Config{Store: kept, Place: "/p", Now: func() time.Time { return now }})
	keep := func(tenant string, n int) {
		now = now.Add(time.Second)
		s := mcp.KeptSession{ID: fmt.Sprint(tenant, n), Tenant: tenant, Revision: "2025-11-25", Initialize: []byte(`{}`)}
		if err := b.Keep(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		err := b.kept.Write(t.Context(), func(tx *sql.Tx) error { return room(t.Context(), tx, 10) })
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		keep("quiet", n)
	}
	for n := range 50 {
		keep("loud", n)
	}
	for id, want := range map[string]bool{
		"quiet0": true, "quiet1": true, "quiet2": true, "loud49": true, "loud43": true, "loud42": false, "loud0": false,
	} {
		if _, found, err := b.Find(t.Context(), id); found != want || err != nil {
			t.Errorf("%s: found %t, %v; want %t", id, found, err, want)
		}
	}
}
