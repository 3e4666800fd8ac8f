package peer

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"belljar.dev/mcp/wire"
)

// Request is a request from the server to the client.
type Request struct {
	Method string          // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage // nil if the request has no params
	// Owner is the owner of the call that the request belongs to. It is empty only for
	// roots/list, if no call is open, or if calls of several owners are.
	Owner string
}

// asked is a request of the server that has not been answered yet.
type asked struct {
	owner  string
	alone  bool // the request belongs to no call
	cancel context.CancelCauseFunc
}

// The causes with which the context of a request ends.
var (
	errWithdrawn = errors.New("the server has withdrawn its request")
	errCallOver  = errors.New("the call that the request belonged to has ended")
)

// capabilityOf returns the member of a client's capabilities that allows a request; empty
// for requests that no client accepts.
func capabilityOf(method string) string {
	switch method {
	case "elicitation/create":
		return "elicitation"
	case "sampling/createMessage":
		return "sampling"
	case "roots/list":
		return "roots"
	}
	return ""
}

// offered returns an error if the client's capabilities do not allow a request.
func offered(method string, capabilities json.RawMessage) error {
	name := capabilityOf(method)
	if name == "" {
		return wire.Errorf(wire.MethodNotFound, "the client has no method %q", excerpt([]byte(method), mostShown))
	}
	if !wire.IsObject(wire.Member(capabilities, name)) {
		return wire.Errorf(wire.MethodNotFound, "the client does not have the capability %s", name)
	}
	return nil
}

// request handles a request of the server. from is the call in whose response the request
// came; nil if the transport does not tell.
func (g guard) request(ctx context.Context, m *wire.Message, from *call) {
	if m.Method == "ping" {
		g.way.offer(ctx, wire.ResultFrame(m.ID, []byte("{}")))
		return
	}
	err := offered(m.Method, g.cfg.Capabilities)
	if err == nil && g.cfg.OnRequest == nil {
		err = wire.Errorf(wire.MethodNotFound, "this client does not answer %s", m.Method)
	}
	g.mu.Lock()
	owner, known := g.ownerOf(from)
	switch {
	case err != nil:
	case g.err != nil:
		g.mu.Unlock()
		return
	case g.asked[m.Key] != nil:
		err = wire.Errorf(wire.InvalidRequest, "the id %.64s is already in flight", m.ID)
	case len(g.asked) >= g.cfg.Limits.Requests:
		err = wire.Errorf(wire.InternalError, "%d requests already wait for their answers", len(g.asked))
	case !known && m.Method != "roots/list" && len(g.open) == g.streams:
		err = wire.Errorf(wire.InvalidRequest, "%s: no call is open that it could belong to", m.Method)
	case owner == "" && known && m.Method != "roots/list": // the open call is a list that no session owns
		err = wire.Errorf(wire.InvalidRequest, "%s: no call of a session is open that it could belong to", m.Method)
	case !known && m.Method != "roots/list":
		err = wire.Errorf(wire.InvalidRequest, "%s: calls of several sessions are open, and it is not known to which of them the request belongs", m.Method)
	}
	if err != nil {
		g.stats.Refused++
		g.mu.Unlock()
		g.way.offer(ctx, wire.AsError(err).Frame(m.ID, wire.Legacy))
		return
	}
	// the response in which the request came may end first
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g.asked[m.Key] = &asked{owner: owner, alone: !known, cancel: cancel}
	g.wg.Add(1)
	g.mu.Unlock()
	go func() {
		defer g.wg.Done()
		defer cancel(nil)
		result, err := g.cfg.OnRequest(ctx, Request{Method: m.Method, Params: m.Params, Owner: owner})
		g.reply(ctx, m, owner, result, err)
	}()
}

// reply sends the answer to a request of the server, unless the request was withdrawn.
func (g guard) reply(ctx context.Context, m *wire.Message, owner string, result json.RawMessage, err error) {
	g.mu.Lock()
	delete(g.asked, m.Key)
	for _, cl := range g.open {
		// The bound is needed because some requests are answered without a person: a server
		// could keep a call open with them for ever.
		if cl.owner == owner && cl.activity.rounds < g.cfg.Limits.Rounds {
			cl.activity.since = time.Now()
			cl.activity.rounds++
		}
	}
	g.mu.Unlock()
	switch {
	case errors.Is(context.Cause(ctx), errWithdrawn) || g.Err() != nil:
		return // the server expects no answer
	case context.Cause(ctx) != nil:
		err = wire.Errorf(wire.InternalError, "%v", context.Cause(ctx))
	case err == nil && !json.Valid(result):
		err = wire.Errorf(wire.InternalError, "nobody could answer %s", m.Method)
	}
	frame := wire.ResultFrame(m.ID, oneLine(result))
	if err != nil {
		frame = wire.AsError(err).Frame(m.ID, wire.Legacy)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), replyTime)
	defer stop()
	if err := g.way.put(ctx, frame); err != nil {
		g.cfg.Log.Debug("an answer to an upstream server was not sent", "method", m.Method, "error", err)
	}
}

// cancelled handles a cancel by the server, of one of the server's requests or of a
// subscription.
func (g guard) cancelled(params []byte) {
	raw := wire.Member(params, "requestId")
	if len(raw) == 0 {
		return
	}
	key, bad := wire.IDKey(raw)
	if bad != nil {
		return
	}
	id, _ := number(raw)
	g.mu.Lock()
	if a := g.asked[key]; a != nil {
		a.cancel(errWithdrawn)
	}
	stream := g.open[id]
	g.mu.Unlock()
	if stream != nil && stream.stream {
		g.finish(stream, nil, errors.New("the server has ended the subscription"))
	}
}
