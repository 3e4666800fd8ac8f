package mcp

import (
	"context"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// stream counts a stream of a tenant that opens. The caller calls done when the stream
// ends.
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

// DefaultStreams is how many streams may be open at the same time if there are no tenants.
const DefaultStreams = 1024

// callers are the callers with open streams. A stream lasts as long as its client likes, so
// it must be ended when its caller would be refused now.
type callers struct {
	cfg *Config

	mu   sync.Mutex
	open map[*openStream]struct{} // guarded by mu
}

// openStream is a request whose answer is a stream without an end.
type openStream struct {
	holds func() bool // reports whether its caller would still be accepted
	end   func()
}

func newCallers(cfg *Config) *callers {
	return &callers{cfg: cfg, open: make(map[*openStream]struct{})}
}

// whileValid bounds a stream by the life of the caller's token: the client opens a new
// stream with its next token. The caller of whileValid calls done when the stream ends.
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
	if !s.holds() { // may have changed after the request was accepted, before recheck could see this stream
		end()
	}
	return ctx, func() {
		c.mu.Lock()
		delete(c.open, s)
		c.mu.Unlock()
		end()
	}
}

// recheck ends the streams of callers that would be refused now.
func (c *callers) recheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.open {
		if !s.holds() {
			s.end()
		}
	}
}
