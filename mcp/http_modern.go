package mcp

import (
	"context"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// serveModern serves a POST of the modern era in the session that all such requests of
// a principal share. Here the POST is the whole life of a request: if its client goes away,
// the request is cancelled.
func (w *web) serveModern(rw http.ResponseWriter, r *http.Request, p posted) {
	if bad := p.named(r.Header.Get(wire.NameHeader)); bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	s := w.server
	session, done, bad := s.web.sharedOf(r.Context())
	if bad != nil {
		w.busy(rw, http.StatusServiceUnavailable, p, bad)
		return
	}
	defer done()
	ctx := context.WithValue(r.Context(), sessionKey{}, session)
	if p.requests == 0 {
		w.modern.ServeHTTP(rw, withBody(ctx, r, p.body))
		return
	}
	defer session.writing()()
	out := session.receipts.arrive() // before its turn
	leave, bad := admit(ctx, session, p)
	if bad != nil {
		w.busy(rw, http.StatusTooManyRequests, p, bad)
		return
	}
	defer leave()
	if c := w.readModern(r.Header, session, p); c != nil {
		w.callModern(ctx, rw, session, p, out, c)
		return
	}
	if bad := exactID(p.id); bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	body := p.body
	events := sse.NewWriter(rw)
	defer events.Stop()
	var to http.ResponseWriter = events
	if p.method == methodListen {
		var done func()
		var ok bool
		if ctx, done, ok = w.streaming(ctx, rw, r, p, session.tenant); !ok {
			return
		}
		defer done()
		leave() // others need not wait until a stream ends
		// The sdk notifies one listener after the other, and those of other tenants too.
		var gone context.CancelFunc
		ctx, gone = context.WithCancel(ctx)
		defer gone()
		aside := sse.NewAside(events, gone)
		defer aside.Stop()
		to = aside
		body = listenBody(body)
		ctx = context.WithValue(ctx, notifyKey{}, notifyFunc(func(r *jsonrpc.Request) error {
			text, err := jsonrpc.EncodeMessage(r)
			if err != nil {
				return err
			}
			_, err = aside.Write(sse.Event("", text)) // behind the acknowledgement
			return err
		}))
	}
	if p.method == methodListen || p.method == "tools/call" {
		events.KeepAlive() // their answers may take long
	}
	if p.method != methodListen {
		var done func()
		ctx, done = outliving(ctx)
		defer done()
	}
	answer := &receiptWriter{ResponseWriter: to, out: out}
	defer answer.done(r.Context())
	r = withBody(ctx, r, body)
	r.Header.Set(outgoingHeader, out.name())
	w.modern.ServeHTTP(answer, r)
}

// readModern reads a plain tools/call, or a tool called as a method, whose headers are as the protocol says. It returns
// nil for everything else, which the go-sdk must read: it knows what is wrong.
func (w *web) readModern(h http.Header, session *Session, p posted) *directCall {
	if p.message == nil || h.Get(wire.MethodHeader) != p.method ||
		h.Get(wire.RevisionHeader) != wire.ModernRevision || h.Get(wire.LastHeader) != "" {
		return nil
	}
	if status, _ := accepts(h); status != 0 {
		return nil
	}
	c, ok := w.server.readCall(session, p.message)
	if !ok || !c.bare && h.Get(wire.NameHeader) != c.name {
		return nil
	}
	return c
}

// callModern answers a plain tools/call: as JSON, or as a stream of events if progress
// comes first or the answer takes long.
func (w *web) callModern(ctx context.Context, rw http.ResponseWriter, session *Session, p posted, out *outgoing, c *directCall) {
	x := &exchange{stream: stream{sse.New()}}
	ctx, done := outliving(ctx)
	defer done()
	ctx = context.WithValue(ctx, outletKey{}, x) // of the request, with its caller in it
	status := http.StatusOK
	err := x.ServeWhile(ctx, rw, sse.Serving{Status: func(http.Header) int { return status }}, func() {
		frame, bad := w.server.callFrame(ctx, session, p.message, out, c)
		if limit := w.server.cfg.Limits.Response; len(frame) > limit {
			bad = wire.TooLarge(len(frame), limit)
			frame = bad.Frame(p.message.ID, wire.Modern)
			out.Done(false)
		}
		if bad != nil && bad.Code(wire.Modern) == wire.InvalidParams.Code(wire.Modern) {
			status = http.StatusBadRequest
		}
		if err := x.Answer(frame, nil, out); err != nil {
			w.server.cfg.Log.Debug("an answer was not sent", "session", session.id, "error", err)
		}
	})
	if err != nil {
		w.server.cfg.Log.Debug("a client went away before its answer", "session", session.id, "error", err)
	}
}

// admit waits for a request's turn.
func admit(ctx context.Context, session *Session, p posted) (leave func(), _ *wire.Error) {
	t := &ticket{n: p.requests, bytes: len(p.body)}
	if bad := session.door.ask(t); bad != nil {
		return nil, bad
	}
	leave = func() { session.door.leave(t) }
	if t.turn == nil { // it did not have to wait
		return leave, nil
	}
	select {
	case <-t.turn:
		return leave, nil
	case <-ctx.Done():
	case <-session.Done():
	}
	if !session.door.withdraw(t) {
		return leave, nil // its turn has just come; the call sees that ctx has ended
	}
	return nil, wire.OverLimit("in_flight", queueRetry, "the request was given up before its turn")
}

// exactID refuses a number that the sdk would change: it reads ids as float64 here.
func exactID(id []byte) *wire.Error {
	if id[0] == '"' {
		return nil
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err != nil || n > 1<<53 || n < -1<<53 {
		return wire.Errorf(wire.InvalidRequest, "invalid request: a number as id must lie within 2^53; use a string")
	}
	return nil
}
