package callback

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"belljar.dev/internal/store"
)

// Take returns the deliveries that wait for an owner, oldest first. The caller passes them
// on. No other caller gets them until this caller reports with Told that the agent has
// them, or with Untold that they may be lost. Take leaves out deliveries that another
// session asked for while alive reports that session as open, and deliveries of other
// processes. If a process ends between Take and Told, its deliveries wait again.
func (b *Book) Take(ctx context.Context, o store.Owner, alive func(session string) bool) (all []Delivery, err error) {
	b.mu.Lock()
	untaken := b.untaken
	b.untaken = false // reset before the query: a callback that fires from now on sets it again
	b.mu.Unlock()
	if !untaken {
		return nil, nil
	}
	if !b.kept.Store.Made() {
		b.remember()
		return nil, nil
	}
	waiting, err := b.untold(ctx)
	left := func(d Delivery) bool { return d.self != b.kept.Self && !b.kept.Alive(d.self) }
	if err == nil && slices.ContainsFunc(waiting, left) {
		if err = b.adopt(ctx); err == nil {
			waiting, err = b.untold(ctx)
		}
	}
	others := err != nil
	for _, d := range waiting {
		// A process delivers only the callbacks that it fired itself.
		if d.self == b.kept.Self && d.Tenant == o.Tenant && (d.Session == o.Session || alive == nil || !alive(d.Session)) {
			all = append(all, d)
		} else {
			others = true
		}
	}
	if err == nil {
		all, err = b.claim(ctx, all)
	}
	if others || err != nil {
		b.remember()
	}
	if err != nil {
		return nil, fmt.Errorf("take callbacks: %w", err)
	}
	return all, nil
}

// untold returns the deliveries that are not known to have reached an agent, oldest first.
func (b *Book) untold(ctx context.Context) (all []Delivery, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		all, err = fired(ctx, tx, "SELECT "+firedColumns+" FROM callbacks_fired WHERE place = ? AND taken = 0 ORDER BY fired, id", b.kept.Place)
		return err
	})
	return all, err
}

// claim returns the deliveries among all that no other caller has taken, and marks them as
// taken.
func (b *Book) claim(ctx context.Context, all []Delivery) (own []Delivery, err error) {
	var claimed []Delivery
	b.mu.Lock()
	for _, d := range all {
		if !b.onWay[d.ID] {
			b.onWay[d.ID] = true
			claimed = append(claimed, d)
		}
	}
	b.mu.Unlock()
	if len(claimed) == 0 {
		return nil, nil
	}
	// Since the first query, these deliveries may have been received, or their callbacks
	// may have fired again.
	now, err := b.untold(ctx)
	for _, d := range now {
		if slices.ContainsFunc(claimed, func(c Delivery) bool { return c.ID == d.ID }) {
			own = append(own, d)
		}
	}
	b.release(slices.DeleteFunc(claimed, func(c Delivery) bool {
		return slices.ContainsFunc(own, func(d Delivery) bool { return c.ID == d.ID })
	}))
	return own, err
}

// Told notes that the agent has received deliveries that were taken, so that they do not
// wait any more. If a callback has fired again since Take, a delivery with the later
// firings still waits.
func (b *Book) Told(ctx context.Context, all []Delivery) error {
	now := b.kept.Now()
	err := b.kept.Write(ctx, func(tx *sql.Tx) error {
		for _, d := range all {
			if err := told(ctx, tx, d, now); err != nil {
				return err
			}
			if err := forget(ctx, tx, d.Tenant, b.kept.Place); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Untold(all)
		return fmt.Errorf("record that callbacks were delivered: %w", err)
	}
	b.release(all)
	b.remember() // callbacks may have fired again
	for _, tenant := range tenantsOf(all) {
		b.changed(tenant)
	}
	return nil
}

// told notes that the agent has received one delivery, with the number of firings that it
// had then.
func told(ctx context.Context, tx *sql.Tx, d Delivery, now time.Time) error {
	res, err := tx.ExecContext(ctx, "UPDATE callbacks_fired SET taken = ? WHERE id = ? AND taken = 0 AND times <= ?", now.UnixMilli(), d.ID, d.Times)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	// The row continues with the later firings, and the received delivery gets a row of its
	// own.
	_, err = tx.ExecContext(ctx, `INSERT INTO callbacks_fired (callback, tenant, place, slot, message, session, fired, times, left, taken, posted, self)
		SELECT callback, tenant, place, slot, message, session, ?, ?, ?, ?, ?, self FROM callbacks_fired WHERE id = ? AND taken = 0`,
		d.Fired.UnixMilli(), d.Times, d.Left, now.UnixMilli(), d.Times, d.ID)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE callbacks_fired SET times = times - ? WHERE id = ? AND taken = 0", d.Times, d.ID)
	return err
}

// Untold notes that deliveries that were taken may be lost, so that they wait again.
func (b *Book) Untold(all []Delivery) {
	b.release(all)
	b.remember()
	for _, tenant := range tenantsOf(all) {
		b.watch.Wake(tenant)
	}
}

func (b *Book) release(all []Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range all {
		delete(b.onWay, d.ID)
	}
}

// tenantsOf returns the tenants of deliveries.
func tenantsOf(all []Delivery) (tenants []string) {
	for _, d := range all {
		if !slices.Contains(tenants, d.Tenant) {
			tenants = append(tenants, d.Tenant)
		}
	}
	return tenants
}

// remember notes that deliveries may still wait.
func (b *Book) remember() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.untaken = true
}

// forget removes received deliveries, except for the newest keptTaken.
func forget(ctx context.Context, tx *sql.Tx, tenant, place string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM callbacks_fired WHERE id IN (
		SELECT id FROM callbacks_fired WHERE place = ? AND tenant = ? AND taken <> 0 ORDER BY taken DESC, id DESC LIMIT -1 OFFSET ?)`, place, tenant, keptTaken)
	return err
}

// Wait takes the deliveries that wait for an owner. If no delivery waits, it waits until a
// callback fires, but at most for most or MaxWait, and not after ctx ends.
func (b *Book) Wait(ctx context.Context, o store.Owner, alive func(session string) bool, most time.Duration) (all []Delivery, err error) {
	err = b.watch.Until(ctx, o.Tenant, min(most, MaxWait), func() (done bool, err error) {
		b.remember() // another process may have fired a callback
		all, err = b.Take(ctx, o, alive)
		return len(all) > 0, err
	})
	return all, err
}

// Fired returns the deliveries of a tenant, the newest first: the deliveries that wait, and
// the last received ones. It takes none of them.
func (b *Book) Fired(ctx context.Context, tenant string) (all []Delivery, err error) {
	if !b.kept.Store.Made() {
		return nil, nil
	}
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		all, err = fired(ctx, tx, "SELECT "+firedColumns+" FROM callbacks_fired WHERE place = ? AND tenant = ? ORDER BY fired DESC, id DESC LIMIT ?", b.kept.Place, tenant, maxPending+keptTaken)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	return all, nil
}
