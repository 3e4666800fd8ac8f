package mcp

import (
	"context"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// webSessions are the sessions of HTTP clients. The server's mu guards it.
type webSessions struct {
	byID   map[string]*webSession // by Mcp-Session-Id
	places map[string]int         // taken by each tenant, also by an initialize that is on its way
	shared map[string]*Session    // of all modern requests of a tenant
	uses   int64                  // requests that have ended, in all sessions
}

// webSession is a Session, and what of HTTP uses it. A session without requests
// and without calls is idle: calls go on when a client is cut off.
type webSession struct {
	*Session
	sdk  *sdk.ServerSession // to end it
	busy int                // requests that are not over, open streams among them
	used int64              // which of all uses the last was
	gone chan struct{}      // closed when its place is free
}

func newWebSessions() webSessions {
	return webSessions{byID: make(map[string]*webSession), places: make(map[string]int), shared: make(map[string]*Session)}
}

// place is room for one session, taken before the sdk makes it.
type place struct {
	tenant  string
	session *webSession // that came to use it; guarded by Server.mu
}

// takePlace is room for a session of the tenant that asks. Where that has as many
// as it may, the one that was idle the longest ends for it. So no client can keep
// those of another tenant out, and clients that went away without a word do not
// keep others of their own tenant out. The caller gives it to leavePlace.
func (s *Server) takePlace(ctx context.Context) (*place, *wireError) {
	tenant := s.tenantOf(ctx)
	most, whose := s.cfg.Limits.Sessions, "of this server"
	if s.tenanted() {
		most, whose = s.cfg.Limits.TenantSessions, "of tenant "+tenant
	}
	for {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			return nil, overLimit("shutdown", queueRetry, "%v", ErrShutdown)
		}
		if s.web.places[tenant] < most {
			s.web.places[tenant]++
			s.mu.Unlock()
			return &place{tenant: tenant}, nil
		}
		idle := s.longestIdle(tenant)
		if idle != nil {
			delete(s.web.byID, idle.id) // no request finds it any more
		}
		s.mu.Unlock()
		if idle == nil {
			return nil, overLimit("sessions", time.Minute,
				"all %d sessions %s are open and in use; end one with DELETE, or close a stream and try again", most, whose)
		}
		s.cfg.Log.Info("end an idle HTTP session: its tenant has as many as it may, and begins another one", "session", idle.id, "tenant", tenant, "most", most)
		idle.sdk.Close()
		select {
		case <-idle.gone:
		case <-ctx.Done():
			return nil, overLimit("sessions", queueRetry, "the request was given up before its turn")
		}
	}
}

// longestIdle is the idle session of a tenant that was used before all others, or
// nil; mu is held.
func (s *Server) longestIdle(tenant string) (found *webSession) {
	for _, session := range s.web.byID {
		if session.tenant == tenant && session.busy == 0 && !session.calling() && (found == nil || session.used < found.used) {
			found = session
		}
	}
	return found
}

// leavePlace ends the use of a place by an initialize, and gives it back if no
// session came of it.
func (s *Server) leavePlace(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == nil {
		s.freePlace(p.tenant)
		return
	}
	s.unused(p.session)
}

// freePlace gives a place back; mu is held.
func (s *Server) freePlace(tenant string) {
	if s.web.places[tenant]--; s.web.places[tenant] == 0 {
		delete(s.web.places, tenant)
	}
}

// unused notes that a request in a session is over; mu is held.
func (s *Server) unused(session *webSession) {
	session.busy--
	s.web.uses++
	session.used = s.web.uses
}

// useWeb is the session that a request names, or nil. It is not idle until done
// is called. To another tenant a session does not exist: then ok is false.
func (s *Server) useWeb(id, tenant string) (_ *Session, done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.web.byID[id]
	switch {
	case session == nil:
		return nil, func() {}, true
	case session.tenant != tenant:
		return nil, func() {}, false
	}
	session.busy++
	return session.Session, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unused(session)
	}, true
}

// openWeb opens the Session that an initialize over HTTP begins, and ends it
// when the sdk's ends: by DELETE, by its idle time, or by Shutdown.
func (s *Server) openWeb(ctx context.Context, ss *sdk.ServerSession) error {
	s.mu.Lock()
	_, second := s.web.byID[ss.ID()]
	s.mu.Unlock()
	if second {
		return nil // which the sdk refuses
	}
	p, _ := ctx.Value(webKey{}).(*place)
	if p == nil {
		return errors.New("initialize came without a place for its session")
	}
	if err := s.enter(); err != nil {
		return err
	}
	session, err := s.open(ctx, ss.ID())
	if err != nil {
		s.wg.Done()
		return err
	}
	session.reach(ss)
	s.mu.Lock()
	p.session = &webSession{Session: session, sdk: ss, busy: 1, gone: make(chan struct{})}
	s.web.byID[session.id] = p.session
	late := s.closing // Shutdown may have looked before the session was there
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		if late {
			ss.Close()
		}
		// How the transport ended does not matter to what the session held.
		_ = ss.Wait()
		session.end(ErrShutdown)
		s.mu.Lock()
		delete(s.web.byID, session.id)
		s.freePlace(p.tenant)
		s.mu.Unlock()
		close(p.session.gone)
	}()
	return nil
}

// sharedSession is the one Session of all modern requests of a tenant over
// HTTP: they carry no session, and what they say of themselves proves nothing.
func (s *Server) sharedSession(ctx context.Context) (*Session, error) {
	tenant := s.tenantOf(ctx)
	s.mu.Lock()
	shared := s.web.shared[tenant]
	s.mu.Unlock()
	if shared != nil {
		return shared, nil
	}
	made, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.web.shared[tenant] == nil {
		s.web.shared[tenant] = made
	}
	shared = s.web.shared[tenant]
	s.mu.Unlock()
	if shared != made {
		made.Close()
	}
	return shared, nil
}

// endWeb lets the calls of HTTP sessions return until ctx ends, cancels the
// rest, and ends the sessions.
func (s *Server) endWeb(ctx context.Context) {
	s.mu.Lock()
	all := make(map[*Session]*sdk.ServerSession, len(s.web.byID)+1)
	for _, session := range s.web.byID {
		all[session.Session] = session.sdk
	}
	for _, shared := range s.web.shared {
		all[shared] = nil
	}
	s.mu.Unlock()
	for session, ss := range all {
		session.quiet(ctx)
		session.end(ErrShutdown)
		if ss != nil {
			ss.Close()
		}
	}
}
