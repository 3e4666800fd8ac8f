package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// SessionInfo is a session in the operator's view.
type SessionInfo struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Transport string    `json:"transport"`        // stdio or http; empty for a session of this process
	Client    string    `json:"client,omitempty"` // what it calls itself, which proves nothing
	Version   string    `json:"client_version,omitempty"`
	Began     time.Time `json:"began"`
	Used      time.Time `json:"used"`  // when the last call began or ended
	Calls     int       `json:"calls"` // that run
}

// Sessions returns the open sessions, the oldest first.
func (s *Server) Sessions() []SessionInfo {
	all := []SessionInfo{}
	for _, session := range s.opened(func(SessionInfo) bool { return true }) {
		all = append(all, session.info())
	}
	return all
}

// End ends the sessions that which chooses, and returns those that it has ended. It
// cancels their calls with why as the cause, waits for them, and then calls the
// functions of OnEnd. A connection over stdio, and with it ServeStdio, ends with its
// session; a client over HTTP can begin another session.
func (s *Server) End(which func(SessionInfo) bool, why string) []SessionInfo {
	cause := ErrEnded
	if why != "" {
		cause = fmt.Errorf("%w: %s", ErrEnded, why)
	}
	ended := []SessionInfo{}
	var ending sync.WaitGroup // together: each may wait for a call that takes its time
	for _, session := range s.opened(which) {
		ended = append(ended, session.info())
		s.mu.Lock()
		s.web.ended = append(s.web.ended, endedSession{session.id, session.tenant, cause})
		s.web.ended = s.web.ended[max(0, len(s.web.ended)-maxEnded):]
		s.mu.Unlock()
		ending.Go(func() { session.close(cause) })
	}
	ending.Wait()
	return ended
}

// close ends a session and then its connection.
func (s *Session) close(cause error) {
	s.end(cause)
	s.mu.Lock()
	hangUp := s.hangUp
	s.mu.Unlock()
	if hangUp != nil {
		hangUp()
	}
}

// opened returns the sessions that which chooses, the oldest first.
func (s *Server) opened(which func(SessionInfo) bool) (all []*Session) {
	s.mu.Lock()
	for session := range s.sessions {
		all = append(all, session)
	}
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(session *Session) bool { return !which(session.info()) })
	slices.SortFunc(all, func(a, b *Session) int {
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.id, b.id))
	})
	return all
}

// info returns the session in the operator's view.
func (s *Session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionInfo{
		ID: s.id, Tenant: s.tenant, Transport: s.via, Client: s.client, Version: s.version,
		Began: s.began, Used: time.Unix(0, s.lastCall.Load()), Calls: len(s.calls),
	}
}

// by notes the transport of a session, and the function that ends its connection.
func (s *Session) by(transport string, hangUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.via, s.hangUp = transport, hangUp
}

// sessionOver reports whether a call was cancelled because its session has ended.
func sessionOver(cause error) bool {
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrEnded)
}

// noSession is the answer to a request for a session that does not exist.
func (s *Server) noSession(id, tenant string) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.web.ended {
		if e.id == id && e.tenant == tenant {
			return wire.Errorf(wire.InvalidRequest, "%v; send initialize to begin another one", e.why)
		}
	}
	return wire.Errorf(wire.InvalidRequest, "there is no such session; send initialize")
}
