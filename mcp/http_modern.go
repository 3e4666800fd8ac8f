package mcp

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// serveModern serves a POST of the modern era in the session that all modern requests of a
// principal share. Here the POST is the whole life of a request: if its client disconnects,
// the request is cancelled.
func (w *web) serveModern(rw http.ResponseWriter, r *http.Request, p posted) {
	if bad := w.checkRepeats(r, p); bad != nil {
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
	if bad := w.checkParamHeaders(ctx, session, r.Header, p); bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	m := modernPost{w, session, p, out}
	if c := m.read(r.Header); c != nil {
		m.call(ctx, rw, c)
		return
	}
	if bad := exactID(p.id); bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return
	}
	if p.method == methodListen {
		m.listen(ctx, rw, r, leave)
		return
	}
	events := sse.NewWriter(rw)
	defer events.Stop()
	if p.method == "tools/call" {
		events.KeepAlive() // the answer may take long
	}
	ctx, over := outliving(ctx)
	defer over()
	m.forward(ctx, events, r, p.body)
}

// modernPost is a POST of the modern era that has got its turn.
type modernPost struct {
	w       *web
	session *Session
	posted
	out *outgoing
}

// listen serves a stream of notifications. leave releases its turn, because other requests
// must not wait until a stream ends.
func (m modernPost) listen(ctx context.Context, rw http.ResponseWriter, r *http.Request, leave func()) {
	events := sse.NewWriter(rw)
	defer events.Stop()
	ctx, done, ok := m.w.streaming(ctx, rw, r, m.posted, m.session.tenant)
	if !ok {
		return
	}
	defer done()
	leave()
	// The sdk notifies one listener after the other, including those of other tenants, so
	// it must not wait for a slow client.
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	aside := sse.NewAside(events, gone)
	defer aside.Stop()
	ctx = context.WithValue(ctx, notifyKey{}, notifyFunc(func(r *jsonrpc.Request) error {
		text, err := jsonrpc.EncodeMessage(r)
		if err != nil {
			return err
		}
		_, err = aside.Write(sse.Event("", text)) // after the acknowledgement
		return err
	}))
	events.KeepAlive()
	served := make(chan struct{})
	var ending sync.WaitGroup
	defer ending.Wait()
	defer close(served)
	ending.Go(func() { // the sdk sends no answer after its context has ended
		for _, next := range []<-chan struct{}{m.session.Done(), aside.Begun()} { // the acknowledgement must come first
			select {
			case <-next:
			case <-served:
				return
			}
		}
		aside.StopWith(sse.Event("", listenedFrame(m.id)))
		gone()
	})
	m.forward(ctx, aside, r, listenBody(m.body))
}

// forward passes the request to the go-sdk.
func (m modernPost) forward(ctx context.Context, to http.ResponseWriter, r *http.Request, body []byte) {
	answer := &receiptWriter{ResponseWriter: to, out: m.out}
	defer answer.done(r.Context())
	r = withBody(ctx, r, body)
	r.Header.Set(outgoingHeader, m.out.name())
	m.w.modern.ServeHTTP(answer, r)
}

// read reads a plain tools/call, or a tool called as a method, if its headers follow the
// protocol. It returns nil for everything else, which the go-sdk must read: the go-sdk
// reports what is wrong.
func (m modernPost) read(h http.Header) *directCall {
	if m.message == nil || h.Get(wire.MethodHeader) != m.method ||
		h.Get(wire.RevisionHeader) != wire.ModernRevision || h.Get(wire.LastHeader) != "" {
		return nil
	}
	if status, _ := accepts(h); status != 0 {
		return nil
	}
	c, ok := m.w.server.readCall(m.session, m.message)
	if !ok {
		return nil
	}
	name := c.name
	if c.bare {
		name = "" // the method already names the tool, and a name in this header could mislead a proxy
	}
	if h.Get(wire.NameHeader) != name {
		return nil
	}
	return c
}

// call answers a plain tools/call: with JSON, or with a stream of events if there is
// progress before the answer or the answer takes long.
func (m modernPost) call(ctx context.Context, rw http.ResponseWriter, c *directCall) {
	server := m.w.server
	x := &exchange{stream: stream{sse.New()}}
	ctx, done := outliving(ctx)
	defer done()
	ctx = context.WithValue(ctx, outletKey{}, x) // the outlet of this request, with its caller
	status := http.StatusOK
	err := x.ServeWhile(ctx, rw, sse.Serving{Status: func(http.Header) int { return status }}, func() {
		frame, bad := server.callFrame(ctx, m.session, m.message, m.out, c)
		if limit := server.cfg.Limits.Response; len(frame) > limit {
			bad = wire.TooLarge(len(frame), limit)
			frame = bad.Frame(m.message.ID, wire.Modern)
			m.out.Done(false)
		}
		if bad != nil && bad.Code(wire.Modern) == wire.InvalidParams.Code(wire.Modern) {
			status = http.StatusBadRequest
		}
		if err := x.Answer(frame, nil, m.out); err != nil {
			server.cfg.Log.Debug("an answer was not sent", "session", m.session.id, "error", err)
		}
	})
	if err != nil {
		server.cfg.Log.Debug("a client disconnected before its answer", "session", m.session.id, "error", err)
	}
}

// admit waits for a request's turn. The caller must call leave at the end of the request.
func admit(ctx context.Context, session *Session, p posted) (leave func(), _ *wire.Error) {
	t := &ticket{n: p.requests, bytes: len(p.body)}
	if bad := session.door.ask(t); bad != nil {
		return nil, bad
	}
	leave = func() { session.door.leave(t) }
	if t.turn == nil { // the request did not have to wait
		return leave, nil
	}
	select {
	case <-t.turn:
		return leave, nil
	case <-ctx.Done():
	case <-session.Done():
	}
	if !session.door.withdraw(t) {
		return leave, nil // the turn has just come; the call finds that ctx has ended
	}
	return nil, wire.OverLimit("in_flight", queueRetry, "the request was cancelled before its turn")
}

// exactID refuses a number that the sdk would change, because the sdk reads ids as float64
// here.
func exactID(id []byte) *wire.Error {
	if id[0] == '"' {
		return nil
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err != nil || n > 1<<53 || n < -1<<53 {
		return wire.Errorf(wire.InvalidRequest, "invalid request: a number as id must lie within 2^53; use a string")
	}
	return nil
}
