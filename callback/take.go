package callback

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// lookElsewhere is how long Wait goes without looking what another process fired.
const lookElsewhere = time.Second

// Take are the deliveries that wait for a tenant, oldest first, and nobody else
// is given them again. Those that another session asked for are left to it
// while alive says that it lives, and those of another process to that.
func (b *Book) Take(ctx context.Context, tenant, session string, alive func(session string) bool) (all []Delivery, err error) {
	b.mu.Lock()
	untaken := b.untaken
	b.untaken = false // before the look: what fires from now on sets it again
	b.mu.Unlock()
	if !untaken {
		return nil, nil
	}
	if !b.cfg.Store.Made() {
		b.remember()
		return nil, nil
	}
	now := b.cfg.Now()
	others := false
	mine := func(d Delivery) bool {
		if d.self != b.cfg.Self && b.cfg.Alive(d.self) {
			return false // it is told by its own process
		}
		return d.Session == session || alive == nil || !alive(d.Session)
	}
	look := func(tx *sql.Tx) error {
		waiting, err := fired(ctx, tx, "SELECT "+firedColumns+" FROM callbacks_fired WHERE place = ? AND taken = 0 ORDER BY fired, id", b.cfg.Place)
		all = slices.DeleteFunc(waiting, func(d Delivery) bool {
			leave := d.Tenant != tenant || !mine(d)
			others = others || leave
			return leave
		})
		return err
	}
	if err = b.tables.Read(ctx, look); err == nil && len(all) > 0 {
		err = b.tables.Write(ctx, func(tx *sql.Tx) error {
			if err := look(tx); err != nil {
				return err
			}
			for i := range all {
				if _, err := tx.ExecContext(ctx, "UPDATE callbacks_fired SET taken = ? WHERE id = ?", now.UnixMilli(), all[i].ID); err != nil {
					return err
				}
				all[i].Taken = now
			}
			return forget(ctx, tx, tenant, b.cfg.Place)
		})
	}
	if others || err != nil {
		b.remember()
	}
	if err != nil {
		return nil, fmt.Errorf("take callbacks: %w", err)
	}
	if len(all) > 0 {
		b.cfg.Changed(tenant)
	}
	return all, nil
}

// remember notes that something may still wait.
func (b *Book) remember() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.untaken = true
}

// forget drops what was taken long ago.
func forget(ctx context.Context, tx *sql.Tx, tenant, place string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM callbacks_fired WHERE id IN (
		SELECT id FROM callbacks_fired WHERE place = ? AND tenant = ? AND taken <> 0 ORDER BY taken DESC, id DESC LIMIT -1 OFFSET ?)`, place, tenant, keptTaken)
	return err
}

// Wait takes what waits for a tenant, and where that is nothing, waits until
// something fires, so much time has passed, or ctx ends.
func (b *Book) Wait(ctx context.Context, tenant, session string, alive func(session string) bool, most time.Duration) ([]Delivery, error) {
	timer := time.NewTimer(min(most, MaxWait))
	defer timer.Stop()
	again := time.NewTicker(lookElsewhere)
	defer again.Stop()
	for {
		changed, leave := b.watch(tenant)
		b.remember() // another process may have fired
		all, err := b.Take(ctx, tenant, session, alive)
		if err != nil || len(all) > 0 {
			leave()
			return all, err
		}
		select {
		case <-changed:
		case <-again.C:
		case <-timer.C:
			leave()
			return nil, nil
		case <-ctx.Done():
			leave()
			return nil, context.Cause(ctx)
		}
		leave()
	}
}

// watch is closed when this process fires something for a tenant. The caller
// calls leave.
func (b *Book) watch(tenant string) (changed <-chan struct{}, leave func()) {
	ch := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[tenant] = append(b.waiting[tenant], ch)
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waiting[tenant] = slices.DeleteFunc(b.waiting[tenant], func(c chan struct{}) bool { return c == ch })
		if len(b.waiting[tenant]) == 0 {
			delete(b.waiting, tenant)
		}
	}
}

// Fired are the deliveries of a tenant, the newest first: those that wait, and
// the last that were taken. It takes none.
func (b *Book) Fired(ctx context.Context, tenant string) (all []Delivery, err error) {
	if !b.cfg.Store.Made() {
		return nil, nil
	}
	err = b.tables.Read(ctx, func(tx *sql.Tx) error {
		all, err = fired(ctx, tx, "SELECT "+firedColumns+" FROM callbacks_fired WHERE place = ? AND tenant = ? ORDER BY fired DESC, id DESC LIMIT ?", b.cfg.Place, tenant, maxPending+keptTaken)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at callbacks: %w", err)
	}
	return all, nil
}
