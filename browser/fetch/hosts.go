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
	all map[string]*rate.Limiter
}

func newHosts(burst int) *hosts { return &hosts{burst: burst, all: make(map[string]*rate.Limiter)} }

// turn waits until the host may be asked. It calls waiting with the time first. If the time
// is longer than hostWait or ends after the deadline of ctx, turn does not wait, and returns
// an *Error of KindBusy. If ctx ends during the wait, turn returns its error, and the host
// may be asked as if turn had not been called.
func (h *hosts) turn(ctx context.Context, host string, waiting func(time.Duration)) error {
	h.mu.Lock()
	l := h.all[host]
	if l == nil {
		if len(h.all) >= maxHosts {
			clear(h.all) // each host may then get one more burst
		}
		l = rate.NewLimiter(hostRate, h.burst)
		h.all[host] = l
	}
	h.mu.Unlock()
	r := l.Reserve()
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	deadline, ok := ctx.Deadline()
	if wait > hostWait || ok && time.Until(deadline) < wait {
		r.Cancel()
		return &Error{
			Kind: KindBusy, Message: fmt.Sprintf("belljar has sent many requests to %s within a short time, and did not send this one", host),
			Instead: fmt.Sprintf("read something else, and call again in %v", wholeSeconds(wait)), Retry: wait,
		}
	}
	waiting(wait)
	if err := pause.For(ctx, wait); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// wholeSeconds returns a time to wait in words for an agent: rounded up, so that a call
// after it is not too early.
func wholeSeconds(wait time.Duration) time.Duration {
	return max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
}
