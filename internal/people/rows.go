package people

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar.dev/internal/store"
)

// Kind describes how the questions of one kind are stored. In addition to its own columns,
// its table has the columns id, tenant, state, created, expires and answered.
type Kind[Q any] struct {
	Name    string // name of the kind in errors
	Schema  store.Schema
	Table   string
	Columns string // names of the columns, in the order of Scan
	Scan    func(row *sql.Rows) (Q, error)
	// Status returns the ID of a question, whether it waits for an answer, and the time at
	// which it ends by itself. The time is zero for a question that has ended.
	Status func(q Q) (id string, waits bool, ends time.Time)
	Shown  func(id string) string // returns an ID in the form for error texts

	Waiting string // state of questions that wait
	Live    string // SQL condition on questions that have not ended
	Ends    string // assignments and condition of an UPDATE that ends the questions whose time is over at ?1

	MostWaiting int // most waiting questions of one tenant
	MostKept    int // most questions in all, except that those that are live are never removed
	MostListed  int
}

// The errors of a question or an answer of any kind.
var (
	ErrUnknown = errors.New("there is no such") // the name of the kind follows
	ErrTooMany = errors.New("too many questions wait for an answer")
)

// Work is one transaction on the questions of a desk.
type Work[Q any] struct {
	Now  time.Time
	tx   *sql.Tx
	kind *Kind[Q]
}

// Some returns the questions that a condition selects.
func (w *Work[Q]) Some(ctx context.Context, where string, args ...any) ([]Q, error) {
	return store.Rows(ctx, w.tx, w.kind.Scan, "SELECT "+w.kind.Columns+" FROM "+w.kind.Table+" WHERE "+where, args...)
}

// One returns the first question that a condition selects. The error wraps ErrUnknown if
// the condition selects nothing.
func (w *Work[Q]) One(ctx context.Context, where string, args ...any) (q Q, err error) {
	all, err := w.Some(ctx, where+" LIMIT 1", args...)
	switch {
	case err != nil:
		return q, err
	case len(all) == 0:
		return q, fmt.Errorf("%w %s", ErrUnknown, w.kind.Name)
	}
	return all[0], nil
}

// Change runs an UPDATE with these assignments and condition. It returns the changed
// questions as they are now.
func (w *Work[Q]) Change(ctx context.Context, set string, args ...any) ([]Q, error) {
	return store.Rows(ctx, w.tx, w.kind.Scan, "UPDATE "+w.kind.Table+" SET "+set+" RETURNING "+w.kind.Columns, args...)
}

// Add stores a new question of a tenant, unless too many questions of the tenant wait. If
// the desk is full, the oldest questions that have ended are removed.
func (w *Work[Q]) Add(ctx context.Context, tenant, columns string, values ...any) error {
	var waiting, all int
	err := w.tx.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE state = ? AND tenant = ?), count(*) FROM "+w.kind.Table, w.kind.Waiting, tenant).Scan(&waiting, &all)
	switch {
	case err != nil:
		return err
	case waiting >= w.kind.MostWaiting:
		return fmt.Errorf("%w: %d", ErrTooMany, waiting)
	case all >= w.kind.MostKept:
		_, err = w.tx.ExecContext(ctx, "DELETE FROM "+w.kind.Table+" WHERE id IN (SELECT id FROM "+w.kind.Table+" WHERE NOT ("+w.kind.Live+") ORDER BY created LIMIT ?)",
			all-w.kind.MostKept+1)
	}
	if err == nil {
		_, err = w.tx.ExecContext(ctx, "INSERT INTO "+w.kind.Table+" ("+columns+") VALUES (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	return err
}

// sweep ends the questions that nobody answered in time and the answers that nobody used in
// time, and returns them. It removes questions that ended long ago.
func (w *Work[Q]) sweep(ctx context.Context) ([]Q, error) {
	ended, err := w.Change(ctx, w.kind.Ends, w.Now.UnixMilli())
	if err == nil {
		_, err = w.tx.ExecContext(ctx, "DELETE FROM "+w.kind.Table+" WHERE NOT ("+w.kind.Live+") AND max(created, answered, expires) < ?", w.Now.Add(-keepEnded).UnixMilli())
	}
	return ended, err
}

// NewID returns an ID for a question of a kind. The ID is short enough to be read out and
// typed, and is not a secret that gives access.
func NewID(kind string) string { return kind + "-" + strings.ToLower(rand.Text()[:8]) }
