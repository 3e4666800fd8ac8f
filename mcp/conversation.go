package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// link is the connection between one client and the server for the whole of their
// conversation: standard streams, or a WebSocket.
type link struct {
	transport string
	out       io.Writer              // receives each message, followed by a line feed
	read      func(*guard) error     // handles what the client sends; returns nil at its end or after stop
	halves    bool                   // a client that has ended its input may still read
	among     bool                   // there may be other links at the same time
	stop      func(cause, err error) // ends the link, and makes read return
	prepare   func(*guard)           // called before the first message; may be nil
}

// hungUp is the reason if the client or the link ends a conversation, and not the server.
type hungUp struct {
	err  error // nil if the client has ended the conversation
	deaf bool  // the client no longer reads
}

// Error states that the client has ended the conversation or that the link broke.
func (h *hungUp) Error() string {
	if h.err == nil {
		return "the client has ended the conversation"
	}
	return h.err.Error()
}

// conversation is a conversation that has begun.
type conversation struct {
	link  *link
	guard *guard
	out   *wire.LineWriter
	ss    *sdk.ServerSession
	leave context.CancelCauseFunc // begins the end of the conversation

	over       chan struct{} // closed at the end of the conversation
	cause, err error         // why it ended; see run
}

// begin begins a conversation, which ends soon after ctx ends. The caller must call run.
func (s *Server) begin(ctx context.Context, l *link) (_ *conversation, err error) {
	if err := s.sessions.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.sessions.wg.Done()
		}
	}()
	session, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	c := &conversation{link: l, over: make(chan struct{})}
	until, leave := context.WithCancelCause(ctx)
	c.leave = leave
	c.out = wire.NewLineWriter(l.out, func(err error) {
		leave(&hungUp{err: fmt.Errorf("write to the client: %w", err), deaf: true})
	})
	g := newGuard(session, lines{c.out, l.among})
	c.guard = g
	if l.prepare != nil {
		l.prepare(g)
	}
	// The context of calls must not end with ctx, because running calls are drained.
	calls := context.WithoutCancel(ctx)
	g.serve = func(e *entry) bool { return direct{s, g, e}.serve(calls) }
	calls = notifying(calls, g)
	c.ss, err = s.adapter.sdk.Connect(context.WithValue(calls, sessionKey{}, session), g, nil)
	if err != nil {
		leave(err)
		session.end(err)
		l.stop(err, err)
		c.out.Close()
		return nil, err
	}
	session.reach(c.ss, g.out)
	session.by(l.transport, nil)
	context.AfterFunc(until, func() { c.end(context.Cause(until)) })
	c.follow(session)
	return c, nil
}

// follow makes the conversation end with its session or with the server.
func (c *conversation) follow(session *Session) {
	session.mu.Lock()
	session.conn.leave = c.leave
	ended, cause := session.life.ended, session.life.cause
	session.mu.Unlock()
	switch {
	case ended: // the session ended before this function was called
		c.leave(cause)
	case session.server.sessions.over():
		c.leave(ErrShutdown)
	}
}

// run serves the client until the client or the server ends the conversation. cause is the
// reason of the server, and nil if the client ended it. err is not nil if the link broke.
//
// run reads in the goroutine of its caller. The goroutine that ends the conversation starts
// only at the end, because there may be many conversations in which nothing happens.
func (c *conversation) run() (cause, err error) {
	c.leave(&hungUp{err: c.link.read(c.guard)})
	<-c.over
	return c.cause, c.err
}

// end ends a conversation.
func (c *conversation) end(why error) {
	defer close(c.over)
	c.cause, c.err = c.drain(why)
	c.close()
	c.guard.session.server.sessions.wg.Done()
	c.link.stop(c.cause, c.err) // may wait for the client, so Shutdown does not wait for it
}

// drain waits for the answers of running calls, if the client still reads. why is the
// reason for the end of the conversation; cause and err are what run returns.
func (c *conversation) drain(why error) (cause, err error) {
	g := c.guard
	client, ofClient := errors.AsType[*hungUp](why)
	switch {
	case !ofClient:
		cause = why
		g.shut(evShutdown)
	case client.deaf, !c.link.halves:
		g.shut(evError)
		return nil, client.err
	case client.err != nil:
		err = client.err
		g.shut(evError)
	default:
		g.shut(evShutdown)
	}
	wait := time.NewTimer(g.limits.Drain)
	defer wait.Stop()
	select {
	case <-g.drained:
	case <-wait.C:
		g.log.Warn("calls were cancelled: they ran longer than the server waits when it ends",
			"session", g.session.id, "waited", g.limits.Drain)
	case <-g.session.done: // the time of Shutdown was up
	case <-c.out.Gone():
	}
	return cause, err
}

// close ends the session of a conversation, and writes the last answers.
func (c *conversation) close() {
	g := c.guard
	g.session.end(ErrShutdown)
	patiently(g.drained) // waits for the answers of the calls that were cancelled
	g.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := c.ss.Wait(); err != nil {
			g.log.Debug("end of a connection", "session", g.session.id, "error", err)
		}
		g.calls.end()
	}()
	patiently(over)
	c.out.Close()
	patiently(c.out.Done())
	g.mu.Lock()
	g.move(evClose)
	g.mu.Unlock()
	abandon(g)
}

// patiently waits for done, but not longer than patience.
func patiently(done <-chan struct{}) {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
}
