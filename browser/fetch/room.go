package fetch

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

const (
	roomsMost = 64
	// roomLife is how long a room stands. The limits of a profile are about the
	// life of a box; here they are about an hour of one tenant's pages.
	roomLife = time.Hour
)

// rooms are those that are open: one for each tenant and what its grant lets
// out. What was fetched for one is never seen in another.
type rooms struct {
	open  func(g policies.Grant) (Door, error)
	burst int // requests to one host at once

	mu     sync.Mutex
	all    map[roomKey]*room
	closed bool
}

type roomKey struct {
	tenant, profile string
	egress          *policies.Egress
}

// room is the door of a tenant and what was learned through it.
type room struct {
	door   Door
	client *http.Client
	cache  *cache
	hosts  *hosts
	robots *robotsCache
	born   time.Time

	// Guarded by the mutex of rooms.
	last time.Time
	uses int
	gone bool // to be closed by its last user
}

func newRooms(open func(g policies.Grant) (Door, error), burst int) *rooms {
	return &rooms{open: open, burst: burst, all: make(map[roomKey]*room)}
}

// take is the room of a grant, which give gives back.
func (r *rooms) take(g policies.Grant, now time.Time) (*room, error) {
	k := roomKey{g.Tenant(), g.Profile(), g.Egress()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, &Error{Kind: KindClosed, Message: "belljar is ending"}
	}
	m := r.all[k]
	if m != nil && now.Sub(m.born) > roomLife {
		r.remove(k, m)
		m = nil
	}
	if m == nil {
		if len(r.all) >= roomsMost && !r.makeRoom() {
			return nil, &Error{Kind: KindBusy, Message: "belljar reads pages for too many tenants at once", Instead: "try again in a moment", Retry: time.Second}
		}
		door, err := r.open(g) // opens no file and no connection
		if err != nil {
			return nil, &Error{Kind: KindBroken, Message: "the way out of the sandbox cannot be opened", Instead: "tell the person you work for to look into the log of the server", Err: err}
		}
		client := door.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		m = &room{door: door, client: client, cache: newCache(), hosts: newHosts(r.burst), robots: newRobotsCache(), born: now}
		r.all[k] = m
	}
	m.uses++
	m.last = now
	return m, nil
}

// give gives a room back.
func (r *rooms) give(m *room) {
	r.mu.Lock()
	m.uses--
	last := m.uses == 0 && m.gone
	r.mu.Unlock()
	if last {
		m.door.Close()
	}
}

// remove takes a room out; mu must be held. One that nobody uses is closed,
// which waits only for connections that are idle.
func (r *rooms) remove(k roomKey, m *room) {
	delete(r.all, k)
	m.gone = true
	if m.uses == 0 {
		m.door.Close()
	}
}

// makeRoom removes the room that was not used for the longest time; mu must be
// held.
func (r *rooms) makeRoom() bool {
	var oldest roomKey
	var found *room
	for k, m := range r.all {
		if m.uses == 0 && (found == nil || m.last.Before(found.last)) {
			oldest, found = k, m
		}
	}
	if found != nil {
		r.remove(oldest, found)
	}
	return found != nil
}

// close closes all rooms. Who still uses one gets errors.
func (r *rooms) close() error {
	r.mu.Lock()
	all := r.all
	r.all, r.closed = nil, true
	r.mu.Unlock()
	var err error
	for _, m := range all {
		err = cmp.Or(err, m.door.Close())
	}
	return err
}

// egressDoor is the door of a grant as it is outside of tests.
func egressDoor(record func(tenant string, r egress.Record)) func(policies.Grant) (Door, error) {
	return func(g policies.Grant) (Door, error) {
		cfg := egress.Config{Egress: g.Egress(), Profile: g.Profile()}
		if record != nil {
			tenant := g.Tenant()
			cfg.Record = func(r egress.Record) { record(tenant, r) }
		}
		return egress.New(cfg)
	}
}
