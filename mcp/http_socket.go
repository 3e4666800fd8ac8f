package mcp

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"belljar.dev/mcp/socket"
)

// A conversation over a WebSocket is one over stdio (conversation.go), with a message of
// text in place of each line: the same guard reads it, and each answer is one frame. No
// revision of the protocol describes this transport; clients of several SDKs speak it.

// protocol is the subprotocol of MCP. A server that ignores it would take connections of
// pages that speak something else.
const protocol = "mcp"

// noSockets is the answer where WebSockets are not served.
const noSockets = "this server does not serve WebSockets: use Streamable HTTP at this URL, or have its operator start it with --websocket"

// webSocket serves a client over a WebSocket, until one of the two ends it.
func (w *web) webSocket(rw http.ResponseWriter, r *http.Request) {
	if !w.server.cfg.Sockets {
		http.Error(rw, noSockets, http.StatusNotFound)
		return
	}
	if offered := socket.Protocols(r); !slices.Equal(offered, []string{protocol}) {
		// What else is offered may be a token, which logs of proxies have by now.
		http.Error(rw, "offer the subprotocol mcp, and nothing else but a ticket; a token comes in the header Authorization", http.StatusBadRequest)
		return
	}
	var place *place
	bad := w.server.web.count(r.Context())
	if bad == nil {
		place, bad = w.server.web.takePlace(r.Context(), "") // who the client is it says later
	}
	conn, err := acceptSocket(w.server.cfg, rw, r)
	switch {
	case bad == nil && err == nil:
		// net/http keeps several buffers for as long as a handler runs.
		w.converse(context.WithoutCancel(r.Context()), conn, place)
	case bad == nil:
		w.server.web.leavePlace(place)
	case err == nil: // a page sees nothing of an answer by HTTP
		conn.Close(socket.TryLater, bad.Text)
	}
}

// converse serves the client of a WebSocket in a goroutine, and gives its place back.
func (w *web) converse(ctx context.Context, conn *socket.Conn, place *place) {
	answered := servedIn(ctx).hijack()
	ctx, done := w.server.web.callers.whileValid(ctx)
	var session string
	over := func(cause, err error) {
		if err != nil {
			w.server.cfg.Log.Debug("end of a WebSocket", "session", session, "error", err)
		}
		conn.Close(closing(cause, err)) // if the conversation had not begun
		done()
		w.server.web.leavePlace(place)
		answered()
	}
	c, err := w.server.begin(ctx, &link{
		transport: "websocket", out: conn, among: true,
		read: func(g *guard) error { return readMessages(g, conn) },
		stop: func(cause, err error) { conn.Close(closing(cause, err)) },
		prepare: func(g *guard) {
			session = g.session.id
			servesSession(ctx, session)
			g.placed, g.room = true, w.server.web.inFlight.of(g.session)
		},
	})
	if err != nil {
		over(err, err)
		return
	}
	go func() { over(c.run()) }()
}

// acceptSocket accepts a WebSocket. Where it fails, the answer has been sent.
func acceptSocket(cfg *Config, rw http.ResponseWriter, r *http.Request) (*socket.Conn, error) {
	conn, err := socket.Accept(rw, r, protocol, socket.Limits{
		Message: cfg.Limits.Line, Whole: cfg.Limits.Body, First: halfOpen,
	})
	if err != nil {
		cfg.Log.Debug("a WebSocket was not accepted", "error", err)
	}
	return conn, err
}

// readMessages handles the messages of a client until it closes the WebSocket.
func readMessages(g *guard, conn *socket.Conn) error {
	for {
		message, err := conn.Read()
		if err != nil {
			return err
		}
		readLine(g, message)
	}
}

// closing is what a client gets to know about the end of its conversation.
func closing(cause, err error) (socket.Code, string) {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return socket.Policy, "the token has expired; connect with the next one"
	case errors.Is(cause, context.Canceled):
		return socket.Policy, "the token does not hold any more; connect with another one"
	case errors.Is(cause, ErrShutdown):
		return socket.GoingAway, cause.Error()
	case cause != nil:
		return socket.Policy, cause.Error()
	case err != nil:
		return socket.Internal, "the connection broke"
	}
	return socket.GoingAway, "the conversation is over"
}
