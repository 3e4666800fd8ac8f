package store

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// Owner is the owner of something in a Book: a tenant, in one of its sessions. The
// workspace is the Book's.
type Owner struct {
	Tenant  string
	Session string
}

// Config is what the books of a process have in common.
type Config struct {
	Store *Store // required; what a book keeps lasts as long as it does
	Place string // the workspace: nothing of another one is seen
	// Self names this process, and Alive reports whether a process of a name still
	// runs. Nil means that no other process runs.
	Self  string
	Alive func(self string) bool
	Now   func() time.Time // the clock; nil is time.Now
	Log   *slog.Logger     // nil logs nothing
}

// Book is the tables of one room, as one process sees them for one workspace. Several
// processes may have one over the same store. It has nothing to close. A change is on the
// disk when Write returns without an error.
type Book struct {
	Config // complete: no field is nil
	*Tables
}

// NewBook is the book of a schema. Nothing is opened. It panics without a store, which is
// a mistake of this program.
func NewBook(cfg Config, schema Schema) Book {
	if cfg.Store == nil {
		panic("state: the tables of " + schema.Name + " need a store")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Alive == nil {
		cfg.Alive = func(self string) bool { return self == cfg.Self }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return Book{cfg, cfg.Store.Tables(schema)}
}

// Gone returns which of the processes that a query names do not run any more. Each has
// left something for another to end or to take over.
func (b Book) Gone(ctx context.Context, tx *sql.Tx, query string, args ...any) (gone []string, _ error) {
	all, err := Rows(ctx, tx, Text, query, args...)
	for _, self := range all {
		if !b.Alive(self) {
			gone = append(gone, self)
		}
	}
	return gone, err
}

// Rows returns what a query finds, or what a statement with RETURNING has changed; read
// makes a value of one row.
func Rows[T any](ctx context.Context, tx *sql.Tx, read func(row *sql.Rows) (T, error), query string, args ...any) (all []T, _ error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// Text reads a row of one text.
func Text(row *sql.Rows) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// Time is the time that tables keep as milliseconds since 1970. 0 stands for the zero time.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
