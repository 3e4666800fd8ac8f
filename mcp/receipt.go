package mcp

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server cannot see that a client has read a result: a write to a pipe or a socket
// succeeds before anybody reads, and a client that gave the call up drops its answer.
// So what the agent must not miss is sent again until a later call shows that a result
// arrived. That is a call which came after the result was written, in the same session,
// since an agent calls again once it has read. A call that was on its way at that time
// shows nothing.

// Receipt is called once with the fate of a result. received is true if a later call of
// the session shows that the client has it, and false if it may be lost. ctx does not
// end with a call.
type Receipt func(ctx context.Context, received bool)

// maxUnconfirmed bounds the results of one session that wait for the next call. Beyond
// it, the oldest count as lost.
const maxUnconfirmed = 64

// receipts are the results of a session whose fate is not known yet.
type receipts struct {
	mu    sync.Mutex
	clock int64         // guarded by mu: counts arrivals and writes, to tell which was first
	open  []*sentResult // guarded by mu: the oldest first
	ended bool          // guarded by mu

	coming map[string]*outgoing // guarded by mu: answers to what the sdk has, by name
}

// sentResult is a result that is being sent, or was written. It is guarded by receipts.mu.
type sentResult struct {
	tell    func(received bool)
	began   int64 // when it began to be written; zero before
	written bool
	shown   bool // a call came after it began to be written
}

// outgoing is the answer to one message, and the results in it. It is nil for answers
// without results.
type outgoing struct {
	to      *receipts
	via     outlet // where the answer goes; nil where the sdk knows that
	arrived int64  // when the message came
	// over is guarded by to.mu: what is added now misses the answer.
	over    bool
	results []*sentResult // guarded by to.mu
}

// arrive notes that a message came.
func (r *receipts) arrive() *outgoing {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return &outgoing{to: r, arrived: r.clock}
}

// end counts the results of unknown fate as lost, now and from now on.
func (r *receipts) end() {
	r.mu.Lock()
	r.ended = true
	lost := r.open
	r.open = nil
	r.mu.Unlock()
	for _, one := range lost {
		one.tell(false)
	}
}

// take removes a result; false if it was removed before. mu is held.
func (r *receipts) take(one *sentResult) bool {
	i := slices.Index(r.open, one)
	if i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
	return i >= 0
}

// tell calls all receipts of a result that was made in ctx.
func tell(ctx context.Context, all []Receipt, received bool) {
	if len(all) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, f := range all {
		f(ctx, received)
	}
}

// called notes that the message was a call. It shows that results arrived that were
// written before it came.
func (o *outgoing) called() {
	if o == nil {
		return
	}
	var arrived []*sentResult
	o.to.mu.Lock()
	for _, one := range slices.Clone(o.to.open) {
		if one.began == 0 || one.began > o.arrived {
			continue
		}
		// The client may have read it before the write returned.
		one.shown = true
		if one.written && o.to.take(one) {
			arrived = append(arrived, one)
		}
	}
	o.to.mu.Unlock()
	for _, one := range arrived {
		one.tell(true)
	}
}

// add makes a result wait until the answer is written.
func (o *outgoing) add(ctx context.Context, all []Receipt) {
	if len(all) == 0 {
		return
	}
	if o == nil { // made in this process, which has the result
		tell(ctx, all, true)
		return
	}
	one := &sentResult{tell: func(received bool) { tell(ctx, all, received) }}
	var lost *sentResult
	o.to.mu.Lock()
	switch {
	case o.over || o.to.ended:
		lost = one
	default:
		o.to.open, o.results = append(o.to.open, one), append(o.results, one)
		if len(o.to.open) > maxUnconfirmed {
			lost, o.to.open = o.to.open[0], o.to.open[1:]
		}
	}
	o.to.mu.Unlock()
	if lost != nil {
		lost.tell(false)
	}
}

// Writing notes that the answer begins to be written.
func (o *outgoing) Writing() {
	if o == nil {
		return
	}
	o.to.mu.Lock()
	defer o.to.mu.Unlock()
	for _, one := range o.results {
		if one.began == 0 {
			o.to.clock++
			one.began = o.to.clock
		}
	}
}

// Done notes that the answer was written, or that its results are lost. Results that
// are added later are lost too.
func (o *outgoing) Done(written bool) {
	if o == nil {
		return
	}
	var over []*sentResult
	o.to.mu.Lock()
	o.over = true
	for _, one := range o.results {
		one.written = one.began != 0
		if written && one.written && !one.shown {
			continue // the next call shows
		}
		if o.to.take(one) {
			over = append(over, one)
		}
	}
	o.results = nil
	delete(o.to.coming, strconv.FormatInt(o.arrived, 10))
	o.to.mu.Unlock()
	for _, one := range over {
		one.tell(written && one.written)
	}
}

// outgoingHeader carries the name of a request's *outgoing through the sdk, which gives
// a handler the headers of its request but not the context. It is set for each request,
// whatever the client sent.
const outgoingHeader = "Belljar-Outgoing"

// name is the key under which in finds o, until it is done.
func (o *outgoing) name() string {
	name := strconv.FormatInt(o.arrived, 10)
	o.to.mu.Lock()
	defer o.to.mu.Unlock()
	if o.to.coming == nil {
		o.to.coming = make(map[string]*outgoing)
	}
	o.to.coming[name] = o
	return name
}

// in returns the answer to a request of the sdk; nil once it has been given.
func (r *receipts) in(extra *sdk.RequestExtra) *outgoing {
	if extra == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.coming[extra.Header.Get(outgoingHeader)]
}

// receiptWriter notes when the answer to an HTTP request is written.
type receiptWriter struct {
	http.ResponseWriter
	out *outgoing

	mu     sync.Mutex
	failed bool // guarded by mu
}

// Write writes a part of the answer.
func (w *receiptWriter) Write(p []byte) (int, error) {
	w.out.Writing()
	n, err := w.ResponseWriter.Write(p)
	w.note(err)
	return n, err
}

// FlushError sends the client what was written.
func (w *receiptWriter) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.note(err)
	return err
}

// Unwrap is for http.ResponseController.
func (w *receiptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *receiptWriter) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || err != nil
}

// done notes that the request is over.
func (w *receiptWriter) done(ctx context.Context) {
	w.mu.Lock()
	failed := w.failed
	w.mu.Unlock()
	w.out.Done(!failed && ctx.Err() == nil)
}
