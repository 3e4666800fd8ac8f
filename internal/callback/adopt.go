package callback

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"belljar.dev/internal/order"
)

// adopt takes over what ended processes have left: the callbacks that they set, and the
// deliveries that they did not post, which adopt posts. If several processes try this, the
// one that writes first gets everything.
func (b *Book) adopt(ctx context.Context) error {
	var gone []string
	err := b.kept.Read(ctx, func(tx *sql.Tx) (err error) {
		gone, err = b.gone(ctx, tx)
		return err
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	var left []Delivery
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		left = nil
		gone, err := b.gone(ctx, tx) // another process may have been faster
		for _, self := range gone {
			if _, err := tx.ExecContext(ctx, "UPDATE callbacks_armed SET self = ? WHERE place = ? AND self = ?", b.kept.Self, b.kept.Place, self); err != nil {
				return err
			}
			some, err := fired(ctx, tx, "UPDATE callbacks_fired SET self = ? WHERE place = ? AND self = ? AND posted = 0 RETURNING "+firedColumns, b.kept.Self, b.kept.Place, self)
			if err != nil {
				return err
			}
			left = append(left, some...)
			if _, err := tx.ExecContext(ctx, "UPDATE callbacks_fired SET self = ? WHERE place = ? AND self = ? AND taken = 0", b.kept.Self, b.kept.Place, self); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	order.By(left, func(a, c *Delivery) int { return cmp.Compare(a.ID, c.ID) })
	b.mu.Lock()
	b.untaken, b.next = true, time.Time{} // an adopted callback may be due before all others
	b.mu.Unlock()
	for _, d := range left {
		b.changed(d.Tenant)
		b.deliver(ctx, d)
	}
	return nil
}

// gone returns the processes that left callbacks or deliveries and do not run any more.
func (b *Book) gone(ctx context.Context, tx *sql.Tx) ([]string, error) {
	return b.kept.Gone(ctx, tx, `SELECT self FROM callbacks_armed WHERE place = ?1 AND self <> ?2
		UNION SELECT self FROM callbacks_fired WHERE place = ?1 AND self <> ?2 AND (taken = 0 OR posted = 0)`, b.kept.Place, b.kept.Self)
}
