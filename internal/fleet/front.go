package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// Bounds of a front.
const (
	maxBody    = 1 << 20 // of one request
	maxBodies  = 256 << 20
	maxAnswers = 256 << 20 // bytes of answers that wait for their rest
	maxFlights = 16_384    // requests at once
	maxWaiting = 1024      // requests that wait for a worker
	maxRetries = 8         // of one request that no worker has begun
)

// Times of a front.
const (
	// returnWait is how long a request waits for a worker that is not there. An agent's
	// client waits for a minute, and a worker that starts anew is back within seconds.
	returnWait = 5 * time.Second
	// drainWait is how long a request waits at most for a worker that drains. The calls that run there
	// have that time to end, and most clients wait for a minute.
	drainWait = 55 * time.Second
	// settleWait is how long a front without claims waits for workers before it gives
	// places to them: one that exists may be on a worker that is about to connect.
	settleWait = 5 * time.Second
	retryAfter = "5" // seconds
)

// FrontConfig is the configuration of a Front.
type FrontConfig struct {
	Credentials  Credentials
	Claims       claims.Claims
	SharedClaims bool          // the claims are those of all fronts
	Settled      bool          // the claims are complete: no worker has a place that is not in them
	Workers      []string      // to which new places go, the same at all fronts; empty for whichever is linked
	Return       time.Duration // how long a request waits for a worker that is not there; 5 s
	Protocol     Protocol
	PolicyDigest func() string   // digest of the policy that holds here, for people; nil says none
	Keys         *Keys           // of audit logs; nil remembers none
	Names        func() []string // all places that the policy has, a new slice for each call; nil has no place claimed without a request
	Log          *slog.Logger

	times moveTimes // zero for the usual ones
}

// Request is a request of a client that has logged in.
type Request struct {
	Tenant string // in whose share of the front it counts
	Place  string
	Caller string      // for the handler of the worker
	Valid  func() bool // reports whether the client would be let in now
	// Hijacked is called for an answer whose connection is hijacked: it goes on when ServeRequest
	// has returned. over is called at its end, with how many bytes of it were sent since then. Nil
	// for a caller that cannot have that.
	Hijacked func() (over func(sent int64))
}

// Front sends the requests of clients to the workers of their places. Its methods are safe
// for concurrent use. Close ends it.
type Front struct {
	cfg     FrontConfig
	files   *certificates
	roster  *roster
	settled time.Time
	moves   *moves
	audits  auditTimes

	waiting  *shares // requests that wait for a worker
	bodies   *shares // bytes
	answers  *shares // bytes
	requests *shares // that are in flight

	flights  *inflight[*flight]
	hijacked *inflight[net.Conn] // of clients whose streams go on without a handler
}

// flight is a request that has been sent to a worker, or is about to be.
type flight struct {
	Request
	message Message
	size    int64 // of its body
	end     context.CancelFunc
}

// NewFront checks a configuration. Nothing is opened but its files.
func NewFront(cfg FrontConfig) (*Front, error) {
	for i, name := range cfg.Workers {
		if !IsWorkerName(name) || slices.Contains(cfg.Workers[:i], name) {
			return nil, fmt.Errorf("--workers %q: want the names of workers, each once", name)
		}
	}
	cfg.Return = cmp.Or(cfg.Return, returnWait)
	files, err := cfg.Credentials.open()
	if err != nil {
		return nil, err
	}
	f := &Front{
		cfg: cfg, files: files, roster: newRoster(files, cfg.Keys, cfg.Log), flights: newInflight[*flight](), hijacked: newInflight[net.Conn](), audits: usualAudit,
		waiting: newShares(maxWaiting, tenantPart), bodies: newShares(maxBodies, tenantPart),
		answers: newShares(maxAnswers, tenantPart), requests: newShares(maxFlights, tenantPart),
	}
	f.moves = newMoves(f)
	cfg.Claims.Watch(f.roster.wake)
	if !cfg.Settled {
		f.settled = time.Now().Add(settleWait)
	}
	return f, nil
}

// Serve takes links of workers until the listener is closed. Requests go on until Close.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	f.roster.run(func() { f.moves.run(ctx) })
	err := f.roster.serve(ctx, l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve workers: %w", err)
}

// Drain waits until no request is in flight, or ctx ends. Streams that last are not waited
// for.
func (f *Front) Drain(ctx context.Context) {
	idle := f.flights.close()
	for _, fl := range f.flights.all() {
		if fl.message.Lasts {
			fl.end()
		}
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Close ends all links. Calls that still run go on at the workers, and their clients get an error that
// says so. It waits for the links, and for streams for as long as [closeGrace]. A second call does nothing
// more.
func (f *Front) Close() {
	idle := f.hijacked.close()
	f.roster.close()
	for _, c := range f.hijacked.all() {
		_ = c.SetWriteDeadline(time.Now().Add(closeGrace))
	}
	<-idle
}

// Recheck ends the streams of callers that would not be let in any more.
func (f *Front) Recheck() {
	for _, fl := range f.flights.all() {
		if fl.message.Lasts && fl.Valid != nil && !fl.Valid() {
			fl.end()
		}
	}
}

// Info is what the front knows of its fleet.
func (f *Front) Info() Info {
	i := Info{Away: make(map[string]string), Claimed: make(map[string]string), Static: f.cfg.Workers}
	i.Workers, i.Places, i.Frozen = f.roster.info()
	i.Moving = f.moves.list()
	if f.cfg.PolicyDigest != nil {
		i.PolicyDigest = f.cfg.PolicyDigest()
	}
	f.roster.mu.Lock()
	i.Number = f.roster.policy.Number
	f.roster.mu.Unlock()
	var fault error
	if i.Expires, fault = f.files.state(); fault != nil {
		i.Fault = fault.Error()
	}
	for place, owner := range f.cfg.Claims.All() {
		switch has := i.Places[place]; {
		case owner.Moving(): // is in the list of those
		case has == "":
			i.Away[place] = owner.Worker
		case has != owner.Worker && i.Frozen[place] == nil:
			i.Claimed[place] = owner.Worker
		}
	}
	if err := f.cfg.Claims.Ready(); err != nil {
		i.Refused = err.Error()
	} else {
		i.Refused = f.cfg.mustShare(f.roster.linked())
	}
	return i
}

// Forget has a place belong to no worker: it is made anew at its next request, by whichever
// worker. It fails for a place that a linked worker has.
func (f *Front) Forget(ctx context.Context, place string) error {
	if holders, _ := f.roster.holding(place); len(holders) > 0 {
		return fmt.Errorf("forget place %s: worker %s has it; only a place that no worker has can be forgotten", place, holders[0].Name)
	}
	owner, next := f.cfg.Claims.Owner(place), claims.Claim{}
	switch {
	case owner == claims.Claim{}:
		return fmt.Errorf("forget place %s: it is not claimed", place)
	case owner.To != "":
		return fmt.Errorf("forget place %s: it is being moved; end that with `belljar place stop %s`", place, place)
	case owner.From != "" && owner.From != claims.FromFile: // the worker before still has the place as it was before the move
		next = claims.Claim{Worker: owner.From, Move: owner.Move}
	}
	switch now, err := f.cfg.Claims.Swap(ctx, place, owner, next); {
	case err != nil:
		return fmt.Errorf("forget place %s: %w", place, err)
	case now != next:
		return fmt.Errorf("forget place %s: it belongs to worker %s now; try it again", place, now.Worker)
	}
	return nil
}

// ServeRequest answers a request of a client that has logged in: by the worker of its
// place, or in its stead.
func (f *Front) ServeRequest(w http.ResponseWriter, r *http.Request, q Request) {
	// A stream may go on when the handler has returned, which ends the context of the request.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	fl := &flight{Request: q, end: cancel}
	attached := context.AfterFunc(r.Context(), cancel)
	over := func() {
		attached()
		cancel()
		f.finish(fl)
	}
	hijacked := false
	defer func() {
		if !hijacked {
			over()
		}
	}()
	s := f.serve(ctx, w, r, fl)
	if s == nil {
		return
	}
	switch conn, err := s.hijack(w, r); {
	case errors.Is(err, http.ErrNotSupported):
	case err != nil:
		s.close()
		panic(http.ErrAbortHandler)
	case !f.hijacked.begin(conn):
		s.close()
		conn.Close()
		return
	default:
		if !attached() { // the client has gone
			cancel()
		}
		hijacked = true
		s.sendHijacked(ctx, conn, over)
		return
	}
	// A stream is waited for here, and not further down: the runtime halves the stack of a
	// goroutine that uses less than a quarter of it, and there may be 10,000 streams.
	if !s.copy(w, http.NewResponseController(w).Flush) {
		panic(http.ErrAbortHandler)
	}
}

// serve answers a request, but for a stream, which the caller copies.
func (f *Front) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, fl *flight) *stream {
	body, ok := f.readBody(w, r, fl)
	if !ok {
		return nil
	}
	fl.message = f.cfg.Protocol.Read(r.Header, body)
	if r.Method == http.MethodGet {
		fl.message.Lasts = true
	}
	if !f.begin(fl) {
		refuse(w, "this front stops, or has as many requests as it takes, of you or of all; nothing of this request was run")
		return nil
	}
	if fl.message.Lasts && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // see the streams of package mcp
	}
	began := time.Now()
	for range maxRetries {
		l, err := f.resolve(ctx, fl.Request, began)
		if err != nil {
			f.refuseUnsent(w, err)
			return nil
		}
		// The body may have taken its time, and so may the worker. A stream that begins after
		// this is one that Recheck finds.
		if fl.Valid != nil && !fl.Valid() {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "the token is not valid any more; nothing of this request was run", http.StatusUnauthorized)
			return nil
		}
		if s, done := f.forward(ctx, w, r, fl, l, body); done {
			return s
		}
	}
	f.refuseUnsent(w, &unavailable{"the worker of this place does not take the request"})
	return nil
}

// refuseUnsent answers a request that was sent to no worker.
func (f *Front) refuseUnsent(w http.ResponseWriter, err error) {
	var away *unavailable
	switch {
	case errors.Is(err, errGone): // nobody reads an answer
	case errors.Is(err, ErrNoPlace):
		http.Error(w, "there is no such place; the operator of this server knows which places you may enter", http.StatusNotFound)
	case errors.As(err, &away):
		refuse(w, away.why+"; nothing of this request was run, so it can be sent again")
	default:
		f.cfg.Log.Error("a request is not sent to a worker", "err", err)
		refuse(w, "the worker of this place cannot be found; nothing of this request was run")
	}
}

// readBody reads a body within its bounds. Where it cannot be read, the answer has been
// sent, and ok is false.
func (f *Front) readBody(w http.ResponseWriter, r *http.Request, fl *flight) (body []byte, ok bool) {
	size := int64(maxBody) // of a body that does not say how long it is
	if r.ContentLength >= 0 {
		size = min(r.ContentLength, maxBody)
	}
	if !f.bodies.acquire(fl.Tenant, size) {
		refuse(w, "the requests in flight are too large together; nothing of this request was run")
		return nil, false
	}
	fl.size = size
	if r.ContentLength == 0 || r.Body == nil {
		return nil, true
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)) //nolint:forbidigo // bounded
	if err == nil {
		fl.size = int64(len(body))
		f.bodies.release(fl.Tenant, size-fl.size)
		return body, true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		http.Error(w, fmt.Sprintf("invalid request: the message is larger than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "the body did not come in time, or not whole", http.StatusRequestTimeout)
	return nil, false
}

// begin counts a request in flight, unless there are as many as there may be.
func (f *Front) begin(fl *flight) bool {
	if !f.requests.acquire(fl.Tenant, 1) {
		return false
	}
	if !f.flights.begin(fl) {
		f.requests.release(fl.Tenant, 1)
		return false
	}
	return true
}

// finish releases what a request has acquired.
func (f *Front) finish(fl *flight) {
	f.bodies.release(fl.Tenant, fl.size)
	if f.flights.end(fl) {
		f.requests.release(fl.Tenant, 1)
	}
}

// forward sends a request to a worker and its answer to the client, but for a stream, which
// it returns. If done is false, the worker has not begun the request, and nothing was sent to
// the client.
func (f *Front) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, fl *flight, l *link, body []byte) (_ *stream, done bool) {
	if l.sent.Add(1) > maxSent { // the number of streams of a connection has an end
		l.Close()
	}
	if f.roster.ended(l) {
		return nil, false
	}
	if l.client.Available() == 0 { // RoundTrip would wait for the end of another request
		refuse(w, "the worker of this place has as many requests as it takes; nothing of this request was run")
		return nil, true
	}
	l.running.Add(1)
	streams := false // then the end of the stream is that of the request
	defer func() {
		if !streams {
			l.running.Add(-1)
		}
	}()
	req, sent := outgoing(ctx, r, fl, body)
	res, err := l.client.RoundTrip(req)
	if err != nil {
		switch {
		case ctx.Err() != nil && r.Context().Err() == nil: // ended by the front: see Recheck and Drain
			panic(http.ErrAbortHandler)
		case ctx.Err() != nil:
			return nil, true // the client has gone, and the worker knows it
		case !sent.Load():
			f.roster.ended(l)
			return nil, false
		}
		f.lost(w, fl, l)
		return nil, true
	}
	if res.Header.Get(notBegun) != "" {
		res.Body.Close()
		if f.roster.open(l) { // its places have changed: what it says next has them
			f.roster.removePlace(l, fl.Place)
		}
		return nil, false
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" {
		copyHeaders(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		streams = true
		return f.stream(res, fl, l), true
	}
	defer res.Body.Close()
	f.answer(w, res, fl, l)
	return nil, true
}

// source is the body of a request to a worker. It notes whether any of it was read: before
// that, the worker has nothing of the request that it could run.
type source struct {
	io.Reader
	read atomic.Bool
}

// Read reads the body. After an error it releases the body, and the next Read returns EOF.
func (s *source) Read(p []byte) (int, error) {
	s.read.Store(true)
	n, err := s.Reader.Read(p)
	if err != nil {
		s.Reader = strings.NewReader("") // release the body: the answer may last for hours
	}
	return n, err
}

// Close does nothing.
func (*source) Close() error { return nil }

// outgoing is a request of a client as a worker gets it. It never has the token of the
// client. sent says whether the worker may have got it.
func outgoing(ctx context.Context, r *http.Request, fl *flight, body []byte) (req *http.Request, sent *atomic.Bool) {
	from := &source{Reader: bytes.NewReader(body)}
	req = (&http.Request{
		Method: r.Method, URL: r.URL, Host: r.Host, Header: make(http.Header, len(r.Header)+2),
		Body: from, ContentLength: int64(len(body)),
	}).WithContext(ctx)
	u := *r.URL
	u.Scheme, u.Host, u.User = "http", "worker", nil
	req.URL = &u
	copyHeaders(req.Header, r.Header)
	req.Header.Set(PlaceHeader, fl.Place)
	req.Header.Set(CallerHeader, fl.Caller)
	if len(body) == 0 {
		req.Body = http.NoBody
		from.read.Store(r.Method != http.MethodGet)
	}
	return req, &from.read
}
