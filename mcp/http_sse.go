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

// HTTP with SSE is the transport of revision 2024-11-05, which later ones replace by
// Streamable HTTP. A client opens a stream by GET. Its first event has the URL to which
// the client POSTs all of its messages, and all answers come in the stream.
//
// A session is a webSession like others: it has the same owner, place, idle time and
// book. What is added to the revision is that events have ids, so that a client that was
// cut off, or whose server was started again, comes back to its session: programs that
// read such streams do that unasked (WHATWG HTML, "Server-sent events"), and without the
// id they would be in a session that does not know them.

const (
	ssePath      = "/sse"
	messagesPath = "/messages"
	// sessionParam names the session in the URL to which a client sends its messages.
	sessionParam = "sessionId"
	// sseIDEnd ends the id of the session in that of an event.
	sseIDEnd = "."
	// sseRetry is how long a client waits before it comes back, in milliseconds.
	sseRetry = "3000"
)

// noSSE is the answer where HTTP with SSE is not served.
const noSSE = "this server does not serve HTTP with SSE, the transport of 2024-11-05: use Streamable HTTP at /mcp, or have its operator start it with --legacy-sse"

// sse opens the stream of a session: of one that the client had, or else of a new one.
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
		w.server.cfg.Log.Debug("a stream was cut off", "session", session.id, "error", err)
	}
}

// endpoint is the first event of a stream: where the client is to send its messages. at
// is the path of the stream.
func endpoint(at string, session *webSession) []byte {
	to := url.URL{Path: strings.TrimSuffix(at, ssePath) + messagesPath, RawQuery: url.Values{sessionParam: {session.id}}.Encode()}
	return []byte("event: endpoint\nid: " + session.log.Start() + "\nretry: " + sseRetry + "\ndata: " + to.String() + "\n\n")
}

// sseSession returns the session that has the event that a client got last, and behind
// which event the client goes on; else a new session. The caller must pass it to leave.
func (ws *webSessions) sseSession(ctx context.Context, last string) (_ *webSession, after int64, _ *wire.Error) {
	if id, _, found := strings.Cut(last, sseIDEnd); found && isSessionID(id) {
		session, bad := ws.use(ctx, id, true)
		switch {
		case session != nil:
			// Where an earlier server sent the event, all that is kept came later.
			return session, cmp.Or(session.log.After(last), sse.FromStart), nil
		case bad.Kind == wire.RateLimited:
			return nil, 0, bad
		}
	}
	if bad := ws.count(ctx); bad != nil {
		return nil, 0, bad
	}
	p, bad := ws.takePlace(ctx, "") // the client says later who it is
	if bad != nil {
		return nil, 0, bad
	}
	session, bad := ws.openNew(ctx, newSSEID(), p)
	return session, 0, bad
}

// messages serves a POST with a message, or a batch, of the client of a stream.
func (w *web) messages(rw http.ResponseWriter, r *http.Request) {
	if !offered(rw, r, w.server.cfg.SSE, noSSE, http.MethodPost) {
		return
	}
	ids := r.URL.Query()[sessionParam]
	if len(ids) != 1 || ids[0] == "" || !isSessionID(ids[0]) {
		http.Error(rw, "the URL names no session: GET /sse, and send messages to the URL of its event endpoint", http.StatusBadRequest)
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
		w.busy(rw, http.StatusTooManyRequests, p, wire.OverLimit("unread", queueRetry, "the answers before this one wait in the stream; read them, and try again"))
		return
	}
	if _, agreed := session.guard.agreement(); !agreed && p.method == "initialize" && p.message != nil {
		session.keeper.begun(p.message.Params)
	}
	session.take(p, &letter{stream{session.standing}, identityIn(r.Context())})
	w.server.web.keep(r.Context(), session)
	rw.WriteHeader(http.StatusAccepted)
}
