package mcp

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// HTTP with SSE is the transport of revision 2024-11-05, which later revisions replace by
// Streamable HTTP. A client opens a stream with GET. The first event contains the URL to
// which the client POSTs all its messages, and all answers are sent in the stream.
//
// A session is a webSession like the others: it has the same owner, place, idle time and
// book. In addition to the revision, events have ids. With them, a client returns to its
// session after its connection broke or the server was restarted. Programs that read such
// streams send the last id without being asked (WHATWG HTML, "Server-sent events"). Without
// the id they would get a new session.

const (
	ssePath      = "/sse"
	messagesPath = "/messages"
	// sessionParam names the session in the URL to which a client sends its messages.
	sessionParam = "sessionId"
	// sseIDEnd ends the id of the session in the id of an event.
	sseIDEnd = "."
	// sseRetry is how long a client waits before it reconnects, in milliseconds.
	sseRetry = "3000"
)

// noSSE is the answer if HTTP with SSE is not served.
const noSSE = "this server does not serve HTTP with SSE, the transport of 2024-11-05: use Streamable HTTP at /mcp, or have its operator start it with --legacy-sse"

// sse opens the stream of a session: of the session that the client had before, or of a new
// one.
func (w *web) sse(rw http.ResponseWriter, r *http.Request) {
	if !offered(rw, r, w.server.cfg.SSE, noSSE, http.MethodGet) {
		return
	}
	if _, events := accepted(r.Header); !events {
		http.Error(rw, "Accept must contain 'text/event-stream'", http.StatusBadRequest)
		return
	}
	last := r.Header.Get(wire.LastHeader)
	session, after, bad := w.server.web.sseSession(r.Context(), last)
	if bad == nil {
		defer w.server.web.leave(session)
		bad = session.door.count(1)
	}
	if bad != nil {
		w.busy(rw, http.StatusServiceUnavailable, posted{}, bad)
		return
	}
	servesSession(r.Context(), session.id)
	ctx, done, ok := w.streaming(r.Context(), rw, r, posted{}, session.tenant)
	if !ok {
		return
	}
	defer done()
	err := session.standing.Serve(ctx, rw, sse.Serving{
		First: endpoint(r.URL.Path, session), After: after, Ended: session.answered,
	})
	if err != nil {
		w.server.cfg.Log.Debug("a stream ended early", "session", session.id, "error", err)
	}
}

// endpoint returns the first event of a stream, which contains the URL for the client's
// messages. at is the path of the stream.
func endpoint(at string, session *webSession) []byte {
	to := url.URL{Path: strings.TrimSuffix(at, ssePath) + messagesPath, RawQuery: url.Values{sessionParam: {session.id}}.Encode()}
	return []byte("event: endpoint\nid: " + session.log.Start() + "\nretry: " + sseRetry + "\ndata: " + to.String() + "\n\n")
}

// sseSession returns the session that contains the last event that a client got, and the
// number of the event after which the stream resumes. If there is no such session, it
// returns a new one. The caller must pass the session to leave.
func (ws *webSessions) sseSession(ctx context.Context, last string) (_ *webSession, after int64, _ *wire.Error) {
	if id, _, found := strings.Cut(last, sseIDEnd); found && isSessionID(id) {
		session, bad := ws.use(ctx, id, true)
		switch {
		case session != nil:
			// If an earlier server sent the event, all events that are kept are later.
			return session, cmp.Or(session.log.After(last), sse.FromStart), nil
		case bad.Kind == wire.RateLimited:
			return nil, 0, bad
		}
	}
	if bad := ws.count(ctx); bad != nil {
		return nil, 0, bad
	}
	p, bad := ws.takePlace(ctx, "") // the client states its name later
	if bad != nil {
		return nil, 0, bad
	}
	session, bad := ws.openNew(ctx, newSSEID(), p)
	return session, 0, bad
}

// messages serves a POST with a message or a batch from the client of a stream.
func (w *web) messages(rw http.ResponseWriter, r *http.Request) {
	if !offered(rw, r, w.server.cfg.SSE, noSSE, http.MethodPost) {
		return
	}
	ids := r.URL.Query()[sessionParam]
	if len(ids) != 1 || ids[0] == "" || !isSessionID(ids[0]) {
		http.Error(rw, "the URL does not name a session: GET /sse, and send messages to the URL of its event endpoint", http.StatusBadRequest)
		return
	}
	if !isJSON(r.Header) {
		http.Error(rw, notJSON, http.StatusUnsupportedMediaType)
		return
	}
	p, ok := w.readPost(rw, r)
	if !ok {
		return
	}
	session, bad := w.server.web.use(r.Context(), ids[0], true)
	if bad != nil {
		w.busy(rw, statusOfNone(bad), p, bad)
		return
	}
	defer w.server.web.leave(session)
	servesSession(r.Context(), session.id)
	if session.standing.Full() {
		w.busy(rw, http.StatusTooManyRequests, p, wire.OverLimit("unread", queueRetry, "earlier answers still wait in the stream; read them, and try again"))
		return
	}
	if _, agreed := session.guard.agreement(); !agreed && p.method == "initialize" && p.message != nil {
		session.keeper.begun(p.message.Params)
	}
	session.take(p, &letter{stream{session.standing}, identityIn(r.Context())})
	w.server.web.keep(r.Context(), session)
	rw.WriteHeader(http.StatusAccepted)
}
