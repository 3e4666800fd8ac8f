package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/internal/pause"
)

// How often one host may be asked in one room, which belongs to a tenant, its profile and
// its egress policy; robots.txt and redirects count as well.
const (
	hostRate  = 2.0              // requests a second
	hostBurst = 20               // requests at once
	maxHosts  = 1024             // hosts whose rate is remembered
	hostWait  = 10 * time.Second // longest wait of a call for its turn
)

// hosts bounds how often each host may be asked.
type hosts struct {
	burst int

	mu  sync.Mutex
	all map[string]*host
}

// host is the rate of one host, and the queue of the calls that wait for it. Only the first
// of the queue has a reservation: [rate.Reservation.Cancel] restores nothing that was
// reserved before a later reservation.
type host struct {
	*rate.Limiter
	first  chan struct{} // full while a call is the first
	queued int           // number of calls behind the first; guarded by hosts.mu
}

func newHosts(burst int) *hosts { return &hosts{burst: burst, all: make(map[string]*host)} }

// turn waits until the host may be asked. It calls waiting with the time first. If the time
// is longer than hostWait or ends after the deadline of ctx, turn does not wait, and returns
// an *Error of KindBusy. If ctx ends during the wait, turn returns its cause, and the calls that
// wait and later calls get their turns as if turn had not been called.
func (h *hosts) turn(ctx context.Context, name string, waiting func(time.Duration)) error {
	at, wait := h.join(ctx, name)
	switch {
	case wait == 0:
		return nil
	case at == nil:
		return &Error{
			Kind: KindBusy, Message: fmt.Sprintf("belljar has sent many requests to %s within a short time, and did not send this one", name),
			Instead: fmt.Sprintf("read something else, and call again in %v", wholeSeconds(wait)), Retry: wait,
		}
	}
	waiting(wait)
	select { // the sends on a channel succeed in their order
	case at.first <- struct{}{}:
		defer func() { <-at.first }()
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		at.queued--
		return context.Cause(ctx)
	}
	h.mu.Lock()
	at.queued--
	r := at.Reserve()
	h.mu.Unlock()
	if err := pause.For(ctx, r.Delay()); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// join takes the turn at a host if no wait is needed, and otherwise joins the queue of the
// host. wait is the time until the turn. If that is too long, at is nil, and the queue is as
// it was.
func (h *hosts) join(ctx context.Context, name string) (at *host, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = h.all[name]
	if at == nil {
		if len(h.all) >= maxHosts {
			clear(h.all) // each host may then get one more burst
		}
		at = &host{Limiter: rate.NewLimiter(hostRate, h.burst), first: make(chan struct{}, 1)}
		h.all[name] = at
	}
	lacks := float64(at.queued+1) - at.Tokens() // Tokens are negative while the first waits
	if wait = time.Duration(lacks / hostRate * float64(time.Second)); wait <= 0 {
		at.Reserve()
		return at, 0
	}
	if deadline, ok := ctx.Deadline(); wait > hostWait || ok && time.Until(deadline) < wait {
		return nil, wait
	}
	at.queued++
	return at, wait
}

// wholeSeconds returns a time to wait in words for an agent: rounded up, so that a call
// after it is not too early.
func wholeSeconds(wait time.Duration) time.Duration {
	return max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
}
