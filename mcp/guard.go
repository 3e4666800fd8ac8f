package mcp

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// guard stands between the messages of one client and the go-sdk, as the sdk's transport.
// The messages are those of a connection over stdio, or of a session over HTTP. The sdk
// ends a connection on the first error that Read returns, keeps an unbounded queue, and
// rounds request ids. So the guard answers bad messages itself, passes on only the requests
// that the admission lets run, and restores the client's own ids. Limits bounds what the
// guard passes on: the sdk never has more than Limits.Running requests, one cancel for each
// of them, and the notification initialized.
//
// message and batch may be called from many goroutines; the sdk calls Read from one and
// Write from many. Close may be called at any time and unblocks Read.
type guard struct {
	limits  Limits
	strict  bool
	log     *slog.Logger
	session *Session
	out     outlet            // outlet for messages that belong to no request
	placed  bool              // the session has a place, so initialize does not wait for a turn
	room    room              // memory for requests until they are answered; nil means no limit
	serve   func(*entry) bool // answers a request without the sdk, or returns false
	calls   *workers          // goroutines that serve starts

	*inbox // messages for the sdk

	mu      sync.Mutex
	state   State
	version string              // revision agreed by initialize
	last    int64               // newest internal id
	byKey   map[string]*entry   // requests whose id is in use, by the client's id
	byID    map[int64]*entry    // requests that are not answered or dropped yet, by the internal id
	asked   map[any]struct{}    // ids of the server's requests that the client has not answered
	drained chan struct{}       // closed when the guard is shutting and byID is empty
	listens map[*entry]struct{} // subscriptions, which end only when they are cancelled
}

// entry is one request in flight.
type entry struct {
	msg    *wire.Message
	id     int64 // internal id
	ticket ticket
	batch  *wire.Batch             // batch of the request; nil if it did not come in a batch
	to     outlet                  // outlet for its answer
	out    *outgoing               // its answer
	silent bool                    // guarded by guard.mu: cancelled, so nothing more is sent to the client for it
	begun  bool                    // guarded by guard.mu: its turn has come
	cancel context.CancelCauseFunc // guarded by guard.mu: set while serve runs it
}

func newGuard(s *Session, out outlet) *guard {
	g := &guard{
		limits: s.server.cfg.Limits, strict: s.server.cfg.StrictInit, log: s.server.cfg.Log,
		session: s, out: out, calls: newWorkers(s.done),
		byKey: make(map[string]*entry), byID: make(map[int64]*entry), asked: make(map[any]struct{}),
		drained: make(chan struct{}), listens: make(map[*entry]struct{}), inbox: newInbox(),
	}
	return g
}

// Connect returns the guard itself, which is the connection of one client.
func (g *guard) Connect(context.Context) (sdk.Connection, error) { return g, nil }

// SessionID returns an empty text: the sdk does not need the id of the session.
func (g *guard) SessionID() string { return "" }

// register reserves the request's id, or returns why the request cannot be served.
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
		// A modern client probes the server without _meta. The sdk answers with an error
		// that names what is missing.
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

// unregister removes a request; the caller holds mu.
func (g *guard) unregister(e *entry) {
	if g.byKey[e.msg.Key] == e { // after a cancel, another request may use the id
		delete(g.byKey, e.msg.Key)
	}
	if g.byID[e.id] == e {
		g.room.release(e.msg)
	}
	delete(g.byID, e.id)
	delete(g.listens, e)
	if g.state >= Shutting && len(g.byID) == 0 {
		g.drain()
	}
}

// abandon drops the requests of a guard whose session has ended, because they will not be
// answered, and accepts no more requests. The requests release their turns, which belong to
// the whole tenant. A request that waits must not get its turn later, when the sdk reads
// nothing.
func abandon(g *guard) {
	g.mu.Lock()
	if g.state < Shutting {
		g.move(evError)
	}
	all := slices.Collect(maps.Values(g.byID))
	for _, e := range all {
		g.unregister(e)
	}
	g.mu.Unlock()
	for _, e := range all {
		g.session.door.drop(&e.ticket)
	}
}

// drain records that no request is in flight any more; the caller holds mu.
func (g *guard) drain() {
	select {
	case <-g.drained:
	default:
		close(g.drained)
	}
}

// agreement returns the revision that initialize agreed on; empty before that. ok is false
// while no initialize was accepted and the session has not ended.
func (g *guard) agreement() (revision string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.version, g.state != Uninitialized
}

// move applies an event to the state, if the event is valid in this state; the caller holds
// mu.
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
func (g *guard) refuse(id []byte, in wire.Era, b *wire.Batch, e *wire.Error, to outlet) {
	frame := e.Frame(id, in)
	if b != nil {
		g.send(id, b, frame, nil, to)
		return
	}
	g.put(frame, e, nil, to)
}

// finish answers a request and releases its turn and its id. The id is released before the
// answer is written, because the client may use it again as soon as it has read the answer.
// Until the answer is written, the request counts as in flight, so that the connection does
// not end earlier.
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

// send sends an answer. If the answer is larger than the limit, an error is sent instead. o
// is the delivery of the answer's results, or nil.
func (g *guard) send(id []byte, b *wire.Batch, frame []byte, o wire.Delivery, to outlet) {
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
	g.put(frame, nil, answers, to)
}

// put sends the answer to one message or batch. answers are the deliveries of its results.
// why is set if the whole message or batch is refused.
func (g *guard) put(frame []byte, why *wire.Error, answers []wire.Delivery, to outlet) {
	if err := to.Answer(frame, why, answers...); err != nil {
		g.log.Debug("an answer was not sent", "session", g.session.id, "error", err)
	}
}

// skip records that a request gets no answer.
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
