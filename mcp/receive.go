package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// message handles one message. The answer is sent to an outlet, and is added to b if the
// message came in a batch.
func (g *guard) message(m *wire.Message, bad *wire.Error, b *wire.Batch, to outlet) {
	if bad == nil && g.placed { // such a client has a token, unlike a client over stdio
		bad = tokenInMeta(m.Meta)
	}
	switch {
	case bad != nil && m.IsNotification():
		g.log.Debug("a notification was dropped", "session", g.session.id, "error", bad.Text)
	case bad != nil:
		g.refuse(m.ID, m.Era(), b, bad, to)
	case m.IsRequest():
		g.request(m, b, to)
	case m.IsNotification():
		g.notification(m)
	default:
		g.response(m)
	}
}

func (g *guard) request(m *wire.Message, b *wire.Batch, to outlet) {
	if m.Method == "ping" && m.Era() == wire.Legacy {
		// Answered here, so that a client that floods the server still sees that the server
		// is alive.
		g.send(m.ID, b, wire.ResultFrame(m.ID, []byte(`{}`)), nil, to)
		return
	}
	e := &entry{msg: m, batch: b, to: to, out: g.session.receipts.arrive()}
	e.out.via = to
	e.ticket = ticket{n: 1, bytes: len(m.Raw), start: func() { g.start(e) }}
	if !g.room.take(m) {
		g.refuse(m.ID, m.Era(), b, bytesInFlight(), to)
		return
	}
	if bad := g.register(e); bad != nil {
		g.room.release(m)
		g.refuse(m.ID, m.Era(), b, bad, to)
		return
	}
	handshake := m.Method == "initialize" && m.Era() == wire.Legacy // the modern era has no handshake
	if handshake && g.placed {
		e.ticket.begin()
		return
	}
	if bad := g.session.door.ask(&e.ticket); bad != nil {
		g.mu.Lock()
		if handshake {
			g.move(evReject)
		}
		g.unregister(e)
		g.mu.Unlock()
		g.refuse(m.ID, m.Era(), b, bad, to)
	}
}

// start passes a request on. The admission calls it when the request's turn has come.
func (g *guard) start(e *entry) {
	g.mu.Lock()
	e.begun = true
	silent := e.silent
	g.mu.Unlock()
	if silent { // cancelled after it left the queue
		g.finish(e, nil)
		return
	}
	if g.serve == nil || !g.serve(e) {
		delegate(g, e)
	}
}

// delegate passes a request to the go-sdk.
func delegate(g *guard, e *entry) {
	params := e.msg.Params
	if params == nil {
		// The sdk calls a request without params invalid. For an empty object it reports
		// which params are missing, which is more useful.
		params = []byte(`{}`)
	}
	id, err := jsonrpc.MakeID(float64(e.id))
	if err != nil {
		g.log.Error("generate an id", "error", err) // cannot happen: a float64 is a valid id
		return
	}
	extra := &sdk.RequestExtra{Header: http.Header{outgoingHeader: {e.out.name()}}}
	if x, ok := e.to.(*exchange); ok {
		extra.CloseSSEStream = func(args sdk.CloseSSEStreamArgs) { x.Cut(args.RetryAfter) }
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.msg.Method == methodListen {
		g.listens[e] = struct{}{}
		params = withTaskIDs(params)
	}
	g.push(&jsonrpc.Request{ID: id, Method: e.msg.Method, Params: params, Extra: extra})
	if e.silent { // cancelled since the check in start
		g.pushCancel(e)
	}
}

// notification handles a message that needs no answer. The sdk gets only the notifications
// on which it acts, because its queue is unbounded.
func (g *guard) notification(m *wire.Message) {
	switch m.Method {
	case "notifications/initialized", "initialized": // some clients omit the prefix
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.move(evInitialized) {
			g.push(&jsonrpc.Request{Method: "notifications/initialized", Params: m.Params})
		}
	case "notifications/cancelled":
		g.cancelled(m)
	}
}

// cancelled handles a client's notification that a request is cancelled. The request gets
// no answer (cancellation, "the receiver should not send a response").
func (g *guard) cancelled(m *wire.Message) {
	raw := wire.Member(m.Params, "requestId")
	if raw == nil {
		return
	}
	key, bad := wire.IDKey(raw)
	if bad != nil {
		return
	}
	g.mu.Lock()
	e := g.byKey[key]
	g.mu.Unlock()
	if e != nil && e.msg.Method != "initialize" { // initialize must not be cancelled
		g.cancel(e)
	}
}

// cancel ends a request. The request gets no answer.
func (g *guard) cancel(e *entry) {
	g.mu.Lock()
	e.silent = true
	if g.byKey[e.msg.Key] == e {
		delete(g.byKey, e.msg.Key) // the client may use the id again
	}
	g.mu.Unlock()

	if g.session.door.withdraw(&e.ticket) {
		// The request had not started, so nothing else will finish it.
		g.mu.Lock()
		g.unregister(e)
		g.mu.Unlock()
		g.skip(e)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !e.begun: // start will find that the request was cancelled
	case e.cancel != nil:
		e.cancel(context.Canceled)
	case g.byID[e.id] == e:
		g.pushCancel(e)
	}
}

// pushCancel makes the sdk cancel a request; the caller holds mu.
func (g *guard) pushCancel(e *entry) {
	params, err := json.Marshal(map[string]int64{"requestId": e.id})
	if err != nil {
		return // cannot happen: it is a map of a number
	}
	g.push(&jsonrpc.Request{Method: "notifications/cancelled", Params: params})
}

// response passes the client's answer to a request of this server to the sdk. It drops an
// answer to no request, and returns false.
func (g *guard) response(m *wire.Message) bool {
	g.mu.Lock()
	expected := len(g.asked) > 0
	g.mu.Unlock()
	if !expected {
		return false
	}
	msg, err := jsonrpc.DecodeMessage(m.Raw)
	if err != nil {
		return false
	}
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.asked[r.ID.Raw()]; !ok {
		return false
	}
	delete(g.asked, r.ID.Raw())
	g.push(r)
	return true
}

// giveUp withdraws the requests that have not begun and whose answers would be sent to an
// outlet that is disconnected.
func (g *guard) giveUp(to outlet) {
	g.mu.Lock()
	var all []*entry
	for _, e := range g.byID {
		if e.to == to && !e.begun {
			all = append(all, e)
		}
	}
	g.mu.Unlock()
	for _, e := range all {
		g.cancel(e)
	}
}

// shut moves the connection to Shutting: requests in flight end, and new requests are
// refused. drained is closed when the last request has been answered.
func (g *guard) shut(e event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.move(e) {
		return
	}
	for e := range g.listens {
		g.pushCancel(e)
	}
	if len(g.byID) == 0 {
		g.drain()
	}
}
