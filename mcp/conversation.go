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

// link is the way between one client and the server that lasts as long as their
// conversation: standard streams, or a WebSocket.
type link struct {
	transport string
	out       io.Writer              // gets each message with a line feed behind it
	read      func(*guard) error     // handles what the client sends; nil at its end, or after stop
	halves    bool                   // a client that sends nothing more may still read
	among     bool                   // there may be other links at the same time
	stop      func(cause, err error) // ends the link, and makes read return; see converse
	prepare   func(*guard)           // called before the first message; nil for nothing
}

// hungUp is why a conversation ends that the server has not ended.
type hungUp struct {
	err  error // nil if the client has ended it
	deaf bool  // the client reads nothing any more
}

// Error says that the link has ended or broken.
func (h *hungUp) Error() string {
	if h.err == nil {
		return "the client has ended the conversation"
	}
	return h.err.Error()
}

// converse serves the client of a link until one of the two ends that or ctx does. cause
// is why it was not the client; nil if it was. err says that the link broke.
//
// It reads in the goroutine of its caller. What ends the conversation begins another one,
// since there may be many conversations in which nothing happens.
func (s *Server) converse(ctx context.Context, l *link) (cause, err error) {
	if err := s.sessions.enter(); err != nil {
		return err, err
	}
	session, err := s.Open(ctx)
	if err != nil {
		s.sessions.wg.Done()
		return err, err
	}
	over, end := context.WithCancelCause(ctx)
	w := wire.NewLineWriter(l.out, func(err error) {
		end(&hungUp{err: fmt.Errorf("write to the client: %w", err), deaf: true})
	})
	g := newGuard(session, lines{w, l.among})
	if l.prepare != nil {
		l.prepare(g)
	}
	// Calls must not see ctx end: they drain.
	calls := context.WithoutCancel(ctx)
	g.serve = func(e *entry) bool { return s.serveCall(calls, g, e) }
	calls = notifying(calls, g)
	ss, err := s.adapter.sdk.Connect(context.WithValue(calls, sessionKey{}, session), g, nil)
	if err != nil {
		end(err)
		session.end(err)
		l.stop(err, err)
		w.Close()
		s.sessions.wg.Done()
		return err, err
	}
	session.reach(ss)
	session.by(l.transport, nil)
	ended := make(chan struct{})
	context.AfterFunc(over, func() {
		defer close(ended)
		cause, err = l.drain(context.Cause(over), g, w)
		l.end(g, w, ss)
		s.sessions.wg.Done()
		l.stop(cause, err) // for which Shutdown does not wait: it may take its client's time
	})
	session.converses(end)
	end(&hungUp{err: l.read(g)})
	<-ended
	return cause, err
}

// drain lets running calls be answered, if there is still a client who reads. why is the
// end of the conversation; cause and err are what converse returns.
func (l *link) drain(why error, g *guard, w *wire.LineWriter) (cause, err error) {
	client, ofClient := errors.AsType[*hungUp](why)
	switch {
	case !ofClient:
		cause = why
		g.shut(evShutdown)
	case client.deaf, !l.halves:
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
		g.log.Warn("calls were cancelled: they ran longer than the server waits at its end",
			"session", g.session.id, "waited", g.limits.Drain)
	case <-g.session.done: // Shutdown's own time was up
	case <-w.Gone():
	}
	return cause, err
}

// end ends the session of a conversation, and writes the last answers.
func (l *link) end(g *guard, w *wire.LineWriter, ss *sdk.ServerSession) {
	g.session.end(ErrShutdown)
	patiently(g.drained) // the answers of what was cancelled
	g.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := ss.Wait(); err != nil {
			g.log.Debug("end of a connection", "session", g.session.id, "error", err)
		}
		g.calls.end()
	}()
	patiently(over)
	w.Close()
	patiently(w.Done())
	g.mu.Lock()
	g.move(evClose)
	g.mu.Unlock()
	abandon(g)
}

// readLine handles one line: a message, a batch, or nothing.
func readLine(g *guard, line []byte) {
	line = wire.TrimLine(line)
	if len(line) == 0 {
		return
	}
	if bad := wire.CheckLine(line, g.limits.Depth); bad != nil {
		g.refuse(wire.RequestID(line), wire.Legacy, nil, bad, g.out)
		return
	}
	if line[0] == '[' {
		g.batch(line, g.out)
		return
	}
	m, bad := wire.ParseMessage(line)
	g.message(m, bad, nil, g.out)
}

// patiently waits for done, but no longer than patience.
func patiently(done <-chan struct{}) {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
}
