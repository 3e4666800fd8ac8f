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
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// Bounds of a front.
const (
	maxBody    = 1 << 20 // size of one request in bytes
	maxBodies  = 256 << 20
	maxAnswers = 256 << 20 // bytes of answers that are buffered
	maxFlights = 16_384    // number of requests at the same time
	maxWaiting = 1024      // number of requests that wait for a worker
	maxRetries = 8         // attempts for one request that no worker has begun
)

// Times of a front.
const (
	// returnWait is how long a request waits for a worker that is not linked. The client of
	// an agent waits for a minute, and a worker that restarts is linked again within
	// seconds.
	returnWait = 5 * time.Second
	// drainWait is the longest time that a request waits for a worker that drains. The
	// running calls of that worker have this time to end, and most clients wait for a
	// minute.
	drainWait = 55 * time.Second
	// settleWait is how long a front without claims waits before it gives places to
	// workers: an existing place may be on a worker that has not connected yet.
	settleWait = 5 * time.Second
	retryAfter = "5" // in seconds
)

// FrontConfig is the configuration of a Front.
type FrontConfig struct {
	Credentials  Credentials
	Claims       claims.Claims
	SharedClaims bool          // whether all fronts share the claims
	Settled      bool          // whether the claims contain every place that a worker has
	Workers      []string      // workers for new places, the same list at all fronts; empty means any linked worker
	Return       time.Duration // how long a request waits for a worker that is not linked; zero means 5 s
	Protocol     Protocol
	PolicyDigest func() string // returns the digest of the front's policy, for people; may be nil
	Keys         *Keys         // keys of audit logs; nil remembers no keys
	// returns all places that the policy names, in a new slice for each call; if nil, a
	// place is claimed only for a request
	Names func() []string
	Log   *slog.Logger

	times moveTimes // zero means the usual times
}

// Request is a request of a client that has logged in.
type Request struct {
	Tenant string // tenant whose share of the front the request uses
	Place  string
	Caller string      // caller, in the form for the worker's handler
	Valid  func() bool // reports whether the caller is still valid
	// Hijacked is called for an answer whose connection is hijacked, so that it continues
	// after ServeRequest has returned. over is called when the answer ends, with the number
	// of bytes that were sent since then. Hijacked is nil if the caller does not allow
	// this.
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

	waiting  *shares // number of requests that wait for a worker
	bodies   *shares // bytes of request bodies
	answers  *shares // bytes of answers
	requests *shares // number of requests in flight

	flights  *inflight[*flight]
	hijacked *inflight[net.Conn] // connections of clients whose streams continue without a handler
}

// flight is a request that was sent to a worker, or will be.
type flight struct {
	Request
	message Message
	size    int64 // size of its body in bytes
	end     context.CancelFunc
}

// NewFront checks a configuration, and opens only the files that it names.
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

// Serve accepts links of workers until the listener is closed. Requests continue until
// Close.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	f.roster.run(func() { f.moves.run(ctx) })
	err := f.roster.serve(ctx, l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve workers: %w", err)
}

// Drain waits until no request is in flight, or until ctx ends. It does not wait for
// streams that last.
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

// Close ends all links. Calls that still run continue at the workers, and their clients get
// an error that says so. Close waits for the links, and at most [closeGrace] for streams. A
// second call does nothing more.
func (f *Front) Close() {
	idle := f.hijacked.close()
	f.roster.close()
	for _, c := range f.hijacked.all() {
		_ = c.SetWriteDeadline(time.Now().Add(closeGrace))
	}
	<-idle
}

// Recheck ends the streams of callers that are not valid any more.
func (f *Front) Recheck() {
	for _, fl := range f.flights.all() {
		if fl.message.Lasts && fl.Valid != nil && !fl.Valid() {
			fl.end()
		}
	}
}

// Info returns what the front knows about its fleet.
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
		case owner.Moving(): // is in the list of moving places
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

// Forget releases the claim of a place, so that any worker makes it again at its next
// request. It fails if a linked worker has the place.
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
	// the worker before still has the place as it was before the move
	case owner.From != "" && owner.From != claims.FromFile:
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

// ServeRequest answers a request of a client that has logged in, with the answer of the
// place's worker or with an error.
func (f *Front) ServeRequest(w http.ResponseWriter, r *http.Request, q Request) {
	// A stream may continue when the handler has returned, which ends the context of the
	// request.
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
		if !attached() { // the client has disconnected
			cancel()
		}
		hijacked = true
		s.sendHijacked(ctx, conn, over)
		return
	}
	// The copying of a stream is called from here, high in the stack: the runtime halves
	// the stack of a goroutine that uses less than a quarter of it, and there may be 10,000
	// streams.
	if !s.copy(w, http.NewResponseController(w).Flush) {
		panic(http.ErrAbortHandler)
	}
}

// serve answers a request. It returns a stream instead of answering it, and the caller
// copies the stream.
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
		refuse(w, "this front stops, or has too many requests, from you or from all clients; nothing of this request was run")
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
		// Reading the body and waiting for the worker may take long, so the caller is
		// checked again. Recheck finds a stream that begins after this.
		if fl.Valid != nil && !fl.Valid() {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "the token is not valid any more; nothing of this request was run", http.StatusUnauthorized)
			return nil
		}
		if s, done := f.forward(ctx, w, r, fl, l, body); done {
			return s
		}
	}
	f.refuseUnsent(w, &unavailable{"the worker of this place does not accept the request"})
	return nil
}

// refuseUnsent answers a request that was not sent to any worker.
func (f *Front) refuseUnsent(w http.ResponseWriter, err error) {
	var away *unavailable
	switch {
	case errors.Is(err, errGone): // no client reads an answer
	case errors.Is(err, ErrNoPlace):
		http.Error(w, "there is no such place, or you may not enter it; ask the operator of this server which places you may enter", http.StatusNotFound)
	case errors.As(err, &away):
		refuse(w, away.why+"; nothing of this request was run, so it can be sent again")
	default:
		f.cfg.Log.Error("a request is not sent to a worker", "err", err)
		refuse(w, "the worker of this place cannot be found; nothing of this request was run")
	}
}

// readBody reads a body within its bounds. If the body cannot be read, readBody sends the
// answer, and ok is false.
func (f *Front) readBody(w http.ResponseWriter, r *http.Request, fl *flight) (body []byte, ok bool) {
	size := int64(maxBody) // for a body of unknown length
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)) //nolint:forbidigo // the reader has a bound
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
	http.Error(w, "the body did not arrive in time, or is not complete", http.StatusRequestTimeout)
	return nil, false
}

// begin counts a request in flight. It returns false if there are too many.
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

// finish releases the room that a request has acquired.
func (f *Front) finish(fl *flight) {
	f.bodies.release(fl.Tenant, fl.size)
	if f.flights.end(fl) {
		f.requests.release(fl.Tenant, 1)
	}
}

// forward sends a request to a worker, and the answer to the client. It returns a stream
// instead of sending it. If done is false, the worker has not begun the request, and
// nothing was sent to the client.
func (f *Front) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, fl *flight, l *link, body []byte) (_ *stream, done bool) {
	if l.sent.Add(1) > maxSent { // the number of streams of a connection is limited
		l.Close()
	}
	if f.roster.ended(l) {
		return nil, false
	}
	via := l.via(len(body) > maxPart)
	if via.client.Available() == 0 { // RoundTrip would wait until another request ends
		refuse(w, "the worker of this place has too many requests; nothing of this request was run")
		return nil, true
	}
	l.running.Add(1)
	streams := false // if true, the request ends with its stream
	defer func() {
		if !streams {
			l.running.Add(-1)
		}
	}()
	req, sent := outgoing(ctx, r, fl, via, body)
	res, err := via.client.RoundTrip(req)
	if err != nil {
		switch {
		case ctx.Err() != nil && r.Context().Err() == nil: // the front has ended it: see Recheck and Drain
			panic(http.ErrAbortHandler)
		case ctx.Err() != nil:
			return nil, true // the client has disconnected, and the worker is notified
		case !sent.Load():
			f.roster.ended(l)
			return nil, false
		}
		f.lost(w, fl, l)
		return nil, true
	}
	if res.Header.Get(notBegun) != "" {
		res.Body.Close()
		if f.roster.open(l) { // the worker has lost this place; its next state says so too
			f.roster.removePlace(l, fl.Place)
		}
		return nil, false
	}
	if number := res.Header.Get(partsHeader); number != "" {
		l.join(ctx, res, number)
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

// join replaces the body of an answer in parts.
func (l *link) join(ctx context.Context, res *http.Response, number string) {
	length, err := strconv.ParseInt(res.Header.Get(lengthHeader), 10, 64)
	if err != nil || length < 0 {
		length = -1
	}
	res.ContentLength = length
	res.Body = &joined{first: res.Body, length: length, request: func() (io.ReadCloser, error) { return l.parts(ctx, number) }, fail: l.endWhole}
}

// parts requests the large parts of an answer.
func (l *link) parts(ctx context.Context, number string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker"+partsPath+"/"+url.PathEscape(number), nil)
	if err != nil {
		return nil, err
	}
	res, err := l.via(true).client.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("the large parts of an answer: %s", res.Status)
	}
	return res.Body, nil
}

// source is the body of a request to a worker. It records whether any of it was read:
// before that, the worker has no part of the request that it could run.
type source struct {
	io.Reader
	link *conn
	read atomic.Bool
}

// Read reads the body. After an error it releases the body, and the next Read returns EOF.
// On a long or slow link, Read returns small parts: net/http sends each as one frame, and
// everything else waits for that frame, including the pings that show that the link is alive.
func (s *source) Read(p []byte) (int, error) {
	s.read.Store(true)
	if s.link.long() || s.link.turns.slow() {
		p = p[:min(len(p), slowFrame)]
	}
	n, err := s.Reader.Read(p)
	if err != nil {
		s.Reader = strings.NewReader("") // release the body, because the answer may last for hours
	}
	return n, err
}

// Close does nothing.
func (*source) Close() error { return nil }

// outgoing returns a client's request in the form for a worker. It never contains the token
// of the client. sent says whether the worker may have got the request.
func outgoing(ctx context.Context, r *http.Request, fl *flight, l *link, body []byte) (req *http.Request, sent *atomic.Bool) {
	from := &source{Reader: bytes.NewReader(body), link: l.conn}
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
	if l.bulk.Load() != nil { // nil for a bulk connection: answers over it are not in parts
		req.Header.Set(partsHeader, "1")
	}
	if len(body) == 0 {
		req.Body = http.NoBody
		from.read.Store(r.Method != http.MethodGet)
	}
	return req, &from.read
}
