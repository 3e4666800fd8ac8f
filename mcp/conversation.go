package mcp

import (
	"context"
	"fmt"
	"io"
	"time"

	"belljar.dev/mcp/wire"
)

// link is the way between one client and the server that lasts as long as their
// conversation: standard streams, or a WebSocket.
type link struct {
	transport string
	out       io.Writer          // gets each message with a line feed behind it
	read      func(*guard) error // handles what the client sends; nil at its end
	halves    bool               // a client that sends nothing more may still read
	among     bool               // there may be other links at the same time
	stop      func()             // makes read return, or nothing where the end of the link does
	prepare   func(*guard)       // called before the first message; nil for nothing
}

// converse serves the client of a link until one of the two ends that or ctx does. cause
// is why it was not the client; nil if it was. err says that the link broke.
func (s *Server) converse(ctx context.Context, l *link) (cause, err error) {
	if err := s.sessions.enter(); err != nil {
		return err, err
	}
	defer s.sessions.wg.Done()
	session, err := s.Open(ctx)
	if err != nil {
		return err, err
	}
	w := wire.NewLineWriter(l.out)
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
		session.end(err)
		l.stop()
		w.Close()
		return err, err
	}
	session.reach(ss)
	session.by(l.transport, nil)
	read := make(chan error, 1)
	go func() { read <- l.read(g) }()

	cause, err = l.untilOver(ctx, g, w, read)
	session.end(ErrShutdown)
	patiently(g.drained) // the answers of what was cancelled
	g.Close()
	l.stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := ss.Wait(); err != nil {
			s.cfg.Log.Debug("end of a connection", "session", session.id, "error", err)
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
	return cause, err
}

// untilOver serves the client until the conversation ends, and then lets running calls be
// answered.
func (l *link) untilOver(ctx context.Context, g *guard, w *wire.LineWriter, read <-chan error) (cause, err error) {
	server := g.session.server
	select {
	case err = <-read:
		if !l.halves { // nobody is left who could read an answer
			g.shut(evError)
			return nil, err
		}
	case <-w.Gone():
		g.shut(evError)
		return nil, fmt.Errorf("write to the client: %w", w.Err())
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-server.sessions.quit:
		cause = ErrShutdown
	case <-g.session.done: // Server.End
		cause = endOf(g.session)
	}
	if err != nil {
		g.shut(evError)
	} else {
		g.shut(evShutdown)
	}
	wait := time.NewTimer(g.limits.Drain)
	defer wait.Stop()
	select {
	case <-g.drained:
	case <-wait.C:
		server.cfg.Log.Warn("calls were cancelled: they ran longer than the server waits at its end",
			"session", g.session.id, "waited", g.limits.Drain)
	case <-g.session.done: // Shutdown's own time was up
	case <-w.Gone():
	}
	return cause, err
}

// endOf is why a session has ended.
func endOf(s *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.cause
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
