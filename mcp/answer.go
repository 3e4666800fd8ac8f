package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

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
	if e != nil && e.msg.Method != "initialize" { // which must not be cancelled
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

// skip notes that a request gets no answer.
func (g *guard) skip(e *entry) {
	var frame []byte
	var answers []wire.Delivery
	if e.batch != nil {
		frame, answers = e.batch.Add(nil, nil, g.limits.Response)
		if frame == nil && !e.batch.Over() {
			return
		}
	}
	g.put(frame, nil, answers, e.to)
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

// notifying returns the context of requests in which the notifications of a subscription
// are written by a guard.
func notifying(ctx context.Context, g *guard) context.Context {
	return context.WithValue(ctx, notifyKey{}, notifyFunc(func(r *jsonrpc.Request) error { return g.Write(ctx, r) }))
}

// Write sends what the sdk has for the client. An error means that the client
// is gone.
func (g *guard) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		g.answer(msg)
		return nil
	case *jsonrpc.Request:
		if !msg.IsCall() {
			msg = &jsonrpc.Request{Method: msg.Method, Params: g.subscribed(msg.Params)}
		}
		line, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return err
		}
		switch {
		case msg.IsCall():
			return g.ask(ctx, msg.ID, line)
		case msg.Method == "notifications/progress":
			return g.sendIn(ctx, line, aProgress)
		}
		return g.sendIn(ctx, line, aNotification)
	}
	return errors.New("write a message of an unknown type")
}

// ask sends a request of ours, whose answer the guard then lets in.
func (g *guard) ask(ctx context.Context, id jsonrpc.ID, line []byte) error {
	g.mu.Lock()
	g.asked[id.Raw()] = struct{}{}
	g.mu.Unlock()
	err := g.sendIn(ctx, line, aRequest)
	if !errors.Is(err, sse.ErrNobody) && !errors.Is(err, sse.ErrFull) && !errors.Is(err, sse.ErrOver) {
		return err
	}
	// The sdk ends a connection whose Write fails. Here only this request has failed.
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, id.Raw())
	g.push(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}})
	return nil
}

// answer sends the sdk's answer to a request under the client's own id.
func (g *guard) answer(r *jsonrpc.Response) {
	id, _ := r.ID.Raw().(int64)
	g.mu.Lock()
	e := g.byID[id]
	g.mu.Unlock()
	if e == nil {
		return
	}
	if e.msg.Method == "initialize" && e.msg.Era() == wire.Legacy {
		g.agreed(r)
	}
	var frame []byte
	if r.Error != nil {
		e.out.Done(false)
		bad := sdkError(r.Error)
		frame = wire.ErrorFrame(e.msg.ID, bad.Code, bad.Message, bad.Data)
	} else {
		result := r.Result
		if e.msg.Method == methodListen {
			result = g.subscribed(result)
		}
		frame = wire.ResultFrame(e.msg.ID, oneLine(result))
	}
	g.finish(e, frame)
}

// subscriptionKey names the member of a message's _meta with the id of its
// subscriptions/listen request (revision 2026-07-28, "Subscriptions").
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// subscribed puts the client's id of a subscription in the place of ours.
func (g *guard) subscribed(text json.RawMessage) json.RawMessage {
	var id int64
	var all, meta map[string]json.RawMessage
	switch {
	case !bytes.Contains(text, []byte(subscriptionKey)),
		json.Unmarshal(text, &all) != nil,
		json.Unmarshal(all["_meta"], &meta) != nil,
		json.Unmarshal(meta[subscriptionKey], &id) != nil:
		return text
	}
	g.mu.Lock()
	e := g.byID[id]
	g.mu.Unlock()
	if e == nil {
		return text
	}
	meta[subscriptionKey] = e.msg.ID
	named, err := json.Marshal(meta)
	if err != nil {
		return text
	}
	all["_meta"] = named
	if named, err = json.Marshal(all); err != nil {
		return text
	}
	return named
}

// finish answers a request and releases its place and its id. The id is free
// before the answer is written, since the client may use it again as soon as it has
// read the answer. Until it is written the request counts as in flight, so that the
// connection does not end before.
func (g *guard) finish(e *entry, frame []byte) {
	g.mu.Lock()
	silent := e.silent
	if g.byKey[e.msg.Key] == e {
		delete(g.byKey, e.msg.Key)
	}
	g.mu.Unlock()
	if silent {
		e.out.Done(false)
		g.skip(e)
	} else {
		g.send(e.msg.ID, e.batch, frame, e.out, e.to)
	}
	g.session.door.leave(&e.ticket)
	g.mu.Lock()
	g.unregister(e)
	g.mu.Unlock()
}

// agreed notes the revision that initialize agreed on.
func (g *guard) agreed(r *jsonrpc.Response) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Error != nil {
		g.move(evReject)
		return
	}
	g.version = wire.Text(wire.Member(r.Result, "protocolVersion"))
}

// sdkError gives an error of the sdk a code that fits. Plain errors of the sdk have no
// code, and its own codes are in reserved ranges.
func sdkError(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	out := *e
	out.Message = err.Error()
	if out.Code == 0 || slices.Contains([]int64{-32001, -32004, -32005}, out.Code) {
		out.Code = jsonrpc.CodeInternalError
	}
	return &out
}

// oneLine is JSON without line feeds. What the sdk encodes has none; the check
// is for raw values that pass through it.
func oneLine(text []byte) []byte {
	if bytes.IndexByte(text, '\n') < 0 {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return []byte(`{}`)
	}
	return b.Bytes()
}
