package websession

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/mcp"
)

// Limits of the sessions that are kept.
const (
	maxSessions = 16384
	maxOfTenant = 1024
	lasts       = 24 * time.Hour
)

// format is the format of a row. A row of another format is ignored, because its columns
// may mean something else.
const format = 1

// schema is the table of sessions. Times are milliseconds since 1970.
var schema = store.Schema{Name: "websessions", Steps: []string{`
	CREATE TABLE websessions_all (
		digest BLOB NOT NULL PRIMARY KEY, format INTEGER NOT NULL, place TEXT NOT NULL,
		tenant TEXT NOT NULL, principal TEXT NOT NULL, revision TEXT NOT NULL, initialize BLOB NOT NULL,
		level TEXT NOT NULL, subscriptions TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL
	) STRICT;
	CREATE INDEX websessions_used ON websessions_all (used);
	CREATE INDEX websessions_tenant ON websessions_all (tenant, used);
`}}

// Book contains the sessions of a workspace. Several processes may have a Book over the
// same directory. Its methods are safe for concurrent use; it has nothing to close.
type Book struct{ kept store.Book }

// NewBook returns the book in a store. It opens nothing.
func NewBook(cfg store.Config) *Book { return &Book{store.NewBook(cfg, schema)} }

// digest returns what stands for an id in the table. An id is 130 random bits, so a salt
// would not make it harder to find.
func digest(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:]
}

// Keep keeps a session, or records that a kept session was used. If its tenant then has too
// many sessions, the tenant's session that was not used for the longest time is removed. If
// there are too many sessions in all, such a session of the tenant with the most sessions
// is removed, so that no tenant can push out the sessions of others.
func (b *Book) Keep(ctx context.Context, s mcp.KeptSession) error {
	now := b.kept.Now()
	uris, err := json.Marshal(s.Subscriptions)
	if err == nil {
		err = b.kept.Write(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "DELETE FROM websessions_all WHERE used <= ?", now.Add(-lasts).UnixMilli()); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO websessions_all VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?10, ?10)
				ON CONFLICT DO UPDATE SET level = excluded.level, subscriptions = excluded.subscriptions, used = excluded.used`,
				digest(s.ID), format, b.kept.Place, s.Tenant, s.Principal, s.Revision, []byte(s.Initialize), s.Level, string(uris), now.UnixMilli()); err != nil {
				return err
			}
			if err := roomOf(ctx, tx, s.Tenant, maxOfTenant); err != nil {
				return err
			}
			return room(ctx, tx, maxSessions)
		})
	}
	if err != nil {
		return fmt.Errorf("keep a session: %w", err)
	}
	return nil
}

// roomOf removes sessions of a tenant that has more than most: a tenant that begins session
// after session must not use up the disk.
func roomOf(ctx context.Context, tx *sql.Tx, tenant string, most int) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM websessions_all WHERE digest IN (
		SELECT digest FROM websessions_all WHERE tenant = ? ORDER BY used DESC, digest DESC LIMIT -1 OFFSET ?)`, tenant, most)
	return err
}

// room removes sessions if their number exceeds most.
func room(ctx context.Context, tx *sql.Tx, most int) error {
	var all int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM websessions_all").Scan(&all); err != nil {
		return err
	}
	for ; all > most; all-- {
		_, err := tx.ExecContext(ctx, `DELETE FROM websessions_all WHERE digest = (
			SELECT digest FROM websessions_all WHERE tenant = (
				SELECT tenant FROM websessions_all GROUP BY tenant ORDER BY count(*) DESC, tenant LIMIT 1
			) ORDER BY used, digest LIMIT 1)`)
		if err != nil {
			return err
		}
	}
	return nil
}

// Find returns the kept session of this workspace with the id. It returns false if the id
// is unknown, or if the session was not used for a day.
func (b *Book) Find(ctx context.Context, id string) (s mcp.KeptSession, found bool, err error) {
	s.ID = id
	var uris string
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT tenant, principal, revision, initialize, level, subscriptions FROM websessions_all
			WHERE digest = ? AND place = ? AND format = ? AND used > ?`, digest(id), b.kept.Place, format, b.kept.Now().Add(-lasts).UnixMilli()).
			Scan(&s.Tenant, &s.Principal, &s.Revision, (*[]byte)(&s.Initialize), &s.Level, &uris)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(uris), &s.Subscriptions)
	}
	if err != nil {
		return s, false, fmt.Errorf("find a session: %w", err)
	}
	return s, true, nil
}

// Forget removes a session that has ended for good.
func (b *Book) Forget(ctx context.Context, id string) error {
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM websessions_all WHERE digest = ?", digest(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget a session: %w", err)
	}
	return nil
}
