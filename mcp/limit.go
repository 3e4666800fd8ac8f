package mcp

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/mcp/wire"
)

// Limits bound what one client can make the server keep or do. A zero field has the
// default that its comment names; no limit can be switched off. Running, Queue,
// QueueBytes, Burst and Rate count per session.
type Limits struct {
	Line       int           // bytes of one message from the client; 1 MiB
	Response   int           // bytes of one answer; 10 MiB
	Running    int           // requests that run at once; 128
	Queue      int           // requests that wait for their turn; 1024
	QueueBytes int           // bytes of the requests that wait and of those that run; 8 MiB
	Burst      int           // requests at once before the rate counts; 1000
	Rate       float64       // requests per second after the burst; 100
	Depth      int           // nesting of one message; 128
	Drain      time.Duration // for running calls to finish at the end; 30 s
	Sessions   int           // HTTP sessions at once, where there are no tenants; 256
	// ClientSessions is how many of those may be open at once for clients with the same
	// name; 128. The name proves nothing: the limit stops a client that forgets its
	// sessions from taking all places, and not one that does so on purpose.
	ClientSessions int
	// TenantSessions is how many HTTP sessions of one tenant are open at once; 64.
	// All tenants together have no bound: a few of them could reach it and keep the
	// others out.
	TenantSessions int
	Idle           time.Duration // how long an HTTP session without requests lives; 30 min
	Body           time.Duration // for the body of an HTTP request to come; 15 s
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

// queueRetry is how long a client is asked to wait when the queue is full. It is
// a guess: nobody knows when one of the calls that run will end.
const queueRetry = time.Second

// admission decides which requests of one client run, wait or are refused.
// Refusing beyond Running alone would turn away a burst of requests that each
// need microseconds, so they wait their turn, in order, within a bound.
// Pings, notifications and responses do not pass through it: they cost little
// and must get through when everything else is full. It is safe for concurrent
// use.
type admission struct {
	rate *rate.Limiter
	hall *hall // whose mu guards the fields below

	limits  Limits    // guarded by hall.mu
	running int       // guarded by hall.mu: requests that run
	bytes   int       // guarded by hall.mu: of those
	queue   []*ticket // guarded by hall.mu
	waiting int       // guarded by hall.mu: requests in queue
	queued  int       // guarded by hall.mu: bytes in queue
	waits   bool      // guarded by hall.mu: for its turn in the hall
}

// ticket is a place in an admission for n requests, which have bytes in all.
// start is called once, by ask or by a leave that made room; it must not
// block or call an admission. Without start, turn is closed instead; ask makes it for a
// ticket that has to wait.
type ticket struct {
	n, bytes int
	start    func()
	turn     chan struct{}
	running  bool // guarded by hall.mu
	dropped  bool // guarded by hall.mu: nobody wants it any more
}

// begin tells the owner of a ticket that its turn has come.
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

// count counts n requests, or says why they are refused: more came than the rate allows.
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
	return wire.OverLimit("rate", wait, "too many requests: %d at once and %g per second are served; try again in %v",
		limits.Burst, limits.Rate, wait.Round(time.Millisecond))
}

// ask starts a ticket, queues it, or says why it is refused.
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
		return wire.OverLimit("in_flight", queueRetry, "too many requests in flight: %d run and %d wait; try again when some are answered",
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

// fits reports whether t can run now, as far as the admission's own limits go. One request
// alone always can. Bytes are bounded too because a request keeps its message while it
// runs.
func (a *admission) fits(t *ticket) bool {
	return a.running == 0 || a.running+t.n <= a.limits.Running && a.bytes+t.bytes <= a.limits.QueueBytes
}

func (a *admission) admit(t *ticket) {
	t.running = true
	a.running += t.n
	a.bytes += t.bytes
	a.hall.running += t.n
}

// next is the waiting ticket that fits the admission's own limits, or nil.
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

// leave gives the place of a started ticket back and starts those that now
// fit.
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

// start starts the tickets that fit now, of this admission and of others; it releases the
// hall, which is held.
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

// now returns the present limits.
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

// set changes the limits of later requests, and starts those that fit now.
func (a *admission) set(l Limits) {
	a.rate.SetLimit(rate.Limit(l.Rate))
	a.rate.SetBurst(l.Burst)
	a.hall.mu.Lock()
	a.limits = l
	a.start()
}

// withdraw removes a waiting ticket from the queue. It reports false for a ticket that
// has been started; its owner must call leave.
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
	a.start() // the ones behind it may be smaller
	return true
}

// drop takes a ticket back whose owner has ended, whether it runs, waits or is just about to
// ask: then it will be refused.
func (a *admission) drop(t *ticket) {
	a.hall.mu.Lock()
	t.dropped = true
	a.hall.mu.Unlock()
	if !a.withdraw(t) {
		a.leave(t)
	}
}

// hall bounds the requests that run at once in all. Where it is full, the admissions
// that have requests waiting get their turns one after the other, a request each: one that
// has many does not keep those of others out.
type hall struct {
	mu      sync.Mutex // also that of every admission of the hall
	most    int
	running int          // guarded by mu
	waiting []*admission // guarded by mu: whose first request fits its own limits, in their turn
}

// fits reports whether n more requests can run; mu is held. Requests that come together
// can run alone.
func (h *hall) fits(n int) bool { return h.running == 0 || h.running+n <= h.most }

// wait has an admission wait for its turn; mu is held.
func (h *hall) wait(a *admission) {
	if !a.waits {
		a.waits = true
		h.waiting = append(h.waiting, a)
	}
}

// promote admits the requests that fit now, one of each admission in turn; mu is held. The
// caller starts them.
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
			continue // it gave up, or its own limits are full
		}
		a.pop()
		started = append(started, next)
		if a.next() != nil {
			h.wait(a) // behind the others
		}
	}
	return started
}
