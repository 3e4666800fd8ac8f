package mcp

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// Bounds of tickets. A page asks for a ticket and connects immediately.
const (
	ticketLife    = 30 * time.Second
	ownerTickets  = 16   // most tickets of one principal; a further one replaces the oldest
	tenantTickets = 1024 // most tickets of all principals of a tenant
)

// Tickets are logins for one connection each. They are for pages, which cannot set headers
// on a WebSocket. A page offers its ticket as a subprotocol, which the logs of proxies may
// show; so a ticket is valid once, for a short time, and for one page. The methods are safe
// for concurrent use.
type Tickets struct {
	now func() time.Time // returns times with a monotonic clock

	mu   sync.Mutex
	open map[[sha256.Size]byte]*pageLogin // guarded by mu: logins by the digest of the ticket
	last int64                            // guarded by mu: number of the newest ticket
}

// pageLogin is the login that a ticket stands for.
type pageLogin struct {
	caller *Identity // nil if there are no tenants
	owner  owner
	page   string // the page's origin; empty for a client that is not a page
	path   string // path of the WebSocket; the caller has logged in at the place with this path
	until  time.Time
	number int64
}

// NewTickets returns an empty set of tickets.
func NewTickets() *Tickets {
	return &Tickets{now: time.Now, open: make(map[[sha256.Size]byte]*pageLogin)}
}

// issue makes a ticket for a caller, a page and the path of a WebSocket.
func (t *Tickets) issue(caller *Identity, page, path string) (ticket string, bad *wire.Error) {
	p := &pageLogin{caller: caller, page: page, path: path, until: t.now().Add(ticketLife)}
	if caller != nil {
		p.owner = caller.owner()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own, all := 0, 0
	var oldest [sha256.Size]byte
	for digest, o := range t.open {
		if t.now().After(o.until) {
			delete(t.open, digest)
			continue
		}
		if o.owner == p.owner {
			if own++; own == 1 || o.number < t.open[oldest].number {
				oldest = digest
			}
		}
		if o.owner.tenant == p.owner.tenant {
			all++
		}
	}
	switch {
	case own >= ownerTickets:
		delete(t.open, oldest)
	case all >= tenantTickets:
		return "", wire.OverLimit("tickets", ticketLife, "there are %d unused tickets, the most that a tenant may have; try again after some have expired", all)
	}
	ticket = rand.Text()
	t.last++
	p.number = t.last
	t.open[sha256.Sum256([]byte(ticket))] = p
	return ticket, nil
}

// redeem returns the login of a ticket that page shows at path, and ends the ticket even if
// it is not valid there.
func (t *Tickets) redeem(ticket, page, path string) (*pageLogin, bool) {
	digest := sha256.Sum256([]byte(ticket))
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.open[digest]
	delete(t.open, digest)
	if p == nil || p.page != page || p.path != path || t.now().After(p.until) {
		return nil, false
	}
	return p, true
}
