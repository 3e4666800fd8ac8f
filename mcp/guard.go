package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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
	out     *lineWriter
	serve   func(*entry) bool // answers a request without the sdk, or declines
	direct  sync.WaitGroup    // of what serve has started

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
	msg    *message
	id     int64 // ours
	ticket ticket
	batch  *batch             // nil unless it came in one
	out    *outgoing          // its answer
	silent bool               // guarded by guard.mu: cancelled, so the client hears nothing more of it
	begun  bool               // guarded by guard.mu: its turn has come
	cancel context.CancelFunc // guarded by guard.mu: set while serve runs it
}

func newGuard(s *Session, in io.Reader, out io.Writer) *guard {
	g := &guard{
		limits: s.server.cfg.Limits, strict: s.server.cfg.StrictInit, log: s.server.cfg.Log,
		session: s, in: in, out: newLineWriter(out),
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
	lines := newLineReader(g.in, g.limits.Line)
	for {
		line, err := lines.next()
		long, isLong := errors.AsType[*longLineError](err)
		switch {
		case isLong:
			g.refuse(long.id, legacy, nil, fault(invalidRequest,
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
	line = bytes.TrimSpace(bytes.TrimPrefix(line, bom))
	if len(line) == 0 {
		return
	}
	if bad := checkLine(line, g.limits.Depth); bad != nil {
		g.refuse(requestID(line), legacy, nil, bad)
		return
	}
	if line[0] == '[' {
		g.batch(line)
		return
	}
	m, bad := parseMessage(line)
	g.message(m, bad, nil)
}

// message handles one message. b is the batch it came in, or nil.
func (g *guard) message(m *message, bad *wireError, b *batch) {
	switch {
	case bad != nil && m.isNotification():
		g.log.Debug("a notification was dropped", "session", g.session.id, "error", bad.text)
	case bad != nil:
		g.refuse(m.id, m.era(), b, bad)
	case m.isRequest():
		g.request(m, b)
	case m.isNotification():
		g.notification(m)
	default:
		g.response(m)
	}
}

func (g *guard) request(m *message, b *batch) {
	if m.method == "ping" && m.era() == legacy {
		// Answered here, so that a client that floods us still sees us alive.
		g.reply(m.id, b, []byte(`{}`))
		return
	}
	e := &entry{msg: m, batch: b, out: g.session.receipts.arrive()}
	e.ticket = ticket{n: 1, bytes: len(m.raw), start: func() { g.start(e) }}
	if bad := g.register(e); bad != nil {
		g.refuse(m.id, m.era(), b, bad)
		return
	}
	if bad := g.session.door.ask(&e.ticket); bad != nil {
		g.mu.Lock()
		if m.method == "initialize" {
			g.move(evReject)
		}
		g.unregister(e)
		g.mu.Unlock()
		g.refuse(m.id, m.era(), b, bad)
	}
}

// register takes the request's id, or says why the request cannot be served.
func (g *guard) register(e *entry) *wireError {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := e.msg
	switch {
	case g.state >= Shutting:
		return fault(internalError, "the server is shutting down and takes no new requests")
	case g.byKey[m.key] != nil:
		return fault(invalidRequest, "invalid request: the id %.64s is already in flight", m.id)
	case m.method == "initialize" && m.era() == legacy:
		if e.batch != nil {
			return fault(invalidRequest, "invalid request: initialize must not be part of a batch")
		}
		if _, err := g.state.next(evInitialize); err != nil {
			return fault(invalidRequest, "invalid request: %v", err)
		}
		g.move(evInitialize)
	case m.era() == modern:
	case g.state == Uninitialized && m.method == "server/discover":
		// A probe of the modern era that forgot _meta; the sdk says what it lacks.
	case g.state == Uninitialized:
		return fault(invalidRequest, "invalid request: %.64s came before initialize", m.method)
	case g.state == Initializing && g.strict:
		return fault(invalidRequest, "invalid request: %.64s came before the notification initialized", m.method)
	}
	g.last++
	e.id = g.last
	g.byKey[m.key] = e
	g.byID[e.id] = e
	return nil
}

// unregister removes a request; mu is held.
func (g *guard) unregister(e *entry) {
	if g.byKey[e.msg.key] == e { // after a cancel the id may have a new owner
		delete(g.byKey, e.msg.key)
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
	params := e.msg.params
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
	if e.msg.method == methodListen {
		g.listens[e] = struct{}{}
		params = withTaskIDs(params)
	}
	g.push(&jsonrpc.Request{ID: id, Method: e.msg.method, Params: params, Extra: extra})
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

// reply sends a result, or adds it to its batch.
func (g *guard) reply(id []byte, b *batch, result []byte) {
	g.send(id, b, resultFrame(id, result), nil)
}

// refuse sends an error, or adds it to its batch.
func (g *guard) refuse(id []byte, in era, b *batch, e *wireError) {
	g.send(id, b, e.frame(id, in), nil)
}

// send sends an answer. If the answer is above the limit, an error is sent in its
// place. o is the answer's results, or nil.
func (g *guard) send(id []byte, b *batch, frame []byte, o *outgoing) {
	if len(frame) > g.limits.Response {
		frame = tooLarge(len(frame), g.limits.Response).frame(id, legacy)
		o.done(false)
		o = nil
	}
	var answers []*outgoing
	if b != nil {
		if frame, answers = b.add(frame, o, g.limits.Response); frame == nil {
			return
		}
	} else if o != nil {
		answers = []*outgoing{o}
	}
	g.put(frame, answers)
}

// put sends a line; answers are those in it that hold results.
func (g *guard) put(frame []byte, answers []*outgoing) {
	err := g.out.send(frame, answers...)
	if err == nil {
		return
	}
	g.log.Debug("an answer was not sent", "session", g.session.id, "error", err)
	for _, o := range answers {
		o.done(false)
	}
}

func tooLarge(size, limit int) *wireError {
	return fault(internalError,
		"the answer has %d bytes and the limit is %d; ask for less, as by a range or a filter", size, limit)
}

func resultFrame(id, result []byte) []byte {
	out := make([]byte, 0, len(result)+len(id)+36)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, id...)
	out = append(out, `,"result":`...)
	out = append(out, result...)
	return append(out, '}')
}
