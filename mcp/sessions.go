package mcp

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// SessionInfo is a session as the operator sees it.
type SessionInfo struct {
	ID        string    `json:"id"`
	Tenant    string    `json:"tenant"`
	Principal string    `json:"principal,omitempty"` // see Identity.Principal
	Transport string    `json:"transport"`           // "stdio", "http", "sse" or "websocket"; empty for a session of this process
	Client    string    `json:"client,omitempty"`    // name that the client gave itself, which proves nothing
	Version   string    `json:"client_version,omitempty"`
	Began     time.Time `json:"began"`
	Used      time.Time `json:"used"`  // when the last call began or ended
	Calls     int       `json:"calls"` // number of running calls
}

// sessionTable contains the open sessions of a server.
type sessionTable struct {
	cfg *Config
	wg  sync.WaitGroup // counts connections and HTTP sessions that are not over

	mu      sync.Mutex
	live    map[*Session]struct{} // guarded by mu
	closing bool                  // guarded by mu
}

func newSessionTable(cfg *Config) *sessionTable {
	return &sessionTable{cfg: cfg, live: make(map[*Session]struct{})}
}

// Open starts a session for calls made in this process; the caller closes it. It lives
// until Close or Shutdown, even if ctx ends. After Shutdown it fails with ErrShutdown.
func (s *Server) Open(ctx context.Context) (*Session, error) {
	return s.open(ctx, newSessionID())
}

func (s *Server) open(ctx context.Context, id string) (*Session, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	whose := s.cfg.callerOf(ctx).owner()
	session := &Session{
		owner: whose, id: id, server: s, done: ctx.Done(), cancel: cancel,
		over: make(chan struct{}), door: s.sessions.doorOf(whose.tenant), began: time.Now(),
		calls: make(map[string]context.CancelCauseFunc),
	}
	session.lastCall.Store(session.began.UnixNano())
	if err := s.sessions.add(session); err != nil {
		cancel(err)
		return nil, err
	}
	s.tools.opened(whose.tenant)
	if s.deferrals.keeper != nil { // the function that is added first is called last
		session.OnEnd(func() { s.deferrals.keeper.Release(context.WithoutCancel(ctx), session) })
	}
	if s.cfg.OnSession != nil {
		s.cfg.OnSession(ctx, session)
	}
	return session, nil
}

// enter notes work that Shutdown must wait for, unless the server is closing already. The
// caller ends the work with wg.Done.
func (st *sessionTable) enter() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closing {
		return ErrShutdown
	}
	st.wg.Add(1)
	return nil
}

// add notes an open session, unless the server is closing already.
func (st *sessionTable) add(session *Session) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closing {
		return ErrShutdown
	}
	st.live[session] = struct{}{}
	return nil
}

func (st *sessionTable) remove(session *Session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.live, session)
}

// over reports whether the server is closing.
func (st *sessionTable) over() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.closing
}

// tenants returns the tenants that have sessions.
func (st *sessionTable) tenants() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	all := make(map[string]struct{})
	for session := range st.live {
		all[session.tenant] = struct{}{}
	}
	return slices.Collect(maps.Keys(all))
}

// Occupied reports whether there are sessions.
func (s *Server) Occupied() bool {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return len(s.sessions.live) > 0
}

// refuseNew makes enter and add fail from now on, and ends the conversations. It may be
// called twice.
func (st *sessionTable) refuseNew() {
	st.mu.Lock()
	st.closing = true
	all := slices.Collect(maps.Keys(st.live))
	st.mu.Unlock()
	for _, session := range all {
		session.mu.Lock()
		leave := session.conn.leave
		session.mu.Unlock()
		if leave != nil {
			leave(ErrShutdown)
		}
	}
}

// wait waits for the work that enter noted. When ctx ends, it ends the remaining sessions,
// and returns the error of ctx.
func (st *sessionTable) wait(ctx context.Context) error {
	over := make(chan struct{})
	go func() {
		defer close(over)
		st.wg.Wait()
	}()
	var err error
	select {
	case <-over:
	case <-ctx.Done():
		err = ctx.Err()
	}
	st.mu.Lock()
	left := slices.Collect(maps.Keys(st.live))
	st.mu.Unlock()
	for _, session := range left {
		session.end(ErrShutdown)
	}
	<-over
	return err
}

// Sessions returns the open sessions, the oldest first.
func (s *Server) Sessions() []SessionInfo {
	all := []SessionInfo{}
	for _, session := range s.sessions.chosen(func(SessionInfo) bool { return true }) {
		all = append(all, session.info())
	}
	return all
}

// close ends a session and then its connection.
func (s *Session) close(cause error) {
	s.end(cause)
	s.mu.Lock()
	hangUp := s.conn.hangUp
	s.mu.Unlock()
	if hangUp != nil {
		hangUp()
	}
}

// chosen returns the sessions for which the function which returns true, the oldest first.
func (st *sessionTable) chosen(which func(SessionInfo) bool) (all []*Session) {
	st.mu.Lock()
	for session := range st.live {
		all = append(all, session)
	}
	st.mu.Unlock()
	all = slices.DeleteFunc(all, func(session *Session) bool { return !which(session.info()) })
	slices.SortFunc(all, func(a, b *Session) int {
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.id, b.id))
	})
	return all
}

// info returns the session as the operator sees it.
func (s *Session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionInfo{
		ID: s.id, Tenant: s.tenant, Principal: s.principal, Transport: s.conn.transport, Client: s.conn.client, Version: s.conn.version,
		Began: s.began, Used: time.Unix(0, s.lastCall.Load()), Calls: len(s.calls),
	}
}

// by notes the transport of a session, and the function that ends its connection.
func (s *Session) by(transport string, hangUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.transport, s.conn.hangUp = transport, hangUp
}

// sessionOver reports whether a call was cancelled because its session has ended.
func sessionOver(cause error) bool {
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrEnded)
}
