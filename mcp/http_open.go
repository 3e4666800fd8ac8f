package mcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// openNew opens a session in a place.
func (ws *webSessions) openNew(ctx context.Context, id string, p *place) (*webSession, *wire.Error) {
	session, err := ws.open(ctx, id, p, nil)
	if err != nil {
		return nil, wire.OverLimit("shutdown", queueRetry, "%v", err)
	}
	return session, nil
}

// open opens a session in a place, and releases the place when the session has ended: by
// DELETE, by its idle time, by Server.End or by Shutdown. state is that of the go-sdk for a
// session that is resumed; nil for a new session. The session is in use; the caller must
// pass it to leave.
func (ws *webSessions) open(ctx context.Context, id string, p *place, state *sdk.ServerSessionState) (_ *webSession, err error) {
	defer func() {
		if err != nil {
			ws.mu.Lock()
			defer ws.mu.Unlock()
			ws.freePlace(p)
		}
	}()
	if err := ws.server.sessions.enter(); err != nil {
		return nil, err
	}
	session, err := ws.server.open(ctx, id)
	if err != nil {
		ws.server.sessions.wg.Done()
		return nil, err
	}
	log, transport := sse.NewLog(), "http"
	if overSSE(id) {
		log, transport = sse.NewLogOf(id+sseIDEnd), "sse"
	}
	s := &webSession{Session: session, log: log, standing: log.Standing(), place: p, keeper: newKeeper(), answered: make(chan struct{}), gone: make(chan struct{}), usage: usage{busy: 1}}
	s.guard = newGuard(session, stream{s.standing})
	s.guard.placed = true
	// The context of calls must not end with the request that opened the session.
	calls := WithDetach(context.WithValue(context.WithoutCancel(ctx), sessionKey{}, session), nil)
	var connection sdk.Transport = legacyOnly{s.guard}
	if overSSE(id) {
		s.guard.room = ws.inFlight.of(session)
		connection = s.guard
		calls = notifying(calls, s.guard)
	}
	if state != nil {
		session.resumed, s.guard.state, s.guard.version = true, Ready, state.NegotiatedProtocolVersion
	}
	s.forget = func() { ws.forget(calls, s) }
	s.guard.serve = func(e *entry) bool { return direct{ws.server, s.guard, e}.serve(calls) }
	ss, err := ws.server.adapter.sdk.Connect(calls, connection, &sdk.ServerSessionOptions{State: state})
	if err != nil {
		session.end(err)
		ws.server.sessions.wg.Done()
		return nil, err
	}
	session.reach(ss, s.guard.out)
	session.by(transport, func() {
		patiently(session.written()) // waits until the answers of its calls are written
		s.guard.Close()
	})
	ws.mu.Lock()
	ws.byID[id] = s
	ws.mu.Unlock()
	go ws.attend(s, ss, ws.server.sessions.over()) // Shutdown may have listed the sessions before this one was added
	return s, nil
}

// attend waits until a session has ended, and releases its place. stopping is true if
// Shutdown has begun: then the session is closed immediately.
func (ws *webSessions) attend(s *webSession, ss *sdk.ServerSession, stopping bool) {
	defer ws.server.sessions.wg.Done()
	if stopping {
		s.close(ErrShutdown)
	}
	<-s.Done()
	over := make(chan struct{})
	go func() {
		defer close(over)
		// The error of the sdk's session does not matter here.
		_ = ss.Wait()
		s.guard.calls.end()
		<-s.over
	}()
	patiently(over)
	close(s.answered)
	<-over
	abandon(s.guard)
	ws.remove(s)
}

// legacyOnly is a guard as the transport of a session over HTTP. Modern requests have no
// such session.
type legacyOnly struct{ *guard }

// SupportsProtocolVersion reports whether clients of a revision have sessions.
func (legacyOnly) SupportsProtocolVersion(revision string) bool {
	return slices.Contains(wire.LegacyRevisions, revision)
}

// remove records that a session has ended, and releases its place.
func (ws *webSessions) remove(s *webSession) {
	ws.mu.Lock()
	if ws.byID[s.id] == s {
		delete(ws.byID, s.id)
	}
	if ws.going[s.id] == s {
		delete(ws.going, s.id)
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	ws.freePlace(s.place)
	ws.mu.Unlock()
	close(s.gone)
}

// count counts a request without a session in the rate of its tenant, because beginning a
// session or looking for a kept one costs more than most requests. Without tenants, each
// session has a rate of its own.
func (ws *webSessions) count(ctx context.Context) *wire.Error {
	tenant := ws.server.cfg.callerOf(ctx).Tenant
	if _, shared := ws.server.cfg.limitsOf(tenant); !shared {
		return nil
	}
	return ws.server.sessions.doorOf(tenant).count(1)
}

// place is the room for one session. It is reserved before the session is made.
type place struct {
	tenant string
	client string // name that the client states; may be empty
	byName bool   // it also counts in the sessions of its client's name
}

// takePlace reserves room for a session of the caller's tenant and of a client's name. If
// the tenant (or, without tenants, the name) has as many sessions as it may have, the
// session that was idle the longest is ended. So no client can keep the clients of another
// tenant out, and sessions that their clients forgot do not block new ones. The caller must
// pass the place to open, leavePlace or freePlace.
func (ws *webSessions) takePlace(ctx context.Context, client string) (*place, *wire.Error) {
	p := &place{tenant: ws.server.cfg.callerOf(ctx).Tenant, client: client, byName: true}
	most, whose := ws.server.cfg.Limits.Sessions, "of this server"
	if ws.server.cfg.tenanted() {
		most, whose, p.byName = ws.server.cfg.tenantSessions(p.tenant), "of tenant "+p.tenant+" (quota sessions)", false
	}
	for {
		if ws.server.sessions.over() {
			return nil, stopping()
		}
		ws.mu.Lock()
		full, whom := most, whose
		crowded := p.byName && ws.named[p.client] >= ws.server.cfg.Limits.ClientSessions
		if crowded {
			full, whom = ws.server.cfg.Limits.ClientSessions, fmt.Sprintf("of clients that call themselves %q", p.client)
		} else if ws.server.cfg.Shared.take(quotaSessions, p.tenant, most) {
			if p.byName {
				ws.named[p.client]++
			}
			ws.mu.Unlock()
			return p, nil
		}
		idle := ws.longestIdle(func(o *place) bool { return o.tenant == p.tenant && (!crowded || o.byName && o.client == p.client) })
		if idle != nil {
			ws.endingSoon(idle)
		}
		ws.mu.Unlock()
		if idle == nil {
			return nil, wire.OverLimit("sessions", time.Minute,
				"all %d sessions %s are open and in use; end one with DELETE, or close a stream and try again; the operator can end one with `belljar session end`", full, whom)
		}
		ws.server.cfg.Log.Info("end an idle HTTP session: the number of open sessions has reached its limit, and a new one begins", "session", idle.id, "tenant", p.tenant, "most", full)
		idle.close(ErrShutdown)
		select {
		case <-idle.gone:
		case <-ctx.Done():
			return nil, wire.OverLimit("sessions", queueRetry, "the request was cancelled before its turn")
		}
	}
}

// leavePlace releases a place.
func (ws *webSessions) leavePlace(p *place) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.freePlace(p)
}

// freePlace releases a place; the caller holds mu.
func (ws *webSessions) freePlace(p *place) {
	ws.server.cfg.Shared.giveBack(quotaSessions, p.tenant)
	if !p.byName {
		return
	}
	if ws.named[p.client]--; ws.named[p.client] == 0 {
		delete(ws.named, p.client)
	}
}

// longestIdle returns, of the idle sessions whose place is wanted, the one that was not
// used for the longest time, or nil; the caller holds mu.
func (ws *webSessions) longestIdle(wanted func(*place) bool) (found *webSession) {
	for _, session := range ws.byID {
		if wanted(session.place) && session.busy == 0 && !session.calling() && (found == nil || session.used < found.used) {
			found = session
		}
	}
	return found
}

// endingSoon removes a session from those that requests find; the caller holds mu, and must
// end the session. A request that names the session meanwhile waits, because a resumed
// session gets a box of the same name.
func (ws *webSessions) endingSoon(s *webSession) {
	delete(ws.byID, s.id)
	ws.going[s.id] = s
}

// noSession returns the answer to a request for a session that does not exist; the caller
// holds mu.
func (ws *webSessions) noSession(id string, caller owner) *wire.Error {
	for _, e := range ws.ended {
		if e.id == id && e.owner == caller {
			return wire.Errorf(wire.InvalidRequest, "%v; send initialize to begin a new session", e.why)
		}
	}
	return wire.Errorf(wire.InvalidRequest, "there is no such session; send initialize")
}

// endedSession is a session that the server ended, and its client may not know it yet.
type endedSession struct {
	id    string
	owner owner
	why   error
}

// maxEnded is the number of ended sessions that are remembered.
const maxEnded = 256

// remember stores a session that was ended.
func (ws *webSessions) remember(e endedSession) {
	ws.mu.Lock()
	ws.ended = append(ws.ended, e)
	ws.ended = ws.ended[max(0, len(ws.ended)-maxEnded):]
	session := ws.byID[e.id]
	ws.mu.Unlock()
	if session != nil {
		session.forget()
	}
}
