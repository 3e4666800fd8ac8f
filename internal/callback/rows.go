package callback

import (
	"context"
	"database/sql"
	"time"

	"belljar.dev/internal/store"
)

// The columns in the order in which armed and fired scan them. The column taken is the time of
// Book.Told.
const (
	armedColumns = "id, tenant, slot, message, delay, left, due, session"
	firedColumns = "id, tenant, slot, message, session, fired, times, left, taken, self"
)

// armed returns the callbacks that a query finds.
func armed(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]Callback, error) {
	return store.Rows(ctx, tx, func(row *sql.Rows) (c Callback, err error) {
		var delay, due int64
		err = row.Scan(&c.ID, &c.Tenant, &c.Slot, &c.Message, &delay, &c.Left, &due, &c.Session)
		c.Delay, c.Due = time.Duration(delay)*time.Millisecond, store.Time(due)
		return c, err
	}, query, args...)
}

// fired returns the deliveries that a query finds.
func fired(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]Delivery, error) {
	return store.Rows(ctx, tx, func(row *sql.Rows) (d Delivery, err error) {
		var when, taken int64
		err = row.Scan(&d.ID, &d.Tenant, &d.Slot, &d.Message, &d.Session, &when, &d.Times, &d.Left, &taken, &d.self)
		d.Fired, d.Told = store.Time(when), store.Time(taken)
		return d, err
	}, query, args...)
}
