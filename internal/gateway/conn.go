package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/mcp/wire"
	"belljar.dev/sandbox/egress"
)

// Bounds of how often the lists of a server are read again because it says that they have
// changed.
const (
	settleTime   = time.Second // in which changes count as one
	listsMost    = 6           // times in listsWindow
	listsWindow  = time.Minute
	listsTimeout = 30 * time.Second
)

// conn is a connection to one server, with its lists. Its methods are safe for concurrent
// use.
type conn struct {
	*peer.Conn
	site   *site
	offers *offers
	server *server
	key    upstream.Key
	door   *egress.Door // of a remote server; nil for others
	runs   pin.Runs
	roots  []string                // directories of its box, for roots/list
	stderr func(most int) []string // the last lines of its process; nil for a remote server

	changed chan struct{} // holds one while the lists are to be read again
	stop    context.CancelFunc
	wg      sync.WaitGroup

	reading chan struct{} // holds one while the lists are read

	listeners listeners // of log messages
	addresses askedAddresses

	mu    sync.Mutex
	face  *face               // guarded by mu
	calls map[string]*running // guarded by mu: by Call.ID
}

// running is a call of a client that a server is at.
type running struct {
	call  mcp.Call
	kept  *kept // nil for a call that ends with its request
	asked int   // questions to the person at the client
	comes bool  // the result of the call asks the client, which makes the call again
	quiet bool  // it may ask nothing: it was not decided like a call of a tool
}

// begin starts the goroutine that reads the lists again. Close ends it.
func (c *conn) begin(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.mu.Lock()
	c.stop = stop
	c.mu.Unlock()
	c.wg.Go(func() { c.follow(ctx, c.readAgain) })
	c.site.add(c)
}

// Close ends the connection and what belongs to it.
func (c *conn) Close() {
	c.site.remove(c)
	c.mu.Lock()
	stop := c.stop
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	c.Conn.Close()
	c.wg.Wait()
	c.closeDoor()
}

func (c *conn) closeDoor() {
	if c.door != nil {
		_ = c.door.Close() // nothing of it is kept
	}
}

// notified handles a notification of the server. It must not block.
func (c *conn) notified(n peer.Notification) {
	switch n.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		c.again()
	case "notifications/message":
		c.logged(n)
	case "notifications/elicitation/complete":
		c.addresses.done(wire.Text(wire.Member(n.Params, "elicitationId")))
	}
}

// again asks follow to read the lists again.
func (c *conn) again() {
	select {
	case c.changed <- struct{}{}:
	default: // a request that waits serves for this one, too
	}
}

// follow has the lists read again after the server has announced changes, and not too often.
func (c *conn) follow(ctx context.Context, read func(context.Context) error) {
	var times []time.Time
	wait := func(d time.Duration) bool { return pause.For(ctx, d) == nil }
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		if !wait(settleTime) {
			return
		}
		if len(times) == listsMost {
			if !wait(time.Until(times[0].Add(listsWindow))) {
				return
			}
			times = times[1:]
		}
		times = append(times, time.Now())
		select { // what came meanwhile is read now
		case <-c.changed:
		default:
		}
		if err := read(ctx); err != nil && ctx.Err() == nil {
			c.site.cfg.Log.Warn("the lists of an upstream cannot be read again; what it has changed is not offered", "upstream", c.server.Name, "err", err)
		}
	}
}

// readAgain reads the lists again, and offers what is trusted of them. If the server as a whole
// is held now, the connection ends.
func (c *conn) readAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listsTimeout, fmt.Errorf("its changed lists did not come within %v", listsTimeout))
	defer cancel()
	if err := c.read(ctx); err != nil {
		if errors.Is(err, upstream.ErrHeld) {
			c.Conn.Close()
		}
		return err
	}
	c.offer()
	return nil
}

// offer offers the tenant what the server has.
func (c *conn) offer() {
	c.mu.Lock()
	f := c.face
	c.mu.Unlock()
	c.offers.put(c.key.Tenant, f)
}

// read reads the lists and compares them with the pins. It fails if the server as a whole is held.
func (c *conn) read(ctx context.Context) error {
	select { // a server may take its time with the list that another call has asked for
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	f := &face{server: c.server, info: c.Info(), changes: c.Changes()} // what is announced from now on is another change
	f.listing.Server, f.listing.Instructions = nameOf(f.info), f.info.Instructions
	for _, l := range []struct {
		capability, method, member string
		to                         *[]json.RawMessage
	}{
		{"tools", "tools/list", "tools", &f.listing.Tools},
		{"prompts", "prompts/list", "prompts", &f.listing.Prompts},
		{"resources", "resources/templates/list", "resourceTemplates", &f.listing.Templates},
	} {
		if wire.Member(f.info.Capabilities, l.capability) == nil {
			continue
		}
		list, err := c.List(ctx, l.method, l.member, peer.CallOptions{})
		if answer, ok := errors.AsType[*peer.Error](err); ok && answer.Code == wire.MethodNotFound.Code(wire.Legacy) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.method, err)
		}
		*l.to, f.missing = list.Items, append(f.missing, list.Missing...)
		if list.TTL != 0 && (f.ttl == 0 || list.TTL < f.ttl) {
			f.ttl = list.TTL
		}
	}
	f.judge(ctx, c.site.cfg.Pins, c.key.Tenant, c.runs, c.offers.others(c.key.Tenant, c.server.Name))
	if f.verdict.Held != "" {
		return heldError(f.verdict.Held)
	}
	c.mu.Lock()
	c.face = f
	c.mu.Unlock()
	return nil
}

// now returns the face of the connection. If the server has announced a change, its lists are
// read first: a call must not use a definition that nobody has compared.
func (c *conn) now(ctx context.Context) (*face, error) {
	c.mu.Lock()
	f := c.face
	c.mu.Unlock()
	if f.changes == c.Changes() {
		return f, nil
	}
	if err := c.readAgain(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.face, nil
}
