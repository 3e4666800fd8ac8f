package mcp

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/mcp/wire"
)

// Limits limit what one client can make the server keep or do. A zero field means the
// default that its comment names; no limit can be switched off. Running, Queue, QueueBytes,
// Burst and Rate count per session.
type Limits struct {
	Line       int           // bytes of one message from the client; 1 MiB
	Response   int           // bytes of one answer; 10 MiB
	Running    int           // requests that run at the same time; 128
	Queue      int           // requests that wait for their turn; 1024
	QueueBytes int           // bytes of the requests that wait and of those that run; 8 MiB
	Burst      int           // requests of one burst, before the rate applies; 1000
	Rate       float64       // requests per second after the burst; 100
	Depth      int           // nesting of one message; 128
	Drain      time.Duration // time at the end for running calls to finish; 30 s
	Sessions   int           // open HTTP sessions, if there are no tenants; 256
	// ClientSessions is how many of these sessions may be open for clients with the same
	// name; 128. The name proves nothing: the limit stops a client that forgets its
	// sessions from using all places, but not a client that does so on purpose.
	ClientSessions int
	// TenantSessions is how many HTTP sessions of one tenant may be open; 64. There is no
	// limit for all tenants together, because a few tenants could reach it and keep the
	// others out.
	TenantSessions int
	Idle           time.Duration // how long an HTTP session without requests lives; 30 min
	Body           time.Duration // time for the body of an HTTP request to arrive; 15 s
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Line:           orElse(l.Line, 1<<20),
		Response:       orElse(l.Response, 10<<20),
		Running:        orElse(l.Running, 128),
		Queue:          orElse(l.Queue, 1024),
		QueueBytes:     orElse(l.QueueBytes, 8<<20),
		Burst:          orElse(l.Burst, 1000),
		Rate:           orElse(l.Rate, 100),
		Depth:          orElse(l.Depth, 128),
		Drain:          orElse(l.Drain, 30*time.Second),
		Sessions:       orElse(l.Sessions, 256),
		ClientSessions: orElse(l.ClientSessions, 128),
		TenantSessions: orElse(l.TenantSessions, 64),
		Idle:           orElse(l.Idle, 30*time.Minute),
		Body:           orElse(l.Body, 15*time.Second),
	}
}

func orElse[T int | float64 | time.Duration](v, other T) T {
	if v <= 0 {
		return other
	}
	return v
}

// queueRetry is how long the server asks a client to wait when the queue is full. It is a
// guess, because it is not known when a running call will end.
const queueRetry = time.Second

// admission decides which requests of one client run, wait or are refused. If all requests
// beyond Running were refused, a burst of requests that each need microseconds would be
// turned away. So these requests wait for their turn, in order, within a limit. Pings,
// notifications and responses do not pass through the admission: they cost little, and must
// be handled when everything else is full. It is safe for concurrent use.
type admission struct {
	rate *rate.Limiter
	hall *hall // its mu guards the fields below

	limits  Limits    // guarded by hall.mu
	running int       // guarded by hall.mu: number of running requests
	bytes   int       // guarded by hall.mu: bytes of the running requests
	queue   []*ticket // guarded by hall.mu
	waiting int       // guarded by hall.mu: number of requests in queue
	queued  int       // guarded by hall.mu: bytes of the requests in queue
	waits   bool      // guarded by hall.mu: it is in hall.waiting
}

// ticket is a place in an admission for n requests with a total number of bytes. start is
// called once, by ask or by a leave that made room; it must not block or call an admission.
// If start is nil, turn is closed instead. ask makes turn for a ticket that must wait.
type ticket struct {
	n, bytes int
	start    func()
	turn     chan struct{}
	running  bool // guarded by hall.mu
	dropped  bool // guarded by hall.mu: its owner has ended
}

// begin notifies the owner of a ticket that its turn has come.
func (t *ticket) begin() {
	switch {
	case t.start != nil:
		t.start()
	case t.turn != nil:
		close(t.turn)
	}
}

func newAdmission(l Limits, h *hall) *admission {
	return &admission{limits: l, hall: h, rate: rate.NewLimiter(rate.Limit(l.Rate), l.Burst)}
}

// count counts n requests. It returns an error if they exceed the rate.
func (a *admission) count(n int) *wire.Error {
	r := a.rate.ReserveN(time.Now(), n)
	if r.OK() && r.Delay() == 0 {
		return nil
	}
	wait, limits := queueRetry, a.now()
	if r.OK() {
		wait = r.Delay()
		r.Cancel()
	}
	return wire.OverLimit("rate", wait, "too many requests: the limit is %d in a burst and %g per second; try again in %v",
		limits.Burst, limits.Rate, wait.Round(time.Millisecond))
}

// ask starts a ticket or queues it, or returns why it is refused.
func (a *admission) ask(t *ticket) *wire.Error {
	if bad := a.count(t.n); bad != nil {
		return bad
	}
	a.hall.mu.Lock()
	if t.dropped {
		defer a.hall.mu.Unlock()
		return wire.Errorf(wire.InternalError, "the session has ended and takes no new requests")
	}
	if len(a.queue) == 0 && len(a.hall.waiting) == 0 && a.fits(t) && a.hall.fits(t.n) {
		a.admit(t)
		a.hall.mu.Unlock()
		t.begin()
		return nil
	}
	if a.waiting+t.n > a.limits.Queue || a.queued+t.bytes > a.limits.QueueBytes {
		defer a.hall.mu.Unlock()
		return wire.OverLimit("in_flight", queueRetry, "too many requests in flight: %d run and %d wait; try again after some have been answered",
			a.running, a.waiting)
	}
	if t.start == nil {
		t.turn = make(chan struct{})
	}
	a.queue = append(a.queue, t)
	a.waiting += t.n
	a.queued += t.bytes
	a.start()
	return nil
}

// fits reports whether t can run now within the admission's own limits. A single ticket can
// always run. Bytes are limited, too, because a request keeps its message while it runs.
func (a *admission) fits(t *ticket) bool {
	return a.running == 0 || a.running+t.n <= a.limits.Running && a.bytes+t.bytes <= a.limits.QueueBytes
}

func (a *admission) admit(t *ticket) {
	t.running = true
	a.running += t.n
	a.bytes += t.bytes
	a.hall.running += t.n
}

// next returns the first waiting ticket if it fits the admission's own limits, or nil.
func (a *admission) next() *ticket {
	if len(a.queue) == 0 || !a.fits(a.queue[0]) {
		return nil
	}
	return a.queue[0]
}

// pop admits the first waiting ticket.
func (a *admission) pop() {
	next := a.queue[0]
	a.queue = slices.Delete(a.queue, 0, 1)
	a.waiting -= next.n
	a.queued -= next.bytes
	a.admit(next)
}

// leave releases the place of a started ticket, and starts the tickets that now fit.
func (a *admission) leave(t *ticket) {
	a.hall.mu.Lock()
	if t.running {
		t.running = false
		a.running -= t.n
		a.bytes -= t.bytes
		a.hall.running -= t.n
	}
	a.start()
}

// start starts the tickets that fit now, of this admission and of others. The caller holds
// hall.mu, and start unlocks it.
func (a *admission) start() {
	if a.next() != nil {
		a.hall.wait(a)
	}
	started := a.hall.promote()
	a.hall.mu.Unlock()
	for _, t := range started {
		t.begin()
	}
}

// now returns the current limits.
func (a *admission) now() Limits {
	a.hall.mu.Lock()
	defer a.hall.mu.Unlock()
	return a.limits
}

// busy returns how many requests run, and how many wait.
func (a *admission) busy() (running, waiting int) {
	a.hall.mu.Lock()
	defer a.hall.mu.Unlock()
	return a.running, a.waiting
}

// set changes the limits for later requests, and starts the tickets that fit now.
func (a *admission) set(l Limits) {
	a.rate.SetLimit(rate.Limit(l.Rate))
	a.rate.SetBurst(l.Burst)
	a.hall.mu.Lock()
	a.limits = l
	a.start()
}

// withdraw removes a waiting ticket from the queue. It returns false for a ticket that has
// been started; the ticket's owner must then call leave.
func (a *admission) withdraw(t *ticket) bool {
	a.hall.mu.Lock()
	i := slices.Index(a.queue, t)
	if i < 0 {
		a.hall.mu.Unlock()
		return false
	}
	a.queue = slices.Delete(a.queue, i, i+1)
	a.waiting -= t.n
	a.queued -= t.bytes
	a.start() // the tickets after it may be smaller
	return true
}

// drop releases a ticket whose owner has ended, whether it runs, waits or has not called
// ask yet. In the last case, ask will refuse it.
func (a *admission) drop(t *ticket) {
	a.hall.mu.Lock()
	t.dropped = true
	a.hall.mu.Unlock()
	if !a.withdraw(t) {
		a.leave(t)
	}
}

// hall limits the requests of all admissions that run at the same time. If the hall is
// full, the admissions with waiting requests take turns, one request each: an admission
// with many requests does not keep those of others out.
type hall struct {
	mu      sync.Mutex // also the mutex of every admission of the hall
	most    int
	running int          // guarded by mu
	waiting []*admission // guarded by mu: admissions whose first request fits their own limits, in the order of their turns
}

// fits reports whether n more requests can run; the caller holds mu. A ticket with any
// number of requests can run alone.
func (h *hall) fits(n int) bool { return h.running == 0 || h.running+n <= h.most }

// wait adds an admission to those that wait for a turn; the caller holds mu.
func (h *hall) wait(a *admission) {
	if !a.waits {
		a.waits = true
		h.waiting = append(h.waiting, a)
	}
}

// promote admits the requests that fit now, one of each admission in turn; the caller holds
// mu, and starts the requests.
func (h *hall) promote() (started []*ticket) {
	for len(h.waiting) > 0 {
		a := h.waiting[0]
		next := a.next()
		if next != nil && !h.fits(next.n) {
			return started
		}
		h.waiting = h.waiting[1:]
		a.waits = false
		if next == nil {
			continue // it was withdrawn, or its own limits are full
		}
		a.pop()
		started = append(started, next)
		if a.next() != nil {
			h.wait(a) // after the others
		}
	}
	return started
}
