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

// Bounds of reading the lists of a server again because the server has announced changes.
const (
	settleTime   = time.Second // time in which several changes count as one
	listsMost    = 6           // number of reads in listsWindow
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
	door   *egress.Door // door of a remote server; nil for other servers
	runs   pin.Runs
	roots  []string                // directories of its box, for roots/list
	stderr func(most int) []string // returns the last lines of its process; nil for a remote server

	changed chan struct{} // contains one element while the lists are to be read again
	stop    context.CancelFunc
	wg      sync.WaitGroup

	reading chan struct{} // contains one element while the lists are read

	listeners listeners // listeners for log messages
	addresses askedAddresses

	mu    sync.Mutex
	face  *face               // guarded by mu
	calls map[string]*running // guarded by mu: running calls by Call.ID
}

// running is a call of a client that a server is working on.
type running struct {
	call  mcp.Call
	kept  *kept // nil for a call that ends with its request
	asked int   // number of questions to the person at the client
	comes bool  // whether its result asks the client, which makes the call again
	quiet bool  // whether it may not ask, because it was not decided like a tool call
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

// Close ends the connection and everything that belongs to it.
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
		_ = c.door.Close() // the door keeps no data
	}
}

// notified handles a notification of the server. It does not block.
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

// again makes follow read the lists again.
func (c *conn) again() {
	select {
	case c.changed <- struct{}{}:
	default: // the request that waits already serves this caller too
	}
}

// follow calls read after the server has announced changes, but not too often.
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
		select { // changes that were announced meanwhile are read now
		case <-c.changed:
		default:
		}
		if err := read(ctx); err != nil && ctx.Err() == nil {
			c.site.cfg.Log.Warn("the lists of an upstream cannot be read again; its changes are not offered", "upstream", c.server.Name, "err", err)
		}
	}
}

// readAgain reads the lists again, and offers the trusted part of them. If the server as a
// whole is held now, it ends the connection.
func (c *conn) readAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listsTimeout, fmt.Errorf("its changed lists did not arrive within %v", listsTimeout))
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

// offer offers the server's definitions to the tenant.
func (c *conn) offer() {
	c.mu.Lock()
	f := c.face
	c.mu.Unlock()
	c.offers.put(c.key.Tenant, f)
}

// read reads the lists and compares them with the pins. It returns an error if the server
// as a whole is held.
func (c *conn) read(ctx context.Context) error {
	select { // the list that another call has requested may take long
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// a change that is announced from now on is a further change
	f := &face{server: c.server, info: c.Info(), changes: c.Changes()}
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

// now returns the face of the connection. If the server has announced a change, it reads
// the lists first: a call must not use a definition that was not compared.
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
