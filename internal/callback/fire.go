package callback

import (
	"context"
	"database/sql"
	"time"

	"belljar.dev/internal/store"
)

const (
	// tick is how often a Book looks for due callbacks, and the least time between two
	// firings.
	tick = time.Second
	// lookAgain is how often a Book checks whether other processes have ended and left
	// callbacks or deliveries.
	lookAgain = 10 * time.Second
)

// Run fires due callbacks until ctx ends, at most one callback of each tenant per second.
// idle reports whether a tenant may be notified now. No callback of a tenant that is never
// idle fires.
func (b *Book) Run(ctx context.Context, idle func(tenant string) bool) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := b.Tick(ctx, idle); err != nil && ctx.Err() == nil {
			b.kept.Log.Error("callbacks cannot be fired", "err", err)
		}
	}
}

// Tick fires the callbacks that are due now, one for each idle tenant, and takes over what
// ended processes have left. It does nothing within a second of its last firing.
func (b *Book) Tick(ctx context.Context, idle func(tenant string) bool) error {
	if !b.kept.Store.Made() {
		return nil // no callback was ever set
	}
	now := b.kept.Now()
	b.mu.Lock()
	// A clock that was set back must not keep callbacks waiting.
	early := now.Before(b.next) && b.next.Sub(now) <= lookAgain || now.Sub(b.last) < tick && !now.Before(b.last)
	b.mu.Unlock()
	if early {
		return nil
	}
	if err := b.adopt(ctx); err != nil {
		return err
	}
	due, next, err := b.due(ctx, now)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.next = next
	b.mu.Unlock()
	for _, c := range due {
		if !idle(c.Tenant) {
			continue
		}
		d, ok, err := b.fire(ctx, c, now)
		if err != nil {
			return err
		}
		if ok {
			b.announce(ctx, d)
		}
	}
	return nil
}

// due returns, for each tenant, the callback of this process that has been due for the
// longest time, and the time of the next look.
func (b *Book) due(ctx context.Context, now time.Time) (due []Callback, next time.Time, err error) {
	next = now.Add(lookAgain)
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		all, err := armed(ctx, tx, "SELECT "+armedColumns+" FROM callbacks_armed WHERE place = ? AND self = ? AND (due <= ? OR due > ? + delay) ORDER BY due, id",
			b.kept.Place, b.kept.Self, now.UnixMilli(), now.UnixMilli())
		if err != nil {
			return err
		}
		seen := make(map[string]bool)
		for _, c := range all {
			if !seen[c.Tenant] {
				seen[c.Tenant] = true
				due = append(due, c)
			}
		}
		var first sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT min(due) FROM callbacks_armed WHERE place = ? AND self = ?", b.kept.Place, b.kept.Self).Scan(&first); err != nil {
			return err
		}
		if due := store.Time(first.Int64); first.Valid && due.Before(next) {
			next = due
		}
		return nil
	})
	return due, next, err
}

// fire makes a delivery of a callback. It arms the callback again, or frees its slot after
// the last time. False means that another process was faster, that the clock was set back,
// or that too many deliveries wait.
func (b *Book) fire(ctx context.Context, c Callback, now time.Time) (d Delivery, ok bool, err error) {
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		ok = false
		again, err := armed(ctx, tx, "SELECT "+armedColumns+" FROM callbacks_armed WHERE id = ? AND due = ? AND self = ?", c.ID, c.Due.UnixMilli(), b.kept.Self)
		if err != nil || len(again) == 0 {
			return err
		}
		if c.Due.After(now) { // due later than its whole delay, so the clock was set back
			_, err = tx.ExecContext(ctx, "UPDATE callbacks_armed SET due = ? WHERE id = ?", now.Add(c.Delay).UnixMilli(), c.ID)
			return err
		}
		var waiting int
		err = tx.QueryRowContext(ctx, "SELECT count(*) FROM callbacks_fired WHERE place = ? AND tenant = ? AND taken = 0 AND callback <> ?", b.kept.Place, c.Tenant, c.ID).Scan(&waiting)
		if err != nil || waiting >= maxPending {
			return err
		}
		left := c.Left
		if left != Forever {
			left--
		}
		if left == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM callbacks_armed WHERE id = ?", c.ID)
		} else {
			_, err = tx.ExecContext(ctx, "UPDATE callbacks_armed SET due = ?, left = ? WHERE id = ?", now.Add(c.Delay).UnixMilli(), left, c.ID)
		}
		if err != nil {
			return err
		}
		all, err := fired(ctx, tx, `INSERT INTO callbacks_fired (callback, tenant, place, slot, message, session, fired, times, left, self) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
			ON CONFLICT (callback) WHERE taken = 0 DO UPDATE SET fired = excluded.fired, times = times + 1, left = excluded.left, posted = 0, self = excluded.self
			RETURNING `+firedColumns, c.ID, c.Tenant, b.kept.Place, c.Slot, c.Message, c.Session, now.UnixMilli(), left, b.kept.Self)
		if err != nil {
			return err
		}
		d, ok = all[0], true
		return nil
	})
	return d, ok, err
}

// announce notifies all callers that wait for a delivery.
func (b *Book) announce(ctx context.Context, d Delivery) {
	b.mu.Lock()
	b.untaken, b.last = true, d.Fired
	b.mu.Unlock()
	b.watch.Wake(d.Tenant)
	b.changed(d.Tenant)
	b.deliver(ctx, d)
}

// deliver posts a delivery, and notes that it was posted.
func (b *Book) deliver(ctx context.Context, d Delivery) {
	b.posts.Lock()
	defer b.posts.Unlock()
	err := b.post(d)
	if err == nil {
		err = b.kept.Write(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE callbacks_fired SET posted = times WHERE id = ?", d.ID)
			return err
		})
	}
	if err != nil {
		b.kept.Log.Error("a callback was not delivered to the inbox and the hooks; the server that takes over from this one tries again", "slot", d.Slot, "err", err)
	}
}
