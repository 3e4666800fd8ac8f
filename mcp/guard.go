package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// guard stands between one client's byte stream and the go-sdk, as the sdk's
// transport. The sdk ends a connection on the first error that Read returns, keeps an
// unbounded queue, and rounds request ids. So the guard answers bad lines itself,
// passes on only the requests that the admission lets run, and restores the client's
// own ids. Limits bounds what it keeps: the sdk never has more than Running requests,
// one cancel for each, and initialized.
//
// readLines runs in one goroutine; the sdk calls Read from one and Write from
// many. Close may be called at any time and unblocks Read.
type guard struct {
	limits  Limits
	strict  bool
	log     *slog.Logger
	session *Session
	in      io.Reader
	out     *wire.LineWriter
	serve   func(*entry) bool // answers a request without the sdk, or declines
	calls   sync.WaitGroup    // those that serve has started

	mu      sync.Mutex
	arrived sync.Cond // over mu: inbox or closed changed
	state   State
	version string              // revision agreed by initialize
	last    int64               // newest internal id
	byKey   map[string]*entry   // requests whose id is taken, by the client's id
	byID    map[int64]*entry    // requests that were not answered or dropped yet, by ours
	asked   map[any]struct{}    // requests of ours that the client has not answered
	inbox   []jsonrpc.Message   // what Read returns next
	closed  bool                // Read returns io.EOF
	drained chan struct{}       // closed when shutting and byID is empty
	listens map[*entry]struct{} // subscriptions, which end only when they are cancelled
}

// entry is one request in flight.
type entry struct {
	msg    *wire.Message
	id     int64 // ours
	ticket ticket
	batch  *wire.Batch        // nil unless it came in one
	out    *outgoing          // its answer
	silent bool               // guarded by guard.mu: cancelled, so the client hears nothing more of it
	begun  bool               // guarded by guard.mu: its turn has come
	cancel context.CancelFunc // guarded by guard.mu: set while serve runs it
}

func newGuard(s *Session, in io.Reader, out io.Writer) *guard {
	g := &guard{
		limits: s.server.cfg.Limits, strict: s.server.cfg.StrictInit, log: s.server.cfg.Log,
		session: s, in: in, out: wire.NewLineWriter(out),
		byKey: make(map[string]*entry), byID: make(map[int64]*entry), asked: make(map[any]struct{}),
		drained: make(chan struct{}), listens: make(map[*entry]struct{}),
	}
	g.arrived.L = &g.mu
	return g
}

// Connect makes the guard the connection of the one client it was made for.
func (g *guard) Connect(context.Context) (sdk.Connection, error) { return g, nil }

// SessionID is empty: stdio has no such header.
func (g *guard) SessionID() string { return "" }

// readLines handles the client's lines until the stream ends. It returns nil
// at its end and the stream's error otherwise.
func (g *guard) readLines() error {
	lines := wire.NewLineReader(g.in, g.limits.Line)
	for {
		line, err := lines.Next()
		long, isLong := errors.AsType[*wire.LongLineError](err)
		switch {
		case isLong:
			g.refuse(long.ID, wire.Legacy, nil, wire.Errorf(wire.InvalidRequest,
				"invalid request: the line is longer than %d bytes and was skipped", g.limits.Line))
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return nil
		case err != nil:
			return fmt.Errorf("read from the client: %w", err)
		default:
			g.line(line)
		}
	}
}

// line handles one line: a message, a batch, or nothing.
func (g *guard) line(line []byte) {
	line = wire.TrimLine(line)
	if len(line) == 0 {
		return
	}
	if bad := wire.CheckLine(line, g.limits.Depth); bad != nil {
		g.refuse(wire.RequestID(line), wire.Legacy, nil, bad)
		return
	}
	if line[0] == '[' {
		g.batch(line)
		return
	}
	m, bad := wire.ParseMessage(line)
	g.message(m, bad, nil)
}

// message handles one message. b is the batch it came in, or nil.
func (g *guard) message(m *wire.Message, bad *wire.Error, b *wire.Batch) {
	switch {
	case bad != nil && m.IsNotification():
		g.log.Debug("a notification was dropped", "session", g.session.id, "error", bad.Text)
	case bad != nil:
		g.refuse(m.ID, m.Era(), b, bad)
	case m.IsRequest():
		g.request(m, b)
	case m.IsNotification():
		g.notification(m)
	default:
		g.response(m)
	}
}

func (g *guard) request(m *wire.Message, b *wire.Batch) {
	if m.Method == "ping" && m.Era() == wire.Legacy {
		// Answered here, so that a client that floods us still sees us alive.
		g.send(m.ID, b, wire.ResultFrame(m.ID, []byte(`{}`)), nil)
		return
	}
	e := &entry{msg: m, batch: b, out: g.session.receipts.arrive()}
	e.ticket = ticket{n: 1, bytes: len(m.Raw), start: func() { g.start(e) }}
	if bad := g.register(e); bad != nil {
		g.refuse(m.ID, m.Era(), b, bad)
		return
	}
	if bad := g.session.door.ask(&e.ticket); bad != nil {
		g.mu.Lock()
		if m.Method == "initialize" {
			g.move(evReject)
		}
		g.unregister(e)
		g.mu.Unlock()
		g.refuse(m.ID, m.Era(), b, bad)
	}
}

// register takes the request's id, or says why the request cannot be served.
func (g *guard) register(e *entry) *wire.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := e.msg
	switch {
	case g.state >= Shutting:
		return wire.Errorf(wire.InternalError, "the server is shutting down and takes no new requests")
	case g.byKey[m.Key] != nil:
		return wire.Errorf(wire.InvalidRequest, "invalid request: the id %.64s is already in flight", m.ID)
	case m.Method == "initialize" && m.Era() == wire.Legacy:
		if e.batch != nil {
			return wire.Errorf(wire.InvalidRequest, "invalid request: initialize must not be part of a batch")
		}
		if _, err := g.state.next(evInitialize); err != nil {
			return wire.Errorf(wire.InvalidRequest, "invalid request: %v", err)
		}
		g.move(evInitialize)
	case m.Era() == wire.Modern:
	case g.state == Uninitialized && m.Method == "server/discover":
		// A probe of the modern era that forgot _meta; the sdk says what it lacks.
	case g.state == Uninitialized:
		return wire.Errorf(wire.InvalidRequest, "invalid request: %.64s came before initialize", m.Method)
	case g.state == Initializing && g.strict:
		return wire.Errorf(wire.InvalidRequest, "invalid request: %.64s came before the notification initialized", m.Method)
	}
	g.last++
	e.id = g.last
	g.byKey[m.Key] = e
	g.byID[e.id] = e
	return nil
}

// unregister removes a request; mu is held.
func (g *guard) unregister(e *entry) {
	if g.byKey[e.msg.Key] == e { // after a cancel the id may have a new owner
		delete(g.byKey, e.msg.Key)
	}
	delete(g.byID, e.id)
	delete(g.listens, e)
	if g.state >= Shutting && len(g.byID) == 0 {
		g.drain()
	}
}

// drain notes that nothing is in flight any more; mu is held.
func (g *guard) drain() {
	select {
	case <-g.drained:
	default:
		close(g.drained)
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
	if g.serve != nil && g.serve(e) {
		return
	}
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

// push queues a message for Read; mu is held.
func (g *guard) push(m jsonrpc.Message) {
	g.inbox = append(g.inbox, m)
	g.arrived.Signal()
}

// Read returns the next message for the sdk, or io.EOF after Close.
func (g *guard) Read(context.Context) (jsonrpc.Message, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.inbox) == 0 && !g.closed {
		g.arrived.Wait()
	}
	if g.closed {
		return nil, io.EOF
	}
	m := g.inbox[0]
	g.inbox[0] = nil
	g.inbox = g.inbox[1:]
	return m, nil
}

// Close ends the connection towards the sdk: Read returns io.EOF, and the sdk then
// cancels what still runs. It may be called twice.
func (g *guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.inbox = nil
	g.arrived.Broadcast()
	return nil
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

// move applies an event to the state, if it is valid there; mu is held.
func (g *guard) move(e event) bool {
	next, err := g.state.next(e)
	if err != nil {
		g.log.Debug("connection state", "session", g.session.id, "error", err)
		return false
	}
	g.state = next
	return true
}

// refuse sends an error, or adds it to its batch.
func (g *guard) refuse(id []byte, in wire.Era, b *wire.Batch, e *wire.Error) {
	g.send(id, b, e.Frame(id, in), nil)
}

// send sends an answer. If the answer is above the limit, an error is sent in its
// place. o is the answer's results, or nil.
func (g *guard) send(id []byte, b *wire.Batch, frame []byte, o wire.Delivery) {
	if len(frame) > g.limits.Response {
		frame = wire.TooLarge(len(frame), g.limits.Response).Frame(id, wire.Legacy)
		if o != nil {
			o.Done(false)
		}
		o = nil
	}
	var answers []wire.Delivery
	if b != nil {
		if frame, answers = b.Add(frame, o, g.limits.Response); frame == nil {
			return
		}
	} else if o != nil {
		answers = []wire.Delivery{o}
	}
	g.put(frame, answers)
}

// put sends a line; answers are those in it that hold results.
func (g *guard) put(frame []byte, answers []wire.Delivery) {
	err := g.out.Send(frame, answers...)
	if err == nil {
		return
	}
	g.log.Debug("an answer was not sent", "session", g.session.id, "error", err)
	for _, o := range answers {
		o.Done(false)
	}
}
