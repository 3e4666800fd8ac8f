package websession

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/mcp"
)

// Bounds of what is kept.
const (
	maxSessions = 16384 // those that were not used for the longest time go first
	lasts       = 24 * time.Hour
)

// schema is the table of sessions. Times are milliseconds since 1970.
var schema = store.Schema{Name: "websessions", Steps: []string{`
	CREATE TABLE websessions_all (
		digest BLOB NOT NULL PRIMARY KEY, tenant TEXT NOT NULL, principal TEXT NOT NULL,
		revision TEXT NOT NULL, initialize BLOB NOT NULL, used INTEGER NOT NULL
	) STRICT;
	CREATE INDEX websessions_used ON websessions_all (used);
`}}

// Book is the sessions of a store. Several processes may have one over the same directory.
// Its methods are safe for concurrent use; it has nothing to close.
type Book struct {
	tables *store.Tables
	now    func() time.Time
}

// NewBook returns the book of a store; now is the clock, nil for time.Now. Nothing is
// opened.
func NewBook(kept *store.Store, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	return &Book{tables: kept.Tables(schema), now: now}
}

// digest stands for an id, which is 130 random bits: no salt makes it harder to find.
func digest(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:]
}

// Keep keeps a session, or notes that one that is kept was used.
func (b *Book) Keep(ctx context.Context, s mcp.KeptSession) error {
	now := b.now()
	err := b.tables.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM websessions_all WHERE used <= ?", now.Add(-lasts).UnixMilli()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO websessions_all VALUES (?, ?, ?, ?, ?, ?)",
			digest(s.ID), s.Tenant, s.Principal, s.Revision, []byte(s.Initialize), now.UnixMilli()); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM websessions_all WHERE digest IN
			(SELECT digest FROM websessions_all ORDER BY used DESC, digest LIMIT -1 OFFSET ?)`, maxSessions)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep a session: %w", err)
	}
	return nil
}

// Find returns a session that is kept, and false if there is none of that id, or it was not
// used for a day.
func (b *Book) Find(ctx context.Context, id string) (s mcp.KeptSession, found bool, err error) {
	s.ID = id
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT tenant, principal, revision, initialize FROM websessions_all WHERE digest = ? AND used > ?",
			digest(id), b.now().Add(-lasts).UnixMilli()).Scan(&s.Tenant, &s.Principal, &s.Revision, (*[]byte)(&s.Initialize))
	})
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("find a session: %w", err)
	}
	return s, true, nil
}

// Forget removes a session that has ended for good.
func (b *Book) Forget(ctx context.Context, id string) error {
	err := b.tables.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM websessions_all WHERE digest = ?", digest(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget a session: %w", err)
	}
	return nil
}
