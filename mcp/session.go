package mcp

import (
	"context"
)

// Session is one conversation with a client. Its methods are safe for
// concurrent use.
type Session struct {
	id, tenant string
	done       chan struct{}
}

// Open starts a session for calls made in this process; the caller closes it.
// ctx ends the session too.
func (s *Server) Open(ctx context.Context) (*Session, error) {
	return &Session{tenant: s.cfg.Tenant, done: make(chan struct{})}, nil
}

// ID names the session. It cannot be guessed.
func (s *Session) ID() string { return s.id }

// Tenant is whose session it is.
func (s *Session) Tenant() string { return s.tenant }

// Client is what the client calls itself, which proves nothing; empty before
// the handshake.
func (s *Session) Client() (name, version string) { return "", "" }

// OnEnd has f called when the session has ended and its last call has
// returned, or at once, in this goroutine, if that has happened already. The
// functions are called one by one, the last added first.
func (s *Session) OnEnd(f func()) {}

// Done is closed when the session ends.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends a session that came from Open: it cancels its calls, waits for
// them, and then calls what OnEnd was given. Twice is fine.
func (s *Session) Close() {}
