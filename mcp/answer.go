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

// notifying returns a context for requests, with which guard g writes the notifications of
// a subscription.
func notifying(ctx context.Context, g *guard) context.Context {
	return context.WithValue(ctx, notifyKey{}, notifyFunc(func(r *jsonrpc.Request) error { return g.Write(ctx, r) }))
}

// Write sends a message of the sdk to the client. An error means that the client is
// disconnected.
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

// ask sends a request of the server. The guard then lets the client's answer in.
func (g *guard) ask(ctx context.Context, id jsonrpc.ID, line []byte) error {
	g.mu.Lock()
	g.asked[id.Raw()] = struct{}{}
	g.mu.Unlock()
	err := g.sendIn(ctx, line, aRequest)
	if !errors.Is(err, sse.ErrNobody) && !errors.Is(err, sse.ErrFull) && !errors.Is(err, sse.ErrOver) {
		return err
	}
	// The sdk ends a connection if Write returns an error. Here only this request has
	// failed.
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

// subscribed replaces the id of a subscription, in a notification or in the result of
// subscriptions/listen, by the client's own id.
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

// agreed records the revision in the result of initialize.
func (g *guard) agreed(r *jsonrpc.Response) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Error != nil {
		g.move(evReject)
		return
	}
	g.version = wire.Text(wire.Member(r.Result, "protocolVersion"))
}

// sdkError gives an error of the sdk a fitting code. Plain errors of the sdk have no code,
// and its own codes are in reserved ranges.
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

// oneLine returns JSON without line feeds. The texts of the sdk contain none; the check is
// for raw values that pass through the sdk.
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
