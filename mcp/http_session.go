package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// halfOpen is how long a session lives if its client does not finish the handshake.
const halfOpen = 2 * time.Minute

// webSessions are the sessions of HTTP clients.
type webSessions struct {
	server   *Server
	callers  *callers
	inFlight *inFlight

	mu     sync.Mutex
	byID   map[string]*webSession   // guarded by mu: by Mcp-Session-Id
	named  map[string]int           // guarded by mu: number of places by the client's name, if there are no tenants
	shared map[owner]*sharedSession // guarded by mu: one session for all modern requests of a principal
	uses   int64                    // guarded by mu: number of requests that have ended, in all sessions
	ended  []endedSession           // guarded by mu: sessions ended by End, the latest last; at most maxEnded
	coming map[string]chan struct{} // guarded by mu: closed when the search for a kept session has ended
	// guarded by mu: sessions that are ending and may be resumed, until their places are
	// free
	going map[string]*webSession
}

func newWebSessions(s *Server) *webSessions {
	return &webSessions{
		server: s, callers: newCallers(s.cfg), inFlight: newInFlight(s.cfg), byID: make(map[string]*webSession),
		named: make(map[string]int), shared: make(map[owner]*sharedSession), coming: make(map[string]chan struct{}), going: make(map[string]*webSession),
	}
}

// webSession is a Session with its state over HTTP. It is idle if it has no requests and no
// running calls. A call continues if the connection of its client breaks.
type webSession struct {
	*Session
	usage
	guard    *guard
	log      *sse.Log    // log of the events that its client got
	standing *sse.Stream // messages that belong to no request; the client reads them with GET
	place    *place
	answered chan struct{} // closed when the session has ended and its calls were answered, or were waited for long enough
	gone     chan struct{} // closed when its place is free

	keeper *keeper
	forget func() // removes the session from the book

	idle *time.Timer // guarded by webSessions.mu: ends the session
}

// usage states whether a session is in use. It is guarded by webSessions.mu.
type usage struct {
	busy int   // number of requests that have not ended, including open streams
	used int64 // value of webSessions.uses at the end of its last request; 0 before that
}

// begin opens the session that an initialize begins. The caller must pass it to leave.
func (ws *webSessions) begin(ctx context.Context, m *wire.Message) (*webSession, *wire.Error) {
	p, bad := ws.takePlace(ctx, clientName(m))
	if bad != nil {
		return nil, bad
	}
	return ws.openNew(ctx, newSessionID(), p)
}

// clientName returns the name that the client states in an initialize.
func clientName(m *wire.Message) string {
	name := wire.Text(wire.Member(wire.Member(m.Params, "clientInfo"), "name"))
	return policies.Clip(name, maxClientName)
}

// use returns the session that a request names, and resumes it if it is kept. For any
// caller except its owner, and over another transport, the session does not exist. The
// session is not idle until the caller passes it to leave.
func (ws *webSessions) use(ctx context.Context, id string, bySSE bool) (*webSession, *wire.Error) {
	if overSSE(id) != bySSE {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return nil, ws.noSession(id, ws.server.cfg.callerOf(ctx).owner())
	}
	for {
		session, coming, bad := ws.find(ctx, id)
		if session != nil || bad != nil {
			return session, bad
		}
		if coming == nil {
			session, bad := ws.resume(ctx, id)
			ws.mu.Lock()
			close(ws.coming[id])
			delete(ws.coming, id)
			ws.mu.Unlock()
			return session, bad
		}
		select {
		case <-coming:
		case <-ctx.Done():
			return nil, wire.OverLimit("sessions", queueRetry, "the request was cancelled before its turn")
		}
	}
}

// find returns an open session, or the error for a session that does not exist. If it
// returns neither, the session may be kept. Then, if coming is nil, the caller must look
// for it. Otherwise the session is ending, or another request looks for it, until coming is
// closed.
func (ws *webSessions) find(ctx context.Context, id string) (_ *webSession, coming <-chan struct{}, _ *wire.Error) {
	caller := ws.server.cfg.callerOf(ctx).owner()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	session := ws.byID[id]
	others, looked := ws.coming[id]
	switch {
	case session != nil && session.owner == caller && looked: // the session is open, but its kept state is not restored yet
		return nil, others, nil
	case session != nil && session.owner == caller:
		session.busy++
		return session, nil, nil
	case session == nil && ws.server.sessions.over(): // the session may have just ended
		return nil, nil, stopping()
	case session != nil || ws.server.cfg.Kept == nil:
		return nil, nil, ws.noSession(id, caller)
	}
	if going := ws.going[id]; going != nil {
		return nil, going.gone, nil
	}
	if looked {
		return nil, others, nil
	}
	ws.coming[id] = make(chan struct{})
	return nil, nil, nil
}

// leave records that a request in a session has ended. If no other request follows, the
// session ends after its idle time.
func (ws *webSessions) leave(session *webSession) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wait := ws.server.cfg.Limits.Idle
	if session.used == 0 && !session.resumed || overSSE(session.id) {
		// The request was the initialize. Over SSE, it was the stream, with which a client
		// ends its session.
		wait = min(wait, halfOpen)
	}
	ws.unused(&session.usage)
	switch {
	case session.busy > 0 || ws.byID[session.id] != session:
	case session.idle == nil:
		session.idle = time.AfterFunc(wait, func() { ws.endIdle(session) })
	default:
		session.idle.Reset(wait)
	}
}

// take passes the messages of a POST to the guard.
func (s *webSession) take(p posted, to outlet) {
	if p.message == nil {
		s.guard.batch(p.body, to)
		return
	}
	s.guard.message(p.message, nil, nil, to)
}

// unused records that a request in a session has ended; the caller holds mu.
func (ws *webSessions) unused(of *usage) {
	of.busy--
	ws.uses++
	of.used = ws.uses
}

// endIdle ends a session that has been idle for its time. If the session is in use, it is
// checked again later.
func (ws *webSessions) endIdle(session *webSession) {
	ws.mu.Lock()
	switch {
	case ws.byID[session.id] != session:
		ws.mu.Unlock()
		return
	case session.busy > 0:
		ws.mu.Unlock()
		return // leave sets the timer again
	case session.calling():
		session.idle.Reset(ws.server.cfg.Limits.Idle)
		ws.mu.Unlock()
		return
	}
	ws.endingSoon(session)
	ws.mu.Unlock()
	session.close(ErrShutdown)
}

// sharedSession is the one Session of all modern requests of a principal over HTTP: these
// requests carry no session, and what they state about their client proves nothing.
type sharedSession struct {
	*Session
	usage
}

// sharedOf returns the shared session of the caller. The session is not idle until done is
// called. A tenant has at most Limits.TenantSessions shared sessions. If it has more
// principals, the session that was idle the longest is ended.
func (ws *webSessions) sharedOf(ctx context.Context) (_ *Session, done func(), _ *wire.Error) {
	whose := ws.server.cfg.callerOf(ctx).owner()
	for {
		ws.mu.Lock()
		if shared := ws.shared[whose]; shared != nil {
			shared.busy++
			ws.mu.Unlock()
			return shared.Session, func() {
				ws.mu.Lock()
				defer ws.mu.Unlock()
				ws.unused(&shared.usage)
			}, nil
		}
		most := ws.server.cfg.tenantSessions(whose.tenant)
		idle, full := ws.crowded(whose.tenant, most)
		if idle != nil {
			delete(ws.shared, idle.owner) // no request can find it from now on
		}
		ws.mu.Unlock()
		switch {
		case idle != nil:
			ws.server.cfg.Log.Info("end an idle HTTP session: the number of open sessions has reached its limit, and a new one begins", "session", idle.id, "tenant", whose.tenant, "most", most)
			idle.close(ErrEnded)
			continue
		case full:
			return nil, nil, wire.OverLimit("sessions", time.Minute, "all %d sessions of tenant %s (quota sessions) are in use; try again when a call of another principal has ended", most, whose.tenant)
		}
		if err := ws.share(ctx, whose); err != nil {
			return nil, nil, wire.OverLimit("shutdown", queueRetry, "%v", err)
		}
	}
}

// crowded reports whether a tenant has as many shared sessions as it may have. If so, idle
// is the one that was idle the longest, or nil if all are in use. The caller holds mu.
func (ws *webSessions) crowded(tenant string, most int) (idle *sharedSession, full bool) {
	count := 0
	for whose, session := range ws.shared {
		if whose.tenant != tenant {
			continue
		}
		count++
		if session.busy == 0 && !session.calling() && (idle == nil || session.used < idle.used) {
			idle = session
		}
	}
	if count < most {
		return nil, false
	}
	return idle, true
}

// share opens a shared session, unless another request has opened it meanwhile.
func (ws *webSessions) share(ctx context.Context, whose owner) error {
	made, err := ws.server.Open(ctx)
	if err != nil {
		return err
	}
	made.by("http", func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if held := ws.shared[whose]; held != nil && held.Session == made {
			delete(ws.shared, whose) // the next request opens a new one
		}
	})
	if !ws.adopt(whose, made) {
		made.Close()
	}
	return nil
}

// adopt makes a session the shared session of an owner, unless the owner already has one or
// the session has ended.
func (ws *webSessions) adopt(whose owner, made *Session) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	select {
	case <-made.Done(): // ended by End, before the session was in ws.shared
		return false
	default:
	}
	if ws.shared[whose] != nil {
		return false
	}
	ws.shared[whose] = &sharedSession{Session: made}
	return true
}

// endAll lets the calls of HTTP sessions return until ctx ends, cancels the other calls,
// and ends the sessions.
func (ws *webSessions) endAll(ctx context.Context) {
	ws.mu.Lock()
	all := make([]*Session, 0, len(ws.shared)+len(ws.byID))
	for _, session := range ws.shared {
		all = append(all, session.Session)
	}
	for _, session := range ws.byID {
		all = append(all, session.Session)
	}
	ws.mu.Unlock()
	var ending sync.WaitGroup // at the same time, because the streams of one session must not wait for the calls of another
	for _, session := range all {
		ending.Go(func() {
			select {
			case <-session.whenEmpty():
			case <-ctx.Done():
			}
			session.close(ErrShutdown)
		})
	}
	ending.Wait()
}

// streaming reserves one of the tenant's lasting streams, and limits it to the life of the
// caller's token. If all streams are in use, the answer has been sent, and ok is false.
// Otherwise the caller must call done at the end of the stream.
//
// The stream is the last answer of its connection. The streams of all clients end with the
// server, at the same moment, and each client would try its next request on the same
// connection. Over HTTP/2, other requests share the connection, and its end is announced
// (RFC 9113, 6.8).
func (w *web) streaming(ctx context.Context, rw http.ResponseWriter, r *http.Request, p posted, tenant string) (_ context.Context, done func(), ok bool) {
	closed, bad := w.server.cfg.stream(tenant)
	if bad != nil {
		w.busy(rw, http.StatusTooManyRequests, p, bad)
		return nil, nil, false
	}
	if r.ProtoMajor == 1 {
		rw.Header().Set("Connection", "close")
	}
	ctx, end := w.server.web.callers.whileValid(ctx)
	return ctx, func() {
		end()
		closed()
	}, true
}
