package mcp

import (
	"context"
	"errors"
	"net/http"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// primes is the first revision whose clients accept an event without data. With such an
// event, a client that is cut off can resume the stream before the first message.
const primes = "2025-11-25"

// serveLegacy serves a POST in the session that the POST names, or in the session that its
// initialize begins.
func (w *web) serveLegacy(rw http.ResponseWriter, r *http.Request, p posted) {
	if status, text := accepts(r.Header); status != 0 {
		http.Error(rw, text, status)
		return
	}
	if err := checkRevision(r.Header); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, all := r.Context(), w.server.web
	id := r.Header.Get(wire.SessionHeader)
	var session *webSession
	var bad *wire.Error
	var status int
	switch {
	case id != "":
		session, bad = all.use(ctx, id, false)
		status = statusOfNone(bad)
	case p.method != "initialize" || p.message == nil:
		status = http.StatusBadRequest
		bad = wire.Errorf(wire.InvalidRequest, "invalid request: %.64s came without a session; send initialize first", p.method)
	default:
		status = http.StatusTooManyRequests
		if bad = all.count(ctx); bad != nil {
			break
		}
		status = http.StatusServiceUnavailable
		if session, bad = all.begin(ctx, p.message); bad == nil {
			rw.Header().Set(wire.SessionHeader, session.id)
		}
	}
	if bad != nil {
		w.busy(rw, status, p, bad)
		return
	}
	defer all.leave(session)
	if p.requests == 0 {
		session.take(p, newExchange(ctx, sse.New()))
		all.keep(ctx, session)
		rw.WriteHeader(http.StatusAccepted)
		return
	}
	answered := func() { all.keep(ctx, session) }
	if id == "" {
		answered = func() {}
		session.keeper.begun(p.message.Params)
	}
	session.serve(rw, r, p, answered)
	if _, ok := session.guard.agreement(); !ok {
		session.close(context.Canceled) // its initialize was refused
		return
	}
	answered() // also if the answer was a stream of events
}

// serve answers the requests of a POST. It calls answered before a plain answer is sent.
func (s *webSession) serve(rw http.ResponseWriter, r *http.Request, p posted, answered func()) {
	defer s.writing()()
	x := newExchange(r.Context(), s.log.Open())
	s.take(p, x)
	revision, _ := s.guard.agreement()
	err := x.Serve(r.Context(), rw, sse.Serving{
		Prime: revision >= primes,
		Ended: s.gone,
		Status: func(h http.Header) int {
			if x.refused == nil {
				answered()
				return http.StatusOK
			}
			if p.method == "initialize" {
				h.Del(wire.SessionHeader) // no session has begun
			}
			p.served.limited(x.refused)
			retryAfter(h, x.refused)
			return statusOf(x.refused)
		},
	})
	switch {
	case errors.Is(err, sse.ErrEnded) && s.server.sessions.over(): // the session may continue on the next server
		retryAfter(rw.Header(), stopping())
		http.Error(rw, ErrShutdown.Error(), http.StatusServiceUnavailable)
	case errors.Is(err, sse.ErrEnded):
		http.Error(rw, "the session has ended; send initialize", http.StatusNotFound)
	case err != nil:
		// The call continues (MCP 2025-11-25, basic/transports: "Disconnection ... SHOULD
		// NOT be interpreted as the client cancelling its request").
		s.guard.giveUp(x)
	}
}

// get opens a session's stream of messages that belong to no request, or resumes a stream
// that was cut off.
func (w *web) get(rw http.ResponseWriter, r *http.Request) {
	if _, events := accepted(r.Header); !events {
		http.Error(rw, "Accept must contain 'text/event-stream' for GET requests", http.StatusBadRequest)
		return
	}
	session, ok := w.named(rw, r)
	if !ok {
		return
	}
	defer w.server.web.leave(session)
	if bad := session.door.count(1); bad != nil {
		w.busy(rw, http.StatusTooManyRequests, posted{}, bad)
		return
	}
	ctx, done, ok := w.streaming(r.Context(), rw, r, posted{}, session.tenant)
	if !ok {
		return
	}
	defer done()
	s, after := session.standing, int64(0)
	if found, number := session.log.Find(r.Header.Get(wire.LastHeader)); found != nil {
		s, after = found, number
	}
	if err := s.Serve(ctx, rw, sse.Serving{After: after, Ended: session.Done()}); err != nil {
		w.server.cfg.Log.Debug("a stream ended early", "session", session.ID(), "error", err)
	}
}

// delete ends a session.
func (w *web) delete(rw http.ResponseWriter, r *http.Request) {
	session, ok := w.named(rw, r)
	if !ok {
		return
	}
	defer w.server.web.leave(session)
	session.forget()
	session.cancelCalls(context.Canceled) // the client wants no answers
	session.close(ErrShutdown)
	select {
	case <-session.gone:
	case <-r.Context().Done():
	}
	rw.WriteHeader(http.StatusNoContent)
}

// named returns the session that a GET or DELETE names. If there is no such session, the
// answer has been sent, and ok is false. The caller must pass the session to leave.
func (w *web) named(rw http.ResponseWriter, r *http.Request) (_ *webSession, ok bool) {
	id := r.Header.Get(wire.SessionHeader)
	if id == "" {
		notAllowed(rw, "POST") // the modern era has no other method
		return nil, false
	}
	if err := checkRevision(r.Header); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	session, bad := w.server.web.use(r.Context(), id, false)
	if bad != nil {
		w.busy(rw, statusOfNone(bad), posted{}, bad)
		return nil, false
	}
	return session, true
}
