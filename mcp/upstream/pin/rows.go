package pin

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/store"
)

// Bounds of the data that is kept for a tenant. A text that is not kept is missing in
// diffs, with no other effect.
const (
	maxServers     = 200
	maxRecord      = 2 << 20  // bytes of the record and marks of one server, so that there is room for others
	maxRecords     = 8 << 20  // bytes of the records and marks of all servers
	maxTexts       = 4 << 20  // bytes of the texts of one server
	maxTenantTexts = 16 << 20 // bytes of the texts of all servers
	maxAllTexts    = 64 << 20 // bytes of the texts of all tenants
)

// schema contains the tables of pins. Times are milliseconds since 1970.
var schema = store.Schema{Name: "pins", Steps: []string{`
	CREATE TABLE pins_servers (
		tenant TEXT NOT NULL, place TEXT NOT NULL, server TEXT NOT NULL,
		record TEXT NOT NULL, marks TEXT NOT NULL, judged INTEGER NOT NULL,
		PRIMARY KEY (tenant, place, server)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE pins_texts (
		tenant TEXT NOT NULL, place TEXT NOT NULL, server TEXT NOT NULL,
		digest BLOB NOT NULL, text BLOB NOT NULL,
		PRIMARY KEY (tenant, place, server, digest)
	) STRICT;
	CREATE TABLE pins_log (
		tenant TEXT NOT NULL, n INTEGER NOT NULL,
		at INTEGER NOT NULL, by_whom TEXT NOT NULL, via TEXT NOT NULL, place TEXT NOT NULL, server TEXT NOT NULL,
		what TEXT NOT NULL, detail TEXT NOT NULL, record BLOB NOT NULL, sum BLOB NOT NULL,
		PRIMARY KEY (tenant, n)
	) STRICT;
`}}

// partial is the last line of incomplete marks: the server's lists have not been judged
// since an import, or never.
const partial = "# to be judged again\n"

// load reads the record of a server, and checks its digest against the log.
func load(ctx context.Context, tx *sql.Tx, c *chain, s Server) (r record, err error) {
	var pins, marks string
	err = tx.QueryRowContext(ctx, "SELECT record, marks FROM pins_servers WHERE tenant = ? AND place = ? AND server = ?", s.Tenant, s.Place, s.Name).
		Scan(&pins, &marks)
	wanted, logged := c.records[place{s.Place, s.Name}]
	switch {
	case errors.Is(err, sql.ErrNoRows) && !logged:
		return recordOf(nil), nil
	case errors.Is(err, sql.ErrNoRows):
		return r, fmt.Errorf("%w: the record of the server %s is missing", ErrBroken, word(s.Name))
	case err != nil:
		return r, err
	case (pins != "" || logged) && recordSum(pins) != wanted:
		return r, fmt.Errorf("%w: the record of the server %s differs from the one that the log names", ErrBroken, word(s.Name))
	}
	kept, err := Parse([]byte(pins))
	if err != nil {
		return r, fmt.Errorf("the record of the server %s: %w", word(s.Name), err)
	}
	text, cut := strings.CutSuffix(marks, partial)
	waiting, err := Parse([]byte(text))
	if err != nil {
		return r, fmt.Errorf("the marks of the server %s: %w", word(s.Name), err)
	}
	r = recordOf(append(kept, waiting...))
	r.marked = !cut
	return r, nil
}

// recordSum returns the digest of a record for the log.
func recordSum(text string) Digest { return sha256.Sum256([]byte(text)) }

// save writes the record of a server, and an entry of the log if the pins changed. It
// returns the chain with that entry.
func save(ctx context.Context, tx *sql.Tx, c *chain, s Server, r record, e *Entry, now time.Time) (*chain, error) {
	pins, marks := "", string(Format(lines(r.offered, r.gone)))
	if len(r.trusted)+len(r.refused) > 0 {
		pins = string(Format(lines(r.trusted, r.refused)))
	}
	if !r.marked {
		marks += partial
	}
	if n := len(pins) + len(marks); n > maxRecord {
		return nil, fmt.Errorf("the pins of the server %s cannot be kept: they have %d bytes, and at most %d bytes are kept for one server", word(s.Name), n, maxRecord)
	}
	var others, size int
	if err := tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(length(record) + length(marks)), 0)
		FROM pins_servers WHERE tenant = ? AND NOT (place = ? AND server = ?)`, s.Tenant, s.Place, s.Name).Scan(&others, &size); err != nil {
		return nil, err
	}
	if size += len(pins) + len(marks); others >= maxServers || size > maxRecords {
		return nil, fmt.Errorf("the pins of the server %s cannot be kept: with it, the pins of %d servers have %d bytes, and at most %d servers and %d bytes are kept; `belljar upstream pins forget NAME` makes room",
			word(s.Name), others+1, size, maxServers, maxRecords)
	}
	if e != nil {
		e.Place, e.Server, e.At = s.Place, s.Name, now
		logged := entry{Entry: *e}
		if pins != "" {
			logged.record = recordSum(pins)
		}
		var err error
		if c, err = c.put(ctx, tx, s.Tenant, logged); err != nil {
			return nil, err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO pins_servers VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET record = excluded.record, marks = excluded.marks, judged = excluded.judged`,
		s.Tenant, s.Place, s.Name, pins, marks, now.UnixMilli())
	return c, err
}

// keepTexts stores the texts of definitions that are pinned or wait for a person, within
// bounds, and deletes other texts.
func keepTexts(ctx context.Context, tx *sql.Tx, s Server, r record, all []served) error {
	wanted := make(map[Digest]bool)
	for _, p := range lines(r.trusted, r.offered, r.gone) {
		wanted[p.Digest] = true
	}
	kept, err := store.Rows(ctx, tx, func(row *sql.Rows) (t keptText, err error) {
		err = row.Scan(&t.digest, &t.size)
		return t, err
	}, "SELECT digest, length(text) FROM pins_texts WHERE tenant = ? AND place = ? AND server = ?", s.Tenant, s.Place, s.Name)
	if err != nil {
		return err
	}
	size := 0
	for _, t := range kept {
		if len(t.digest) == len(Digest{}) && wanted[Digest(t.digest)] {
			delete(wanted, Digest(t.digest))
			size += t.size
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM pins_texts WHERE tenant = ? AND place = ? AND server = ? AND digest = ?", s.Tenant, s.Place, s.Name, t.digest); err != nil {
			return err
		}
	}
	var ofTenant, ofAll int
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(length(text)) FILTER (WHERE tenant = ?), 0), coalesce(sum(length(text)), 0) FROM pins_texts", s.Tenant).Scan(&ofTenant, &ofAll); err != nil {
		return err
	}
	for _, d := range all {
		n := len(d.text)
		if !wanted[d.digest] || size+n > maxTexts || ofTenant+n > maxTenantTexts || ofAll+n > maxAllTexts {
			continue
		}
		delete(wanted, d.digest)
		size, ofTenant, ofAll = size+n, ofTenant+n, ofAll+n
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO pins_texts VALUES (?, ?, ?, ?, ?)", s.Tenant, s.Place, s.Name, d.digest[:], d.text); err != nil {
			return err
		}
	}
	return nil
}

// keptText is a stored text.
type keptText struct {
	digest []byte
	size   int
}

// textOf returns the canonical text that has a digest, or nil if it is not stored. A stored
// text with another digest is ignored.
func textOf(ctx context.Context, tx *sql.Tx, s Server, d Digest) ([]byte, error) {
	var text []byte
	err := tx.QueryRowContext(ctx, "SELECT text FROM pins_texts WHERE tenant = ? AND place = ? AND server = ? AND digest = ?", s.Tenant, s.Place, s.Name, d[:]).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) || err == nil && Digest(sha256.Sum256(text)) != d {
		return nil, nil
	}
	return text, err
}

// remove deletes the data of a server; an empty name stands for all servers of the tenant.
func remove(ctx context.Context, tx *sql.Tx, s Server) error {
	for _, table := range []string{"pins_servers", "pins_texts"} {
		query, args := "DELETE FROM "+table+" WHERE tenant = ?", []any{s.Tenant}
		if s.Name != "" {
			query, args = query+" AND place = ? AND server = ?", append(args, s.Place, s.Name)
		}
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// detail returns lines for the log about pins.
func detail(pins []Pin) string {
	var out strings.Builder
	for _, p := range pins {
		fmt.Fprintf(&out, "%s %s %s\n", p.Kind, word(p.Name), p.Digest)
	}
	return out.String()
}
