package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoPlace is the error for a claim of a place that the worker's own policy does not
// name.
var ErrNoPlace = errors.New("there is no such place")

// WorkerConfig is the configuration of a Worker. All fields are required, except for Audit,
// Asked, and the fields for places that move.
type WorkerConfig struct {
	Name         string   // name in the fleet, which the certificate must cover
	Fronts       []string // addresses, for example https://front.example:8444
	Credentials  Credentials
	Version      string        // version of the program, for people
	PolicyDigest func() string // returns the digest of the worker's policy, for people; may be nil
	// TakePolicy takes a policy of the fleet into use, or returns a Refusal and keeps the
	// policy before. PolicyNumber returns the number of the worker's policy; 0 if it is not
	// one of the fleet. Both are nil for a worker that takes no policy of the fleet.
	TakePolicy   func(ctx context.Context, g Policy) error
	PolicyNumber func() uint64
	// Handler answers requests of clients. Their place and caller are in the headers
	// PlaceHeader and CallerHeader.
	Handler http.Handler
	Asked   http.Handler    // answers requests of the fronts themselves; nil answers none of them
	Places  func() []string // returns the names of the worker's places
	// Enter reports whether the worker has a place and the place is at work. Until leave is
	// called, the place is not frozen.
	Enter func(place string) (leave func(), ok bool)
	Claim func(ctx context.Context, place string) error // makes a place; may return ErrNoPlace
	Mover Mover                                         // nil if places do not move
	// returns frozen places and unused copies, in order; nil if places do not move
	Moves func() []Marked
	Audit Audit // nil if no audit log is kept
	Log   *slog.Logger

	times moveTimes // zero means the usual times
	far   bool      // whether each link counts as long
}

// Worker answers the requests that fronts send it. Its methods are safe for concurrent use.
type Worker struct {
	cfg     WorkerConfig
	times   moveTimes
	process string
	fronts  []front
	files   *certificates
	servers [2]connServer // of first connections, and of bulk connections, because PingTimeout belongs to a server
	dialled atomic.Uint64 // number of links that it has tried to make

	flights *inflight[*http.Request] // requests of clients, and a front's requests about places: claims and steps of moves

	mu           sync.Mutex
	running      map[*conn]struct{} // guarded by mu: open connections of links
	drains       bool               // guarded by mu
	news         chan struct{}      // guarded by mu: closed when the state of the worker has changed
	acknowledged chan struct{}      // guarded by mu: closed when a front has confirmed a checkpoint
	serving      sync.WaitGroup     // waits for requests

	auditing    sync.Mutex // held while the audit log is read
	checkpoints checkpointRate
}

// front is the address of a front.
type front struct{ host, address string }

// NewWorker checks a configuration, and opens only the files that it names.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	if !IsWorkerName(cfg.Name) {
		return nil, fmt.Errorf("--name %q: want at most 63 lower-case letters, digits and hyphens", cfg.Name)
	}
	w := &Worker{
		cfg: cfg, times: cmp.Or(cfg.times, usualMoves), process: rand.Text(), flights: newInflight[*http.Request](), running: make(map[*conn]struct{}),
		news: make(chan struct{}), acknowledged: make(chan struct{}),
	}
	for _, text := range cfg.Fronts {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
			return nil, fmt.Errorf("--front %q: want https://HOST:PORT, the address of --link of a front", text)
		}
		w.fronts = append(w.fronts, front{u.Hostname(), u.Host})
	}
	if len(w.fronts) == 0 {
		return nil, errors.New("--front: name at least one front, such as https://front.example:8444")
	}
	var err error
	if w.files, err = cfg.Credentials.open(); err != nil {
		return nil, err
	}
	for i, wait := range []time.Duration{pingWait, bulkWait} {
		w.servers[i] = connServer{w.newServer(wait), newListener()}
	}
	return w, nil
}

// connServer answers the requests on connections of one kind.
type connServer struct {
	*http.Server

	conns *listener
}

// Indexes of Worker.servers.
const (
	firstConns = iota
	bulkConns
)

// newServer returns a server for connections whose pings wait for at most wait.
func (w *Worker) newServer(wait time.Duration) *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // the connection below already uses TLS
	return &http.Server{
		Handler: http.HandlerFunc(w.serve), Protocols: &protocols, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: helloWait,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: wait, WriteByteTimeout: writeWait,
			MaxReceiveBufferPerConnection: maxUnreadBodies, MaxReceiveBufferPerStream: maxBuffer,
		},
		ErrorLog: slog.NewLogLogger(w.cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
}

// Run connects to all fronts, again and again when a link ends, until ctx ends. Then it
// ends the links, and returns when their requests have returned.
func (w *Worker) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, f := range w.fronts {
		running.Go(func() { w.connect(ctx, f) })
	}
	ended := make(chan error, len(w.servers))
	for _, s := range w.servers {
		running.Go(func() { ended <- s.Serve(s.conns) })
	}
	<-ctx.Done()
	for _, s := range w.servers {
		s.conns.Close()
	}
	running.Wait() // each of them closes its link
	for _, s := range w.servers {
		_ = s.Close()
	}
	w.serving.Wait()
	for range w.servers {
		if err := <-ended; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the links: %w", err)
		}
	}
	return nil
}

// Changed notifies the fronts that the places or the audit log of the worker have changed.
func (w *Worker) Changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed()
}

// changed is Changed for a caller that holds mu.
func (w *Worker) changed() {
	close(w.news)
	w.news = make(chan struct{})
}

// Drain makes the worker refuse further requests: a front keeps new requests for the next
// process of this worker. Drain waits until ctx ends for the requests that have begun. Then
// it detaches the rest: they continue without their callers, and their callers get an
// answer immediately if that is possible. For these answers, Drain waits up to lastAnswers.
func (w *Worker) Drain(ctx context.Context) {
	w.mu.Lock()
	w.drains = true
	w.changed()
	w.mu.Unlock()
	idle := w.flights.close()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	w.mu.Lock()
	for c := range w.running {
		c.detach()
	}
	w.mu.Unlock()
	last := time.NewTimer(lastAnswers)
	defer last.Stop()
	select {
	case <-idle:
	case <-last.C:
	}
}

// lastAnswers is how long a draining worker waits for the answers of requests that it has
// detached.
const lastAnswers = 2 * time.Second

// serve answers one request of a front.
func (w *Worker) serve(rw http.ResponseWriter, r *http.Request) {
	w.serving.Add(1)
	defer w.serving.Done()
	c := connOf(r.Context())
	if r.URL.Path == statePath && c.first == nil {
		if !c.asked.CompareAndSwap(false, true) {
			rw.WriteHeader(http.StatusTooManyRequests) // each request costs a list of all places
			return
		}
		w.sendState(rw, r)
		return
	}
	inTurn := &interleaved{ResponseWriter: rw, turns: &c.turns}
	_, ofClient := r.Header[PlaceHeader]
	number, forParts := strings.CutPrefix(r.URL.Path, partsPath+"/")
	switch {
	case c.first == nil && r.Header.Get(partsHeader) != "":
		parts := &parted{ResponseWriter: inTurn, request: r, link: c}
		defer parts.finish()
		w.serveInTurn(parts, r)
	case c.first != nil && forParts && !ofClient:
		c.first.bulkAnswers.answerParts(inTurn, number)
	default:
		w.serveInTurn(inTurn, r)
	}
	inTurn.finish()
}

// serveInTurn answers a request that takes turns with others.
func (w *Worker) serveInTurn(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case claimPath:
		w.claim(rw, r)
		return
	case acknowledgePath, keepPath, keptPath, verifyPath:
		w.audit(rw, r)
		return
	case policyPath:
		if w.takePolicy(rw, r) {
			w.Changed()
		}
		return
	case movePath:
		if !w.flights.begin(r) {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer w.flights.end(r)
		w.move(rw, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, askPath+"/") {
		w.asked(rw, r)
		return
	}
	// If this request is refused, nothing was read, and nothing runs: the front sends it to
	// another worker, or sends it again.
	leave, ok := w.cfg.Enter(r.Header.Get(PlaceHeader))
	if !ok {
		MarkNotStarted(rw.Header())
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer leave()
	if !w.flights.begin(r) {
		MarkNotStarted(rw.Header())
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer w.flights.end(r)
	w.cfg.Handler.ServeHTTP(rw, r)
}

// asked answers a request of the front itself. A request of a client is refused here,
// because it names a place.
func (w *Worker) asked(rw http.ResponseWriter, r *http.Request) {
	if _, placed := r.Header[PlaceHeader]; placed || w.cfg.Asked == nil {
		http.NotFound(rw, r)
		return
	}
	http.StripPrefix(askPath, w.cfg.Asked).ServeHTTP(rw, r)
}

// claim makes a place that a front has claimed for this worker.
func (w *Worker) claim(rw http.ResponseWriter, r *http.Request) {
	if !w.flights.begin(r) {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer w.flights.end(r)
	place := r.Header.Get(PlaceHeader)
	switch err := w.cfg.Claim(r.Context(), place); {
	case errors.Is(err, ErrNoPlace):
		rw.WriteHeader(http.StatusNotFound)
	case errors.Is(err, ErrBusy):
		rw.WriteHeader(http.StatusLocked)
	case err != nil:
		w.cfg.Log.Error("a place cannot be made", "place", place, "err", err)
		rw.WriteHeader(http.StatusInternalServerError)
	default:
		rw.WriteHeader(http.StatusNoContent)
	}
}
