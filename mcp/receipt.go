package mcp

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server cannot see whether a client has read a result: a write to a pipe or a socket
// succeeds before the client reads, and a client that cancelled the call drops its answer.
// So what the agent must not miss is sent again until a later call shows that a result
// arrived. Such a call arrives after the result was written, in the same session, because
// an agent makes its next call after it has read the result. A call that was already on its
// way shows nothing.

// Receipt is called once with the fate of a result. received is true if a later call of the
// session shows that the client has the result, and false if it may be lost. ctx does not
// end with a call.
type Receipt func(ctx context.Context, received bool)

// maxUnconfirmed is how many results of one session may wait for the next call. If there
// are more, the oldest count as lost.
const maxUnconfirmed = 64

// receipts are the results of a session whose fate is not known yet.
type receipts struct {
	mu    sync.Mutex
	clock int64         // guarded by mu: counts arrivals and writes, to compare their order
	open  []*sentResult // guarded by mu: the oldest first
	ended bool          // guarded by mu

	coming map[string]*outgoing // guarded by mu: answers to requests that the sdk serves, by name
}

// sentResult is a result that is being sent, or was written. It is guarded by receipts.mu.
type sentResult struct {
	tell    func(received bool)
	began   int64 // clock at the beginning of its write; zero before that
	written bool
	shown   bool // a call arrived after its write began
}

// outgoing is the answer to one message, with the results in it. It is nil for answers
// without results.
type outgoing struct {
	to      *receipts
	via     outlet // outlet of the answer; nil if only the sdk knows it
	arrived int64  // clock when the message arrived
	// over means that results that are added from now on are not in the answer. It is
	// guarded by to.mu.
	over    bool
	results []*sentResult // guarded by to.mu
}

// arrive records that a message arrived, and returns its answer.
func (r *receipts) arrive() *outgoing {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return &outgoing{to: r, arrived: r.clock}
}

// end counts the results of unknown fate as lost, and also all results that are added
// later.
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

// take removes a result. It returns false if the result was removed before. The caller
// holds mu.
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

// called records that the message was a call. A call shows that results arrived whose write
// began before the call arrived.
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
		// The client may have read the result before the write returned.
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
	if o == nil { // a call of this process, which has the result
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

// Writing records that the write of the answer begins.
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

// Done records that the answer was written, or that its results are lost. Results that are
// added later are lost, too.
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
			continue // the next call shows whether the result arrived
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

// outgoingHeader carries the name of a request's *outgoing through the sdk, which passes
// the headers of a request to a handler, but not the context. It is set for each request,
// whatever the client sent.
const outgoingHeader = "Belljar-Outgoing"

// name returns the key under which in finds o, until o is done.
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

// in returns the answer to a request of the sdk; nil if the answer is done.
func (r *receipts) in(extra *sdk.RequestExtra) *outgoing {
	if extra == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.coming[extra.Header.Get(outgoingHeader)]
}

// receiptWriter records when the answer to an HTTP request is written.
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

// Unwrap is called by http.ResponseController.
func (w *receiptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *receiptWriter) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || err != nil
}

// done records that the request has ended.
func (w *receiptWriter) done(ctx context.Context) {
	w.mu.Lock()
	failed := w.failed
	w.mu.Unlock()
	w.out.Done(!failed && ctx.Err() == nil)
}
