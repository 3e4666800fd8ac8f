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

// halfOpen is how long a session lives whose client never finished the handshake.
const halfOpen = 2 * time.Minute

// webSessions are the sessions of HTTP clients.
type webSessions struct {
	server   *Server
	callers  *callers
	inFlight *inFlight

	mu     sync.Mutex
	byID   map[string]*webSession   // guarded by mu: by Mcp-Session-Id
	named  map[string]int           // guarded by mu: those taken by each name of a client, where there are no tenants
	shared map[owner]*sharedSession // guarded by mu: of all modern requests of a principal
	uses   int64                    // guarded by mu: requests that have ended, in all sessions
	ended  []endedSession           // guarded by mu: by End, the latest last; at most maxEnded
	coming map[string]chan struct{} // guarded by mu: closed when a session that is looked for in the book has come, or not
	going  map[string]*webSession   // guarded by mu: those that end and may come back, until their places are free
}

func newWebSessions(s *Server) *webSessions {
	return &webSessions{
		server: s, callers: newCallers(s.cfg), inFlight: newInFlight(s.cfg), byID: make(map[string]*webSession),
		named: make(map[string]int), shared: make(map[owner]*sharedSession), coming: make(map[string]chan struct{}), going: make(map[string]*webSession),
	}
}

// webSession is a Session and its state over HTTP. It is idle without requests and
// without calls: calls go on when the client's connection is cut.
type webSession struct {
	*Session
	usage
	guard    *guard
	log      *sse.Log    // of the events that its client got
	standing *sse.Stream // what belongs to no request; the client reads it by GET
	place    *place
	answered chan struct{} // closed when it is over and its last call is answered, or was waited for long enough
	gone     chan struct{} // closed when its place is free

	keeper *keeper
	forget func() // removes it from the book

	idle *time.Timer // guarded by webSessions.mu: ends it
}

// usage is whether a session is in use. It is guarded by webSessions.mu.
type usage struct {
	busy int   // requests that are not over, open streams among them
	used int64 // which of all uses the last was
}

// begin opens the session that an initialize begins. The caller must pass it to leave.
func (ws *webSessions) begin(ctx context.Context, m *wire.Message) (*webSession, *wire.Error) {
	p, bad := ws.takePlace(ctx, clientName(m))
	if bad != nil {
		return nil, bad
	}
	return ws.openNew(ctx, newSessionID(), p)
}

// clientName is the name that the client of an initialize gives itself.
func clientName(m *wire.Message) string {
	name := wire.Text(wire.Member(wire.Member(m.Params, "clientInfo"), "name"))
	return policies.Clip(name, maxClientName)
}

// maxClientName is how many characters of a client's name are kept.
const maxClientName = 64

// use returns the session that a request names, and brings it back if it is kept. To
// anybody but its owner, and over another transport, it does not exist. It is not idle
// until the caller passes it to leave.
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
			return nil, wire.OverLimit("sessions", queueRetry, "the request was given up before its turn")
		}
	}
}

// find returns a session that is open, or the error of one that does not exist. Without
// either the session may be kept: if coming is nil, the caller is to look for it. Else it
// ends now, or another request looks for it, until coming is closed.
func (ws *webSessions) find(ctx context.Context, id string) (_ *webSession, coming <-chan struct{}, _ *wire.Error) {
	caller := ws.server.cfg.callerOf(ctx).owner()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	session := ws.byID[id]
	others, looked := ws.coming[id]
	switch {
	case session != nil && session.owner == caller && looked: // it is open, and what is kept of it not yet in it
		return nil, others, nil
	case session != nil && session.owner == caller:
		session.busy++
		return session, nil, nil
	case session == nil && ws.server.sessions.over(): // it may have ended just now
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

// leave notes that a request in a session is over. Without another one, the session ends
// after its idle time.
func (ws *webSessions) leave(session *webSession) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	wait := ws.server.cfg.Limits.Idle
	if session.used == 0 && !session.resumed || overSSE(session.id) {
		// Its initialize is over; or, over SSE, its stream is, by which a client ends it.
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

// take gives what a POST brought to the guard.
func (s *webSession) take(p posted, to outlet) {
	if p.message == nil {
		s.guard.batch(p.body, to)
		return
	}
	s.guard.message(p.message, nil, nil, to)
}

// unused notes that a request in a session is over; mu is held.
func (ws *webSessions) unused(of *usage) {
	of.busy--
	ws.uses++
	of.used = ws.uses
}

// endIdle ends a session that has been idle for its time, and looks again later at one
// that is in use.
func (ws *webSessions) endIdle(session *webSession) {
	ws.mu.Lock()
	switch {
	case ws.byID[session.id] != session:
		ws.mu.Unlock()
		return
	case session.busy > 0:
		ws.mu.Unlock()
		return // leave sets the timer
	case session.calling():
		session.idle.Reset(ws.server.cfg.Limits.Idle)
		ws.mu.Unlock()
		return
	}
	ws.endingSoon(session)
	ws.mu.Unlock()
	session.close(ErrShutdown)
}

// sharedSession is the one Session of all modern requests of a principal over HTTP: they
// carry no session, and what they say of themselves proves nothing.
type sharedSession struct {
	*Session
	usage
}

// sharedOf returns the shared session of the caller. It is not idle until done is
// called. A tenant has at most Limits.TenantSessions of them: where its principals are
// more, the session that was idle the longest ends.
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
			delete(ws.shared, idle.owner) // no request finds it any more
		}
		ws.mu.Unlock()
		switch {
		case idle != nil:
			ws.server.cfg.Log.Info("end an idle HTTP session: as many as are allowed are open, and another one begins", "session", idle.id, "tenant", whose.tenant, "most", most)
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

// crowded reports whether a tenant has as many shared sessions as it may, and which of
// them was idle the longest, if any is; mu is held.
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

// share opens a shared session, unless another request has done it meanwhile.
func (ws *webSessions) share(ctx context.Context, whose owner) error {
	made, err := ws.server.Open(ctx)
	if err != nil {
		return err
	}
	made.by("http", func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if held := ws.shared[whose]; held != nil && held.Session == made {
			delete(ws.shared, whose) // the next request begins another one
		}
	})
	if !ws.adopt(whose, made) {
		made.Close()
	}
	return nil
}

// adopt makes a session the shared one of an owner, unless there is one already or the
// session has ended.
func (ws *webSessions) adopt(whose owner, made *Session) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	select {
	case <-made.Done(): // by End, which did not find it here
		return false
	default:
	}
	if ws.shared[whose] != nil {
		return false
	}
	ws.shared[whose] = &sharedSession{Session: made}
	return true
}

// endAll lets the calls of HTTP sessions return until ctx ends, cancels the
// rest, and ends the sessions.
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
	var ending sync.WaitGroup // together: the streams of one do not wait for the calls of another
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

// streaming takes a stream that lasts for the caller's tenant, and bounds it by the life of
// the caller's token. If there is no room, the answer has been sent, and ok is false.
// Otherwise the caller calls done at the end of the stream.
//
// The stream is the last answer of its connection. It ends when the server does, at the
// same moment as those of all clients, and each would try its next request on that
// connection. Over HTTP/2 other requests share it, and its end is announced (RFC 9113, 6.8).
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
