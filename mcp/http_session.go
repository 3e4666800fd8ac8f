package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// webSessions are the sessions of HTTP clients, guarded by Server.mu.
type webSessions struct {
	byID   map[string]*webSession // by Mcp-Session-Id
	places map[string]int         // taken by each tenant, also by an initialize that is on its way
	named  map[string]int         // those taken by each name of a client, where there are no tenants
	shared map[string]*Session    // of all modern requests of a tenant
	uses   int64                  // requests that have ended, in all sessions
	ended  []endedSession         // by End, the latest last; at most maxEnded
}

// endedSession is a session that was ended, whose client may not know it yet.
type endedSession struct {
	id, tenant string
	why        error
}

// maxEnded is how many of them are remembered.
const maxEnded = 256

// webSession is a Session and its state over HTTP. It is idle without requests and
// without calls: calls go on when the client's connection is cut.
type webSession struct {
	*Session
	sdk   *sdk.ServerSession // to end it
	place *place
	busy  int           // requests that are not over, open streams among them
	used  int64         // which of all uses the last was
	gone  chan struct{} // closed when its place is free
}

func newWebSessions() webSessions {
	return webSessions{byID: make(map[string]*webSession), places: make(map[string]int), named: make(map[string]int), shared: make(map[string]*Session)}
}

// place is room for one session, taken before the sdk makes it.
type place struct {
	tenant  string
	client  string      // the name that it gives; may be empty
	byName  bool        // it counts among those of its client's name, too
	session *webSession // that came to use it; guarded by Server.mu
}

// takePlace reserves room for a session of the caller's tenant and of a client's name.
// If the tenant (or, without tenants, the name) has as many sessions as it may, the one
// that was idle the longest ends. So no client can keep those of another tenant out,
// and sessions that their clients forgot keep nobody out. The caller must pass the
// place to leavePlace.
func (s *Server) takePlace(ctx context.Context, client string) (*place, *wire.Error) {
	p := &place{tenant: s.tenantOf(ctx), client: policies.Clip(client, maxClientName), byName: true}
	most, whose := s.cfg.Limits.Sessions, "of this server"
	if s.tenanted() {
		most, whose, p.byName = s.cfg.Limits.TenantSessions, "of tenant "+p.tenant, false
	}
	for {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			return nil, wire.OverLimit("shutdown", queueRetry, "%v", ErrShutdown)
		}
		full, whom := most, whose
		crowded := p.byName && s.web.named[p.client] >= s.cfg.Limits.ClientSessions
		if crowded {
			full, whom = s.cfg.Limits.ClientSessions, fmt.Sprintf("of clients that call themselves %q", p.client)
		} else if s.web.places[p.tenant] < most {
			s.web.places[p.tenant]++
			if p.byName {
				s.web.named[p.client]++
			}
			s.mu.Unlock()
			return p, nil
		}
		idle := s.longestIdle(func(o *place) bool { return o.tenant == p.tenant && (!crowded || o.byName && o.client == p.client) })
		if idle != nil {
			delete(s.web.byID, idle.id) // no request finds it any more
		}
		s.mu.Unlock()
		if idle == nil {
			return nil, wire.OverLimit("sessions", time.Minute,
				"all %d sessions %s are open and in use; end one with DELETE, or close a stream and try again; the operator can end one with `belljar session end`", full, whom)
		}
		s.cfg.Log.Info("end an idle HTTP session: there are as many as there may be, and another one begins", "session", idle.id, "tenant", p.tenant, "most", full)
		idle.sdk.Close()
		select {
		case <-idle.gone:
		case <-ctx.Done():
			return nil, wire.OverLimit("sessions", queueRetry, "the request was given up before its turn")
		}
	}
}

// maxClientName is how many characters of a client's name are kept.
const maxClientName = 64

// longestIdle is the idle session, among those whose places are wanted, that was used
// before all others, or nil; mu is held.
func (s *Server) longestIdle(wanted func(*place) bool) (found *webSession) {
	for _, session := range s.web.byID {
		if wanted(session.place) && session.busy == 0 && !session.calling() && (found == nil || session.used < found.used) {
			found = session
		}
	}
	return found
}

// leavePlace ends the use of a place by an initialize, and releases it if no session
// was opened.
func (s *Server) leavePlace(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == nil {
		s.freePlace(p)
		return
	}
	s.unused(p.session)
}

// freePlace releases a place; mu is held.
func (s *Server) freePlace(p *place) {
	if s.web.places[p.tenant]--; s.web.places[p.tenant] == 0 {
		delete(s.web.places, p.tenant)
	}
	if !p.byName {
		return
	}
	if s.web.named[p.client]--; s.web.named[p.client] == 0 {
		delete(s.web.named, p.client)
	}
}

// unused notes that a request in a session is over; mu is held.
func (s *Server) unused(session *webSession) {
	session.busy--
	s.web.uses++
	session.used = s.web.uses
}

// useWeb returns the session that a request names, or nil. The session is not idle
// until done is called. ok is false if the session belongs to another tenant: to this
// one it does not exist.
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
	session.by("http", func() {
		patiently(session.written()) // the answers of its calls
		ss.Close()
	})
	s.mu.Lock()
	p.session = &webSession{Session: session, sdk: ss, place: p, busy: 1, gone: make(chan struct{})}
	s.web.byID[session.id] = p.session
	late := s.closing // Shutdown may have looked before the session was there
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		if late {
			ss.Close()
		}
		// How the transport ended does not matter to the session.
		_ = ss.Wait()
		session.end(ErrShutdown)
		s.mu.Lock()
		delete(s.web.byID, session.id)
		s.freePlace(p)
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
	made.by("http", func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.web.shared[tenant] == made {
			delete(s.web.shared, tenant) // the next request begins another one
		}
	})
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
	all := slices.Collect(maps.Values(s.web.shared))
	for _, session := range s.web.byID {
		all = append(all, session.Session)
	}
	s.mu.Unlock()
	for _, session := range all {
		session.quiet(ctx)
		session.close(ErrShutdown)
	}
}

// writing notes that the answer to a request is being written, until done is called:
// the session's connection does not end before.
func (s *Session) writing() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return func() {}
	}
	s.writes.Add(1)
	return s.writes.Done
}

// written is closed when the answers of a session that has ended are written.
func (s *Session) written() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.writes.Wait()
	}()
	return done
}
