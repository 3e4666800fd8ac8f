package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// message handles one message. Its answer goes to an outlet, and into b if it came in a
// batch.
func (g *guard) message(m *wire.Message, bad *wire.Error, b *wire.Batch, to outlet) {
	if bad == nil && g.placed { // its client has a token, unlike one over stdio
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
		// Answered here, so that a client that floods us still sees us alive.
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
	handshake := m.Method == "initialize" && m.Era() == wire.Legacy // the modern era has none
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

// start passes a request on; the admission calls it when the request's turn has come.
func (g *guard) start(e *entry) {
	g.mu.Lock()
	e.begun = true
	silent := e.silent
	g.mu.Unlock()
	if silent { // cancelled between the queue and here
		g.finish(e, nil)
		return
	}
	if g.serve == nil || !g.serve(e) {
		delegate(g, e)
	}
}

// delegate has the go-sdk serve a request.
func delegate(g *guard, e *entry) {
	params := e.msg.Params
	if params == nil {
		// The sdk calls a missing params an invalid request; what is wrong with
		// it is what it lacks, which the sdk says of an empty object.
		params = []byte(`{}`)
	}
	id, err := jsonrpc.MakeID(float64(e.id))
	if err != nil {
		g.log.Error("make an id", "error", err) // cannot be: a float64 is one
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
	if e.silent { // cancelled since the look above
		g.pushCancel(e)
	}
}

// notification handles a message that wants no answer. The sdk gets only those that
// it acts on: its queue has no bound.
func (g *guard) notification(m *wire.Message) {
	switch m.Method {
	case "notifications/initialized", "initialized": // some clients forget the prefix
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.move(evInitialized) {
			g.push(&jsonrpc.Request{Method: "notifications/initialized", Params: m.Params})
		}
	case "notifications/cancelled":
		g.cancelled(m)
	}
}

// cancelled ends a request that the client has cancelled. The request gets no answer
// (cancellation, "the receiver should not send a response").
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

// cancel ends a request, which gets no answer.
func (g *guard) cancel(e *entry) {
	g.mu.Lock()
	e.silent = true
	if g.byKey[e.msg.Key] == e {
		delete(g.byKey, e.msg.Key) // the client may use the id again
	}
	g.mu.Unlock()

	if g.session.door.withdraw(&e.ticket) {
		// It had not been started, so nobody will answer it.
		g.mu.Lock()
		g.unregister(e)
		g.mu.Unlock()
		g.skip(e)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !e.begun: // start will see that it was cancelled
	case e.cancel != nil:
		e.cancel(context.Canceled)
	case g.byID[e.id] == e:
		g.pushCancel(e)
	}
}

// pushCancel has the sdk cancel a request; mu is held.
func (g *guard) pushCancel(e *entry) {
	params, err := json.Marshal(map[string]int64{"requestId": e.id})
	if err != nil {
		return // cannot be: a map of a number
	}
	g.push(&jsonrpc.Request{Method: "notifications/cancelled", Params: params})
}

// response hands the client's answer to one of our requests to the sdk. An answer
// to no request is dropped.
func (g *guard) response(m *wire.Message) {
	g.mu.Lock()
	expected := len(g.asked) > 0
	g.mu.Unlock()
	if !expected {
		return
	}
	msg, err := jsonrpc.DecodeMessage(m.Raw)
	if err != nil {
		return
	}
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.asked[r.ID.Raw()]; ok {
		delete(g.asked, r.ID.Raw())
		g.push(r)
	}
}

// giveUp withdraws the requests that have not begun and whose answers go to an outlet
// that is gone.
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

// shut moves the connection to Shutting: requests in flight end, new ones are
// refused. drained is closed when the last one has been answered.
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
