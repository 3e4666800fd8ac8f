package callback

import (
	"context"
	"database/sql"
	"time"
)

const (
	armedColumns = "id, tenant, slot, message, delay, left, due, session"
	firedColumns = "id, tenant, slot, message, session, fired, times, left, taken, self"
)

// armed are the callbacks that a query finds.
func armed(ctx context.Context, tx *sql.Tx, query string, args ...any) (all []Callback, _ error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c Callback
		var delay, due int64
		if err := rows.Scan(&c.ID, &c.Tenant, &c.Slot, &c.Message, &delay, &c.Left, &due, &c.Session); err != nil {
			return nil, err
		}
		c.Delay, c.Due = time.Duration(delay)*time.Millisecond, at(due)
		all = append(all, c)
	}
	return all, rows.Err()
}

// fired are the deliveries that a query finds.
func fired(ctx context.Context, tx *sql.Tx, query string, args ...any) (all []Delivery, _ error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d Delivery
		var when, taken int64
		if err := rows.Scan(&d.ID, &d.Tenant, &d.Slot, &d.Message, &d.Session, &when, &d.Times, &d.Left, &taken, &d.self); err != nil {
			return nil, err
		}
		d.Fired, d.Told = at(when), at(taken)
		all = append(all, d)
	}
	return all, rows.Err()
}

// at is a time that the tables hold.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
