package mcp

import (
	"context"
	"errors"
	"maps"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// webSessions are the sessions of HTTP clients. The server's mu guards it.
type webSessions struct {
	byID   map[string]*Session             // by Mcp-Session-Id
	sdk    map[*Session]*sdk.ServerSession // to end them
	places int                             // taken, also by an initialize that is on its way
	shared map[string]*Session             // of all modern requests of a tenant
}

func newWebSessions() webSessions {
	return webSessions{byID: make(map[string]*Session), sdk: make(map[*Session]*sdk.ServerSession), shared: make(map[string]*Session)}
}

// place is room for one session, taken before the sdk makes it.
type place struct{ used bool } // guarded by Server.mu

// takePlace is room for a session, or nil if there is none.
func (s *Server) takePlace() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.web.places >= s.cfg.Limits.Sessions || s.closing {
		return nil
	}
	s.web.places++
	return &place{}
}

// leavePlace gives a place back that no session came to use.
func (s *Server) leavePlace(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.used {
		s.web.places--
	}
}

// openWeb opens the Session that an initialize over HTTP begins, and ends it
// when the sdk's ends: by DELETE, by its idle time, or by Shutdown.
func (s *Server) openWeb(ctx context.Context, ss *sdk.ServerSession) error {
	if s.webSession(ss.ID()) != nil {
		return nil // a second initialize, which the sdk refuses
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
	p.used = true
	s.web.byID[session.id] = session
	s.web.sdk[session] = ss
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
		delete(s.web.sdk, session)
		s.web.places--
		s.mu.Unlock()
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

// webSession is the Session an HTTP request names, or nil.
func (s *Server) webSession(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.web.byID[id]
}

// endWeb lets the calls of HTTP sessions return until ctx ends, cancels the
// rest, and ends the sessions.
func (s *Server) endWeb(ctx context.Context) {
	s.mu.Lock()
	all := make(map[*Session]*sdk.ServerSession, len(s.web.sdk)+1)
	maps.Copy(all, s.web.sdk)
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
