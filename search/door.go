package search

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Door is the way to the engines for the queries of one grant. *egress.Door is
// one. A test may have another, which leads to servers of its own.
type Door interface {
	Client() *http.Client
	Close() error
}

const (
	doorsMost = 64
	// doorLife is how long a door stands. The limits of a profile are about the
	// life of a box; here they are about an hour of one tenant's queries.
	doorLife = time.Hour
)

// doors are those that stand open, one for each tenant and what its grant lets
// out: connections are kept between the queries of a tenant, and shared with
// no other.
type doors struct {
	open func(g policies.Grant) (Door, error)

	mu     sync.Mutex
	all    map[doorKey]*lent
	closed bool
}

type doorKey struct {
	tenant, profile string
	egress          *policies.Egress
}

// lent is a door and how many use it.
type lent struct {
	door Door
	born time.Time
	last time.Time
	uses int
	gone bool // to be closed by its last user
}

func newDoors(open func(g policies.Grant) (Door, error)) *doors {
	return &doors{open: open, all: make(map[doorKey]*lent)}
}

// take is the door of a grant, which give gives back.
func (d *doors) take(g policies.Grant, now time.Time) (*lent, error) {
	key := doorKey{g.Tenant(), g.Profile(), g.Egress()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	l := d.all[key]
	if l != nil && now.Sub(l.born) > doorLife {
		d.remove(key, l)
		l = nil
	}
	if l == nil {
		if len(d.all) >= doorsMost && !d.makeRoom() {
			return nil, errors.New("too many tenants search at once; try again in a moment")
		}
		door, err := d.open(g) // opens no file and no connection
		if err != nil {
			return nil, err
		}
		l = &lent{door: door, born: now}
		d.all[key] = l
	}
	l.uses++
	l.last = now
	return l, nil
}

// give gives a door back.
func (d *doors) give(l *lent) {
	d.mu.Lock()
	l.uses--
	last := l.uses == 0 && l.gone
	d.mu.Unlock()
	if last {
		l.door.Close()
	}
}

// remove takes a door out; mu must be held. One that nobody uses is closed,
// which waits only for connections that are idle.
func (d *doors) remove(key doorKey, l *lent) {
	delete(d.all, key)
	l.gone = true
	if l.uses == 0 {
		l.door.Close()
	}
}

// makeRoom removes the door that was not used for the longest time; mu must be
// held.
func (d *doors) makeRoom() bool {
	var oldest doorKey
	var found *lent
	for key, l := range d.all {
		if l.uses == 0 && (found == nil || l.last.Before(found.last)) {
			oldest, found = key, l
		}
	}
	if found != nil {
		d.remove(oldest, found)
	}
	return found != nil
}

// close closes all doors. Who still uses one gets errors.
func (d *doors) close() error {
	d.mu.Lock()
	all := d.all
	d.all, d.closed = nil, true
	d.mu.Unlock()
	var err error
	for _, l := range all {
		err = cmp.Or(err, l.door.Close())
	}
	return err
}

// egressDoor is the door of a grant as it is outside of tests. It tells record
// of connections and requests, without their paths: some engines take the
// query in it.
func egressDoor(record func(tenant string, r egress.Record)) func(policies.Grant) (Door, error) {
	return func(g policies.Grant) (Door, error) {
		cfg := egress.Config{Egress: g.Egress(), Profile: g.Profile()}
		if record != nil {
			tenant := g.Tenant()
			cfg.Record = func(r egress.Record) {
				r.Path = ""
				record(tenant, r)
			}
		}
		return egress.New(cfg)
	}
}
