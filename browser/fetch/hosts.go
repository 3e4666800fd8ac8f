package fetch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/internal/pause"
)

// How often one host may be asked for one tenant; robots.txt and redirects count as well.
const (
	hostRate  = 2.0 // requests a second
	hostBurst = 20
	hostsMost = 1024
	hostWait  = 10 * time.Second // longest wait of a call for its turn
)

// hosts bounds how often each host may be asked.
type hosts struct {
	burst int

	mu  sync.Mutex
	all map[string]*rate.Limiter
}

func newHosts(burst int) *hosts { return &hosts{burst: burst, all: make(map[string]*rate.Limiter)} }

// turn waits until the host may be asked.
func (h *hosts) turn(ctx context.Context, host string, waiting func(time.Duration)) error {
	h.mu.Lock()
	l := h.all[host]
	if l == nil {
		if len(h.all) >= hostsMost {
			clear(h.all) // rare; a host may be asked twice as often for once
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
			Kind: KindBusy, Message: fmt.Sprintf("belljar has just sent many requests to %s, and waits before the next one", host),
			Instead: fmt.Sprintf("read something else, and call again in %v", wait.Round(time.Second)), Retry: wait,
		}
	}
	waiting(wait)
	return pause.For(ctx, wait)
}
