package store

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// Owner is the owner of an entry in a Book: a tenant and one of its sessions. The workspace
// is that of the Book.
type Owner struct {
	Tenant  string
	Session string
}

// Config contains what the books of a process have in common.
type Config struct {
	Store *Store // required; entries last as long as the store
	Place string // workspace of the book; a book does not see the entries of another workspace
	// Self is the name of this process. Alive reports whether the process with a name still
	// runs. If Alive is nil, no other process runs.
	Self  string
	Alive func(self string) bool
	Now   func() time.Time // clock; nil means time.Now
	Log   *slog.Logger     // nil logs nothing
}

// Book contains the tables of one room, as one process sees them for one workspace. Several
// processes may have a Book over the same store. It need not be closed. A change is on the
// disk when Write returns without an error.
type Book struct {
	Config // completed with defaults, so that no field is nil
	*Tables
}

// NewBook returns the Book of a schema. It does not open the database. It panics without a
// store.
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

// Gone returns the processes in the result of a query that no longer run. Another process
// must end or take over their entries.
func (b Book) Gone(ctx context.Context, tx *sql.Tx, query string, args ...any) (gone []string, _ error) {
	all, err := Rows(ctx, tx, Text, query, args...)
	for _, self := range all {
		if !b.Alive(self) {
			gone = append(gone, self)
		}
	}
	return gone, err
}

// Rows returns the rows that a query selects, or that a statement with RETURNING has
// changed. read makes a value from one row.
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

// Text reads a row with one text.
func Text(row *sql.Rows) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// Time converts a time in a table, in milliseconds since 1970. 0 stands for the zero time.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
