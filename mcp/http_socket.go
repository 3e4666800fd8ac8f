package mcp

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"belljar.dev/mcp/socket"
)

// A conversation over a WebSocket is like a conversation over stdio (conversation.go), with
// a text message in place of each line: a guard of the same type reads the messages, and
// each answer is one text message. No revision of the protocol describes this transport,
// but clients of several SDKs use it.

// subprotocol is the subprotocol that an MCP client offers (RFC 6455, 1.9). A server that
// did not require it would accept connections of pages that use another protocol.
const subprotocol = "mcp"

// noSockets is the answer of a server that does not serve WebSockets.
const noSockets = "this server does not serve WebSockets: use Streamable HTTP at this URL, or have its operator start it with --websocket"

// webSocket accepts a WebSocket and begins the conversation with its client, which
// continues after webSocket has returned.
func (w *web) webSocket(rw http.ResponseWriter, r *http.Request) {
	if !w.server.cfg.Sockets {
		http.Error(rw, noSockets, http.StatusNotFound)
		return
	}
	if offered := socket.Protocols(r); !slices.Equal(offered, []string{subprotocol}) {
		// A client may have offered its token as a subprotocol, and a proxy may write it to
		// a log.
		http.Error(rw, "offer only the subprotocol mcp and, if you have one, a ticket; send a token in the header Authorization", http.StatusBadRequest)
		return
	}
	var place *place
	bad := w.server.web.count(r.Context())
	if bad == nil {
		place, bad = w.server.web.takePlace(r.Context(), "") // the client states its name only in its first message
	}
	conn, err := acceptSocket(w.server.cfg, rw, r)
	switch {
	case bad == nil && err == nil:
		// converse returns immediately, because net/http keeps several buffers as long as a
		// handler runs.
		w.converse(context.WithoutCancel(r.Context()), conn, place)
	case bad == nil:
		w.server.web.leavePlace(place)
	case err == nil: // a web page can read why a WebSocket was closed, but cannot read an HTTP answer
		conn.Close(socket.TryLater, bad.Text)
	}
}

// converse starts a goroutine that serves the client of a WebSocket and releases its place
// at the end of the conversation.
func (w *web) converse(ctx context.Context, conn *socket.Conn, place *place) {
	answered := servedIn(ctx).hijack()
	ctx, done := w.server.web.callers.whileValid(ctx)
	var session string
	over := func(cause, err error) {
		if err != nil {
			w.server.cfg.Log.Debug("end of a WebSocket", "session", session, "error", err)
		}
		conn.Close(closing(cause, err)) // sends a close frame only if the conversation did not begin
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

// acceptSocket accepts a WebSocket. If it fails, the answer has been sent.
func acceptSocket(cfg *Config, rw http.ResponseWriter, r *http.Request) (*socket.Conn, error) {
	conn, err := socket.Accept(rw, r, subprotocol, socket.Limits{
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

// closing returns the code and the reason that a client gets at the end of its
// conversation.
func closing(cause, err error) (socket.Code, string) {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return socket.Policy, "the token has expired; connect with a new one"
	case errors.Is(cause, context.Canceled):
		return socket.Policy, "the token is no longer valid; connect with another one"
	case errors.Is(cause, ErrShutdown):
		return socket.GoingAway, cause.Error()
	case cause != nil:
		return socket.Policy, cause.Error()
	case err != nil:
		return socket.Internal, "the connection broke"
	}
	return socket.GoingAway, "the conversation has ended"
}
