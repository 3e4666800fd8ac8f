package store

import (
	"database/sql"
	"errors"
	"slices"
	"testing"
)

// Gone returns exactly the processes that no longer run among those that have left entries.
func TestBook(t *testing.T) {
	s := New("")
	defer s.Close()
	cfg := Config{Store: s, Place: "/p", Self: "me", Alive: func(self string) bool { return self == "lives" }}
	b := NewBook(cfg, Schema{Name: "notes", Steps: []string{"CREATE TABLE notes (self TEXT NOT NULL) STRICT"}})
	err := b.Write(t.Context(), func(tx *sql.Tx) error {
		got, err := Rows(t.Context(), tx, Text, "INSERT INTO notes VALUES ('gone'), ('lives'), ('lost') RETURNING self")
		if err != nil || !slices.Equal(got, []string{"gone", "lives", "lost"}) {
			t.Errorf("rows of an insert: %q, %v", got, err)
		}
		gone, err := b.Gone(t.Context(), tx, "SELECT self FROM notes WHERE self <> ? ORDER BY self", "lost")
		if err != nil || !slices.Equal(gone, []string{"gone"}) {
			t.Errorf("gone: %q, %v", gone, err)
		}
		wrong := errors.New("a row that cannot be read")
		none, err := Rows(t.Context(), tx, func(*sql.Rows) (int, error) { return 1, wrong }, "SELECT self FROM notes")
		if !errors.Is(err, wrong) || none != nil {
			t.Errorf("a row that cannot be read: %v, %v", none, err)
		}
		return err
	})
	if err == nil {
		t.Error("the error of a row is lost")
	}
}

// If nothing is configured about other processes, only this process runs.
func TestABookAlone(t *testing.T) {
	s := New("")
	defer s.Close()
	b := NewBook(Config{Store: s, Self: "me"}, Schema{Name: "notes", Steps: []string{""}})
	if !b.Alive("me") || b.Alive("other") || b.Now().IsZero() || b.Log == nil {
		t.Errorf("defaults: me %v, other %v, now %v, log %v", b.Alive("me"), b.Alive("other"), b.Now(), b.Log)
	}
	defer func() {
		if recover() == nil {
			t.Error("a book without a store")
		}
	}()
	NewBook(Config{}, Schema{Name: "notes", Steps: []string{""}})
}
