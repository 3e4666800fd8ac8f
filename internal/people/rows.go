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

// Kind is how the questions of one kind are kept. Its table has, besides what the kind
// wants, the columns id, tenant, state, created, expires and answered.
type Kind[Q any] struct {
	Name    string // in errors
	Schema  store.Schema
	Table   string
	Columns string // in the order of Scan
	Scan    func(row *sql.Rows) (Q, error)
	// Status is the id of a question, whether it waits for an answer, and when it ends
	// if nothing happens; the zero time for one that is over.
	Status func(q Q) (id string, waits bool, ends time.Time)
	Shown  func(id string) string // an id as errors show it

	Waiting string // the state of questions that wait
	Live    string // the condition on questions that are not over
	Ends    string // an UPDATE's assignments and condition for those whose time is over at ?1

	MostWaiting int // of one tenant
	MostKept    int // in all, those that are over included
	MostListed  int
}

// The errors of a question or an answer of any kind.
var (
	ErrUnknown = errors.New("there is no such") // what there is none of stands behind it
	ErrTooMany = errors.New("too many questions wait for an answer")
)

// Work is one transaction on the questions of a desk.
type Work[Q any] struct {
	Now  time.Time
	tx   *sql.Tx
	kind *Kind[Q]
}

// Some are the questions that a condition finds.
func (w *Work[Q]) Some(ctx context.Context, where string, args ...any) ([]Q, error) {
	return store.Rows(ctx, w.tx, w.kind.Scan, "SELECT "+w.kind.Columns+" FROM "+w.kind.Table+" WHERE "+where, args...)
}

// One is the first question that a condition finds. The error wraps ErrUnknown.
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

// Change are the questions that an UPDATE's assignments and condition changed, as they are
// now.
func (w *Work[Q]) Change(ctx context.Context, set string, args ...any) ([]Q, error) {
	return store.Rows(ctx, w.tx, w.kind.Scan, "UPDATE "+w.kind.Table+" SET "+set+" RETURNING "+w.kind.Columns, args...)
}

// Add writes a new question of a tenant, if one more fits: for that the oldest that are
// over make room.
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

// sweep ends what nobody answered or used in time, and forgets what ended long ago. It
// returns what it ended.
func (w *Work[Q]) sweep(ctx context.Context) ([]Q, error) {
	ended, err := w.Change(ctx, w.kind.Ends, w.Now.UnixMilli())
	if err == nil {
		_, err = w.tx.ExecContext(ctx, "DELETE FROM "+w.kind.Table+" WHERE NOT ("+w.kind.Live+") AND max(created, answered, expires) < ?", w.Now.Add(-keepEnded).UnixMilli())
	}
	return ended, err
}

// NewID is an id for a question of a kind: short enough to be read out and typed. It opens
// nothing by itself.
func NewID(kind string) string { return kind + "-" + strings.ToLower(rand.Text()[:8]) }
