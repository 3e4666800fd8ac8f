package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"belljar.dev/mcp/wire"
)

// ServeStdio serves one client until in ends, ctx does or Shutdown is called,
// and then waits at most Limits.Drain for running calls to be answered before
// it cancels them. It closes in. The error is nil when the client or the
// operator ended the conversation.
//
// A stream that blocks for ever in spite of Close, as a terminal can, or a
// handler that ignores its context, does not keep ServeStdio from returning;
// a goroutine then stays behind.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	if err := s.sessions.enter(); err != nil {
		return err
	}
	defer s.sessions.wg.Done()
	session, err := s.Open(ctx)
	if err != nil {
		return err
	}
	w := wire.NewLineWriter(out)
	g := newGuard(session, lines{w})
	// Calls must not see ctx end: they drain.
	calls := context.WithoutCancel(ctx)
	g.serve = func(e *entry) bool { return s.serveCall(calls, g, e) }
	calls = notifying(calls, g)
	ss, err := s.adapter.sdk.Connect(context.WithValue(calls, sessionKey{}, session), g, nil)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	session.reach(ss)
	session.by("stdio", nil)
	read := make(chan error, 1)
	go func() { read <- readLines(g, in) }()

	err = s.converse(ctx, g, w, read)
	session.end(ErrShutdown)
	patiently(g.drained) // the answers of what was cancelled
	g.Close()
	in.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := ss.Wait(); err != nil {
			s.cfg.Log.Debug("end of a connection", "session", session.id, "error", err)
		}
		g.calls.all.Wait()
	}()
	patiently(over)
	w.Close()
	patiently(w.Done())
	g.mu.Lock()
	g.move(evClose)
	g.mu.Unlock()
	return err
}

// converse serves the client until it ends the conversation, and then lets running calls be answered.
func (s *Server) converse(ctx context.Context, g *guard, w *wire.LineWriter, read <-chan error) error {
	var err error
	select {
	case err = <-read:
	case <-w.Gone():
		g.shut(evError)
		return fmt.Errorf("write to the client: %w", w.Err())
	case <-ctx.Done():
	case <-s.sessions.quit:
	case <-g.session.done: // Server.End
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
		s.cfg.Log.Warn("calls were cancelled: they ran longer than the server waits at its end",
			"session", g.session.id, "waited", g.limits.Drain)
	case <-g.session.done: // Shutdown's own time was up
	case <-w.Gone():
	}
	return err
}

// readLines handles the client's lines until the stream ends. It returns nil
// at its end and the stream's error otherwise.
func readLines(g *guard, in io.Reader) error {
	all := wire.NewLineReader(in, g.limits.Line)
	for {
		line, err := all.Next()
		long, isLong := errors.AsType[*wire.LongLineError](err)
		switch {
		case isLong:
			g.refuse(long.ID, wire.Legacy, nil, wire.Errorf(wire.InvalidRequest,
				"invalid request: the line is longer than %d bytes and was skipped", g.limits.Line), g.out)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return nil
		case err != nil:
			return fmt.Errorf("read from the client: %w", err)
		default:
			readLine(g, line)
		}
	}
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
