package people

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"belljar.dev/internal/store"
)

// keepEnded is the time for which people can look back at questions that have ended.
const keepEnded = 7 * 24 * time.Hour

// Said contains the person who has answered a question, and how.
type Said struct {
	By       string    `json:"by,omitempty"`
	Via      string    `json:"via,omitempty"` // way of the answer
	Note     string    `json:"note,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
}

// Desk receives the questions of one kind, and the answers of people. Several processes may
// have a desk over the same store. Its methods are safe for concurrent use; it need not be
// closed.
type Desk[Q any] struct {
	kind  Kind[Q]
	kept  store.Book
	watch store.Watch // wakes the callers that wait for a question, by its ID
	ended func(Q)
}

// New returns the desk in a store. ended gets each question that this desk has ended
// because its time was over. New does not open the database.
func New[Q any](cfg store.Config, kind Kind[Q], ended func(Q)) *Desk[Q] {
	return &Desk[Q]{kind: kind, kept: store.NewBook(cfg, kind.Schema), ended: ended}
}

// Write runs f in a transaction. Before f runs, the questions whose time is over have
// ended.
func (d *Desk[Q]) Write(ctx context.Context, f func(w *Work[Q]) error) error {
	var ended []Q
	err := d.kept.Write(ctx, func(tx *sql.Tx) (err error) {
		w := d.work(tx)
		if ended, err = w.sweep(ctx); err != nil {
			return err
		}
		return f(w)
	})
	if err != nil {
		return err // nothing was written, so no question has ended
	}
	for _, q := range ended {
		id, _, _ := d.kind.Status(q)
		d.watch.Wake(id)
		d.ended(q)
	}
	return nil
}

// Answer makes the changes to a question that settle returns, and wakes the callers that
// wait for the question. first is false if settle returned no change, because the same
// answer was given before. When Answer returns, the change is on the disk.
func (d *Desk[Q]) Answer(ctx context.Context, id string, settle func(q Q, now time.Time) (set string, args []any, err error)) (q Q, first bool, err error) {
	err = d.Write(ctx, func(w *Work[Q]) error {
		if q, err = w.One(ctx, "id = ?", id); err != nil {
			return err
		}
		set, args, err := settle(q, w.Now)
		if err != nil || set == "" {
			return err
		}
		first = true
		done, err := w.Change(ctx, set+" WHERE id = ?", append(args, id)...)
		if len(done) == 1 {
			q = done[0]
		}
		return err
	})
	if err == nil && first {
		d.watch.Wake(id)
	}
	return q, first, err
}

// Get returns a question as it is now. The error wraps ErrUnknown if there is no such
// question.
func (d *Desk[Q]) Get(ctx context.Context, id string) (q Q, err error) {
	read := func(w *Work[Q]) error {
		q, err = w.One(ctx, "id = ?", id)
		return err
	}
	err = d.kept.Read(ctx, func(tx *sql.Tx) error { return read(d.work(tx)) })
	if err == nil {
		if _, _, ends := d.kind.Status(q); !ends.IsZero() && !ends.After(d.kept.Now()) {
			err = d.Write(ctx, read)
		}
	}
	if err != nil {
		var none Q
		return none, fmt.Errorf("%s %s: %w", d.kind.Name, d.kind.Shown(id), err)
	}
	return q, nil
}

// Wait waits until a question no longer waits for an answer, at most for the time most or
// until ctx ends, and returns the question.
func (d *Desk[Q]) Wait(ctx context.Context, id string, most time.Duration) (q Q, err error) {
	err = d.watch.Until(ctx, id, most, func() (bool, error) {
		got, err := d.Get(ctx, id)
		if err != nil {
			return false, err
		}
		q = got
		_, waits, _ := d.kind.Status(q)
		return !waits, nil
	})
	return q, err
}

// Stop makes every Wait, also a later one, return immediately. Questions outlive the desk.
func (d *Desk[Q]) Stop() { d.watch.Stop() }

// List returns questions, the newest first, at most Kind.MostListed: all of them, or only
// those that have not ended.
func (d *Desk[Q]) List(ctx context.Context, all bool) (list []Q, err error) {
	return d.ListOf(ctx, all, nil)
}

// ListOf is List for the questions of some tenants; nil means all tenants.
func (d *Desk[Q]) ListOf(ctx context.Context, all bool, tenants []string) (list []Q, err error) {
	where := "(" + d.kind.Live + ")"
	if all {
		where = "true"
	}
	args := []any{}
	if tenants != nil {
		names, err := json.Marshal(tenants)
		if err != nil {
			return nil, err
		}
		where, args = where+" AND tenant IN (SELECT value FROM json_each(?))", append(args, string(names))
	}
	err = d.Write(ctx, func(w *Work[Q]) error {
		list, err = w.Some(ctx, where+" ORDER BY created DESC, id LIMIT ?", append(args, d.kind.MostListed)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", d.kind.Name, err)
	}
	return list, nil
}

func (d *Desk[Q]) work(tx *sql.Tx) *Work[Q] {
	return &Work[Q]{tx: tx, kind: &d.kind, Now: d.kept.Now()}
}
