package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
)

// Schema defines the tables of one room, its domain. Each domain has its own version, so
// rooms change independently. Names of tables begin with the name of the domain.
type Schema struct {
	Name string // name of the domain, in lower case
	// Steps[n] is the SQL that changes the tables from version n to n+1. A released step
	// never changes; new steps are appended.
	Steps []string
}

// Tables are the tables of one domain.
type Tables struct {
	store  *Store
	schema Schema
}

var domainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_]{0,30}$`) })

// Tables returns the tables of a schema in the store. It opens nothing. It panics if the
// schema has no valid name or no steps.
func (s *Store) Tables(schema Schema) *Tables {
	if !domainName().MatchString(schema.Name) || schema.Name == "state" || len(schema.Steps) == 0 {
		panic(fmt.Sprintf("state: the schema %q needs a name in lower case, and steps", schema.Name))
	}
	return &Tables{store: s, schema: schema}
}

// Read runs f in a transaction that sees a snapshot of the tables and changes nothing. It
// returns the error of f, with an explanation if it is an error of the database.
func (t *Tables) Read(ctx context.Context, f func(tx *sql.Tx) error) error {
	return t.within(ctx, &sql.TxOptions{ReadOnly: true}, f)
}

// Write runs f in its own transaction: no other process or goroutine writes in the
// meantime. When it returns nil, the changes of f are on the disk. After an error of f, all
// changes are undone, and Write returns the error.
func (t *Tables) Write(ctx context.Context, f func(tx *sql.Tx) error) error {
	// The writers of this process wait for each other in a queue: a connection that finds
	// the database locked only tries again at intervals, and may find it locked each time.
	select {
	case t.store.writer <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.store.writer }()
	return t.within(ctx, nil, f)
}

func (t *Tables) within(ctx context.Context, opts *sql.TxOptions, f func(tx *sql.Tx) error) error {
	db, err := t.store.open(ctx, t.schema)
	if err != nil {
		return err
	}
	defer t.store.running.Done()
	return t.store.explain(transact(ctx, db, opts, f))
}

// transact runs f in a transaction. It commits the transaction, or rolls it back after an
// error.
func transact(ctx context.Context, db *sql.DB, opts *sql.TxOptions, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	if opts != nil && opts.ReadOnly {
		return nil
	}
	return tx.Commit()
}

// appID marks the file as belljar's (sqlite.org/pragma.html, "application_id"). It is "blj"
// and the version of the tables that this file itself creates.
const appID = 0x626c6a01

// claim marks an empty database as ours, and returns an error for the database of another
// program.
func claim(ctx context.Context, db *sql.DB) error {
	var id int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if id == appID {
		return nil
	}
	// Checked again under the lock, because another process may have claimed the database
	// in the meantime.
	return transact(ctx, db, nil, func(tx *sql.Tx) error {
		var tables int64
		err := tx.QueryRowContext(ctx, "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id").Scan(&id, &tables)
		switch {
		case err != nil:
			return err
		case id == appID:
			return nil
		case id&^0xff == appID&^0xff:
			return ErrNewer
		case id != 0 || tables != 0:
			return errForeign
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf(`
			PRAGMA application_id = %d;
			CREATE TABLE state_domains (name TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID`, appID))
		return err
	})
}

// migrate changes the tables of a schema to its last version, in one transaction: other
// connections see either the old version or the new one.
func migrate(ctx context.Context, db *sql.DB, schema Schema) error {
	version, err := versionOf(ctx, db, schema.Name)
	switch {
	case err != nil:
		return err
	case version == len(schema.Steps):
		return nil
	}
	return transact(ctx, db, nil, func(tx *sql.Tx) error {
		version, err := versionOf(ctx, tx, schema.Name)
		switch {
		case err != nil:
			return err
		case version > len(schema.Steps):
			return fmt.Errorf("the tables have the version %d, and this program knows %d: %w", version, len(schema.Steps), ErrNewer)
		}
		for i := version; i < len(schema.Steps); i++ {
			if _, err := tx.ExecContext(ctx, schema.Steps[i]); err != nil {
				return fmt.Errorf("bring them to version %d: %w", i+1, err)
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO state_domains VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version",
			schema.Name, len(schema.Steps))
		return err
	})
}

// versionOf returns the version of a domain's tables; 0 if they do not exist.
func versionOf(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, name string,
) (version int, err error) {
	err = q.QueryRowContext(ctx, "SELECT version FROM state_domains WHERE name = ?", name).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}
