package callback

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/order"
	"belljar.dev/internal/store"
)

// Config is the configuration of a Book. As long as a process runs, no other process fires
// the callbacks that it set.
type Config struct {
	store.Config
	// Post delivers to a further place, for example an inbox. After an error, the process
	// that takes over from this one tries again. Post is called by one goroutine at a time,
	// and the same delivery may be posted twice after a crash. A nil Post posts nothing.
	Post func(Delivery) error
	// Changed is called when the deliveries that wait for a tenant have changed. It must
	// not block.
	Changed func(tenant string)
}

// Book contains callbacks. Several processes may each have a Book for the same store. Its
// methods are safe for concurrent use. It need not be closed; Run returns when its context
// ends.
type Book struct {
	kept    store.Book
	post    func(Delivery) error
	changed func(tenant string)
	posts   sync.Mutex  // held while post runs, which may be slow: it blocks only other posts
	watch   store.Watch // wakes the callers that wait for deliveries, by tenant

	mu      sync.Mutex
	onWay   map[int64]bool // guarded by mu: ids of deliveries that were taken, without Told or Untold yet
	next    time.Time      // guarded by mu: no callback of this process is known to be due before
	untaken bool           // guarded by mu: whether deliveries may wait
	last    time.Time      // guarded by mu: when a callback last fired
}

// New returns the book in a store. It opens nothing.
func New(cfg Config) *Book {
	if cfg.Post == nil {
		cfg.Post = func(Delivery) error { return nil }
	}
	if cfg.Changed == nil {
		cfg.Changed = func(string) {}
	}
	cfg.Self = cmp.Or(cfg.Self, rand.Text())
	return &Book{
		kept: store.NewBook(cfg.Config, schema), post: cfg.Post, changed: cfg.Changed, onWay: make(map[int64]bool),
		untaken: true, // deliveries of an earlier process may wait
	}
}

// Now returns the time by which callbacks are due.
func (b *Book) Now() time.Time { return b.kept.Now() }

// Set arms a callback. When it returns nil, the callback is on the disk. ErrFull and
// ErrTaken mean that the callback got no slot.
func (b *Book) Set(ctx context.Context, o store.Owner, r Request) (c Callback, err error) {
	if err := r.check(); err != nil {
		return c, err
	}
	now := b.kept.Now()
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		all, err := armed(ctx, tx, "SELECT "+armedColumns+" FROM callbacks_armed WHERE tenant = ? AND place = ?", o.Tenant, b.kept.Place)
		if err != nil {
			return err
		}
		slot, err := freeSlot(all, r.Slot)
		if err != nil {
			return err
		}
		c = Callback{Owner: o, Slot: slot, Message: r.Message, Delay: r.Delay, Left: r.Repeat, Due: now.Add(r.Delay)}
		res, err := tx.ExecContext(ctx, "INSERT INTO callbacks_armed (tenant, place, slot, message, delay, left, due, session, self) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			o.Tenant, b.kept.Place, slot, c.Message, c.Delay.Milliseconds(), c.Left, c.Due.UnixMilli(), c.Session, b.kept.Self)
		if err != nil {
			return err
		}
		c.ID, err = res.LastInsertId()
		return err
	})
	if err != nil {
		return Callback{}, err
	}
	b.soon(c.Due)
	return c, nil
}

// freeSlot returns the wanted slot, or the first free slot if want is nil.
func freeSlot(all []Callback, want *int) (int, error) {
	used := func(slot int) bool { return slices.ContainsFunc(all, func(c Callback) bool { return c.Slot == slot }) }
	if len(all) >= Slots {
		return 0, ErrFull
	}
	if want != nil {
		if used(*want) {
			return 0, fmt.Errorf("callback_id: %w: %d; cancel it first, or leave callback_id out for a free one", ErrTaken, *want)
		}
		return *want, nil
	}
	slot := 0
	for used(slot) {
		slot++
	}
	return slot, nil
}

// List returns the armed callbacks of a tenant, by slot.
func (b *Book) List(ctx context.Context, tenant string) (all []Callback, err error) {
	err = b.kept.Read(ctx, func(tx *sql.Tx) error {
		all, err = armed(ctx, tx, "SELECT "+armedColumns+" FROM callbacks_armed WHERE tenant = ? AND place = ? ORDER BY slot", tenant, b.kept.Place)
		return err
	})
	return all, err
}

// Cancel disarms the callback of a slot, or all of a tenant if slot is nil, and returns
// what it disarmed. Deliveries that have fired already are still delivered.
func (b *Book) Cancel(ctx context.Context, tenant string, slot *int) (gone []Callback, err error) {
	if err := checkSlot(slot); err != nil {
		return nil, err
	}
	err = b.kept.Write(ctx, func(tx *sql.Tx) error {
		where, args := "tenant = ? AND place = ?", []any{tenant, b.kept.Place}
		if slot != nil {
			where, args = where+" AND slot = ?", append(args, *slot)
		}
		gone, err = armed(ctx, tx, "DELETE FROM callbacks_armed WHERE "+where+" RETURNING "+armedColumns, args...)
		if err == nil && slot != nil && len(gone) == 0 {
			return fmt.Errorf("callback_id: %w: %d; action list shows what is set", ErrEmpty, *slot)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	order.By(gone, func(a, c *Callback) int { return a.Slot - c.Slot })
	return gone, nil
}

// soon notes that a callback is due at a time.
func (b *Book) soon(due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if due.Before(b.next) {
		b.next = due
	}
}
