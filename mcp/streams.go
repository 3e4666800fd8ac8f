package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// streaming takes a stream that lasts for the caller's tenant, and bounds it by the life of
// the caller's token. If there is no room, the answer has been sent, and ok is false.
// Otherwise the caller calls done at the end of the stream.
//
// The stream is the last answer of its connection. It ends when the server does, at the
// same moment as those of all clients, and each would try its next request on that
// connection. Over HTTP/2 other requests share it, and its end is announced (RFC 9113, 6.8).
func (w *web) streaming(ctx context.Context, rw http.ResponseWriter, r *http.Request, p posted, tenant string) (_ context.Context, done func(), ok bool) {
	closed, bad := w.server.cfg.stream(tenant)
	if bad != nil {
		w.busy(rw, http.StatusTooManyRequests, p, bad)
		return nil, nil, false
	}
	if r.ProtoMajor == 1 {
		rw.Header().Set("Connection", "close")
	}
	ctx, end := w.server.web.callers.whileValid(ctx)
	return ctx, func() {
		end()
		closed()
	}, true
}

// stream takes a stream for the caller's tenant. The caller calls done.
func (c *Config) stream(tenant string) (done func(), bad *wire.Error) {
	most := DefaultStreams
	if own, named := c.tenantLimits(tenant); named {
		most = orElse(own.Streams, most)
	}
	if !c.Shared.take(quotaStreams, tenant, most) {
		return nil, wire.OverLimit(quotaStreams, time.Minute, "all %d streams of tenant %s are open (quota streams); close one and try again", most, tenant)
	}
	return func() { c.Shared.giveBack(quotaStreams, tenant) }, nil
}

// DefaultStreams is how many streams may be open at once where there are no tenants.
const DefaultStreams = 1024

// callers are those whose streams are open. A stream goes on for as long as its client
// likes, so it ends when its caller would not be let in any more.
type callers struct {
	cfg *Config

	mu   sync.Mutex
	open map[*openStream]struct{} // guarded by mu
}

// openStream is a request whose answer is a stream without an end.
type openStream struct {
	holds func() bool // whether its caller would be let in now
	end   func()
}

func newCallers(cfg *Config) *callers {
	return &callers{cfg: cfg, open: make(map[*openStream]struct{})}
}

// whileValid bounds a stream by the life of the caller's token: the client opens it anew with
// the next one. The caller calls done.
func (c *callers) whileValid(ctx context.Context) (_ context.Context, done func()) {
	var end context.CancelFunc
	if expires := c.cfg.callerOf(ctx).Expires; expires.IsZero() {
		ctx, end = context.WithCancel(ctx)
	} else {
		ctx, end = context.WithDeadline(ctx, expires)
	}
	s := &openStream{func() bool { return c.cfg.holds(ctx) }, end}
	c.mu.Lock()
	c.open[s] = struct{}{}
	c.mu.Unlock()
	if !s.holds() { // since it was let in, and before recheck could find it
		end()
	}
	return ctx, func() {
		c.mu.Lock()
		delete(c.open, s)
		c.mu.Unlock()
		end()
	}
}

// recheck ends the streams of those who would not be let in any more.
func (c *callers) recheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.open {
		if !s.holds() {
			s.end()
		}
	}
}
