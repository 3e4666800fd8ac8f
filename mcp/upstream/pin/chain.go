package pin

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"belljar.dev/internal/store"
)

// Bounds of the log of a tenant.
const (
	maxLog      = 1024 // entries; beyond that, old entries are dropped
	maxLogBytes = 8 << 20
	maxDetail   = 64 << 10 // bytes of the details of one entry
	// Bounds of the entries that are kept then, in addition to the last one of each server.
	keptLog       = 512
	keptLogBytes  = 4 << 20
	keptOldDetail = 1 << 10
)

// ErrBroken is the error for a log of decisions that differs from the one that belljar
// wrote.
var ErrBroken = errors.New("the log of trust decisions is damaged")

// The events of the entries.
const (
	wasFirst     = "first use"
	wasTrusted   = "trusted"
	wasRefused   = "refused"
	wasForgotten = "forgotten"
	wasImported  = "imported"
	wasReset     = "started over"
	wasPruned    = "older entries dropped"
)

// Entry is one entry of the log: something became trusted, or is no longer trusted.
type Entry struct {
	At     time.Time
	By     string // name of the person; empty for first use
	Via    string
	Place  string
	Server string
	What   string // event, such as "trusted"
	Detail string // definitions, one line each
}

// entry is an Entry in the chain.
type entry struct {
	Entry
	n      int64
	record Digest // digest of the server's record after the entry; zero if the record was removed
	sum    Digest // sum of this entry and the previous one
}

// seal returns the sum of an entry. It depends on all entries before it.
func (e entry) seal(before Digest, tenant string) Digest {
	h := sha256.New()
	h.Write(before[:])
	number := func(n int64) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	number(e.n)
	number(e.At.UnixMilli())
	for _, text := range []string{tenant, e.By, e.Via, e.Place, e.Server, e.What, e.Detail} {
		number(int64(len(text)))
		h.Write([]byte(text))
	}
	h.Write(e.record[:])
	return Digest(h.Sum(nil))
}

// place identifies a server of a tenant: its workspace and its name.
type place struct{ place, server string }

// chain is the verified log of one tenant.
type chain struct {
	n       int64 // number of the last entry
	sum     Digest
	length  int
	size    int              // bytes of all details
	records map[place]Digest // digests of the records that must exist according to the log
}

// follow adds the next entry, after checking that it follows from the previous one.
func (c *chain) follow(e entry, tenant string) error {
	if e.sum != e.seal(c.sum, tenant) {
		return fmt.Errorf("%w: entry %d does not follow from entry %d", ErrBroken, e.n, c.n)
	}
	at := place{e.Place, e.Server}
	switch {
	case e.What == wasReset:
		c.records = make(map[place]Digest)
	case e.What == wasPruned: // is not about a server
	case e.record == (Digest{}):
		delete(c.records, at)
	default:
		c.records[at] = e.record
	}
	c.n, c.sum = e.n, e.sum
	c.length++
	c.size += len(e.Detail)
	return nil
}

const entryColumns = "n, at, by_whom, via, place, server, what, detail, record, sum"

// entries returns the entries of a tenant with numbers above n.
func entries(ctx context.Context, tx *sql.Tx, tenant string, n int64) ([]entry, error) {
	return store.Rows(ctx, tx, func(row *sql.Rows) (e entry, _ error) {
		var at int64
		var record, sum []byte
		if err := row.Scan(&e.n, &at, &e.By, &e.Via, &e.Place, &e.Server, &e.What, &e.Detail, &record, &sum); err != nil {
			return e, err
		}
		if len(record) != len(e.record) || len(sum) != len(e.sum) {
			return e, fmt.Errorf("%w: entry %d has no sum", ErrBroken, e.n)
		}
		e.At, e.record, e.sum = time.UnixMilli(at), Digest(record), Digest(sum)
		return e, nil
	}, "SELECT "+entryColumns+" FROM pins_log WHERE tenant = ? AND n > ? ORDER BY n", tenant, n)
}

// verified returns the verified chain of a tenant. known is the part that was verified
// before; if it is not nil, only later entries are read.
func verified(ctx context.Context, tx *sql.Tx, tenant string, known *chain) (*chain, error) {
	before := known
	if known != nil {
		var sum []byte
		err := tx.QueryRowContext(ctx, "SELECT sum FROM pins_log WHERE tenant = ? AND n = ?", tenant, known.n).Scan(&sum)
		switch {
		case errors.Is(err, sql.ErrNoRows) && known.n == 0:
		case errors.Is(err, sql.ErrNoRows), err == nil && string(sum) != string(known.sum[:]):
			known = nil // another process has pruned or reset the log, or the log is broken
		case err != nil:
			return nil, err
		}
	}
	next := &chain{records: make(map[place]Digest)}
	if known != nil {
		*next = *known
		next.records = maps.Clone(known.records)
	}
	all, err := entries(ctx, tx, tenant, next.n)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && known != nil {
		return known, nil
	}
	if known == nil && before != nil && (len(all) == 0 || all[len(all)-1].n < before.n && all[0].What != wasReset) {
		return nil, fmt.Errorf("%w: it had %d entries, and the last entries are missing", ErrBroken, before.n)
	}
	for _, e := range all {
		if err := next.follow(e, tenant); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// put appends an entry, and returns the new chain.
func (c *chain) put(ctx context.Context, tx *sql.Tx, tenant string, e entry) (*chain, error) {
	e.Detail = cutDetail(e.Detail, maxDetail)
	next := &chain{n: c.n, sum: c.sum, length: c.length, size: c.size, records: maps.Clone(c.records)}
	if err := next.add(ctx, tx, tenant, e); err != nil {
		return nil, err
	}
	if next.length <= maxLog && next.size <= maxLogBytes {
		return next, nil
	}
	return next.prune(ctx, tx, tenant, e.At)
}

// cutDetail cuts the lines of an entry, and adds how many lines were left out.
func cutDetail(detail string, most int) string {
	if len(detail) <= most {
		return detail
	}
	end := strings.LastIndexByte(detail[:most], '\n') + 1
	return detail[:end] + fmt.Sprintf("and %d more\n", strings.Count(detail[end:], "\n"))
}

// add appends an entry to the chain and to the database.
func (c *chain) add(ctx context.Context, tx *sql.Tx, tenant string, e entry) error {
	e.n = c.n + 1
	e.sum = e.seal(c.sum, tenant)
	if err := c.follow(e, tenant); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO pins_log (tenant, "+entryColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		tenant, e.n, e.At.UnixMilli(), e.By, e.Via, e.Place, e.Server, e.What, e.Detail, e.record[:], e.sum[:])
	return err
}

// prune drops old entries. It keeps the newest entries and, with shorter details, the last
// entry of each server that still has a record. The remaining entries become a new chain,
// which begins with the sum of the old one.
func (c *chain) prune(ctx context.Context, tx *sql.Tx, tenant string, now time.Time) (*chain, error) {
	all, err := entries(ctx, tx, tenant, 0)
	if err != nil {
		return nil, err
	}
	last := make(map[place]int64, len(c.records))
	for _, e := range all {
		last[place{e.Place, e.Server}] = e.n
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM pins_log WHERE tenant = ?", tenant); err != nil {
		return nil, err
	}
	next := &chain{n: c.n, records: make(map[place]Digest)}
	if err := next.add(ctx, tx, tenant, entry{Entry: Entry{At: now, What: wasPruned, Detail: c.sum.String()}}); err != nil {
		return nil, err
	}
	newest, size := len(all), 0
	for newest > max(0, len(all)-keptLog) && size+len(all[newest-1].Detail) <= keptLogBytes {
		newest--
		size += len(all[newest].Detail)
	}
	for i, e := range all {
		at := place{e.Place, e.Server}
		_, there := c.records[at]
		if i < newest && (!there || last[at] != e.n) || e.What == wasPruned || e.What == wasReset {
			continue
		}
		if i < newest {
			e.Detail = cutDetail(e.Detail, keptOldDetail)
		}
		if err := next.add(ctx, tx, tenant, e); err != nil {
			return nil, err
		}
	}
	return next, nil
}
