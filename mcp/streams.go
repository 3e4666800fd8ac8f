package mcp

import (
	"context"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

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
