package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/pause"
)

// Bounds of what is sent.
const (
	maxQueue  = 4096            // spans that wait
	maxBatch  = 512             // spans of one request
	linger    = 2 * time.Second // how long a span waits for others
	patience  = 10 * time.Second
	maxTries  = 4
	maxPause  = 5 * time.Second
	maxAnswer = 64 << 10 // bytes of an answer that are read
)

// Config says where spans go.
type Config struct {
	// URL is where requests are posted to, with the path: Endpoint makes one of
	// a collector's address.
	URL string
	// Headers are sent with each request, for example the tenant's key of a collector.
	Headers map[string]string
	// Resource describes the sender, for example by service.name.
	Resource []Attr
	// Scope names what made the spans, and ScopeVersion its version.
	Scope, ScopeVersion string
	// Log gets one line for each row of failures; default none.
	Log *slog.Logger
	// Pause replaces the waiting between tries; nil is to wait. Tests do not.
	Pause func(ctx context.Context, d time.Duration)
}

// Endpoint is the URL for spans of a collector's address: a URL without a path
// gets /v1/traces.
func Endpoint(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("otlp: %q is no http or https URL", address)
	}
	if strings.HasSuffix(u.Path, "/v1/traces") {
		return u.String(), nil
	}
	return u.JoinPath("v1", "traces").String(), nil
}

// Exporter sends spans. Its methods are safe for concurrent use. Close ends it.
type Exporter struct {
	cfg    Config
	client http.Client
	prefix []byte        // of each request, up to the spans
	wake   chan struct{} // of one element: spans wait
	quit   chan struct{}
	once   sync.Once
	done   chan struct{}
	stop   context.CancelFunc

	mu      sync.Mutex
	queue   []Span // guarded by mu
	dropped uint64 // guarded by mu
	sent    uint64 // guarded by mu
	closed  bool   // guarded by mu
	failing bool   // guarded by mu: the operator has been told
}

// Start is an Exporter. ctx ends what it sends, but not its values.
func Start(ctx context.Context, cfg Config) (*Exporter, error) {
	if _, err := Endpoint(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pause == nil {
		cfg.Pause = func(ctx context.Context, d time.Duration) { _ = pause.For(ctx, d) }
	}
	e := &Exporter{
		cfg: cfg, prefix: prefix(cfg), wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		client: http.Client{
			Timeout: patience,
			// A collector that sends us elsewhere would get the headers there.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(e.done)
		e.run(ctx)
	}()
	return e, nil
}

// Add queues spans and does not wait. Those that find no room are dropped, and
// counted.
func (e *Exporter) Add(spans ...Span) {
	e.mu.Lock()
	room := maxQueue - len(e.queue)
	if e.closed {
		room = 0
	}
	n := min(room, len(spans))
	e.queue = append(e.queue, spans[:n]...)
	e.dropped += uint64(len(spans) - n)
	full := len(e.queue) >= maxBatch
	e.mu.Unlock()
	if n > 0 && full {
		e.poke()
	}
}

func (e *Exporter) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Counts are the spans that a collector took, and those that were dropped.
func (e *Exporter) Counts() (sent, dropped uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent, e.dropped
}

// Close sends what waits, until ctx ends, and then counts the rest as dropped. Twice
// is fine, and both wait. Spans that others add meanwhile are dropped.
func (e *Exporter) Close(ctx context.Context) error {
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		e.mu.Unlock()
		close(e.quit)
	})
	select {
	case <-e.done:
	case <-ctx.Done():
		e.stop()
		<-e.done
	}
	e.stop()
	e.client.CloseIdleConnections()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped > 0 {
		return fmt.Errorf("otlp: %d spans did not reach the collector, %d did", e.dropped, e.sent)
	}
	return nil
}

// run sends groups of spans until quit, and then the rest.
func (e *Exporter) run(ctx context.Context) {
	tick := time.NewTicker(linger)
	defer tick.Stop()
	for {
		select {
		case <-e.wake:
		case <-tick.C:
		case <-e.quit:
			for e.flush(ctx) {
			}
			return
		}
		for e.flush(ctx) && e.waiting() >= maxBatch {
		}
	}
}

func (e *Exporter) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}

// flush sends one group, and reports false where none waited.
func (e *Exporter) flush(ctx context.Context) bool {
	e.mu.Lock()
	batch := e.queue[:min(len(e.queue), maxBatch)]
	e.queue = e.queue[len(batch):]
	if len(e.queue) == 0 {
		e.queue = nil
	}
	e.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	lost, err := e.send(ctx, batch)
	e.mu.Lock()
	e.dropped += uint64(lost)
	e.sent += uint64(len(batch) - lost)
	tell := err != nil && !e.failing
	e.failing = err != nil
	e.mu.Unlock()
	if tell {
		e.cfg.Log.Warn("spans cannot be sent; calls go on without", "url", e.cfg.URL, "err", err)
	}
	return true
}

// send posts a group, again where the collector may take it later, and is how
// many spans it did not take.
func (e *Exporter) send(ctx context.Context, batch []Span) (lost int, err error) {
	body := e.body(batch)
	for try := 1; ; try++ {
		rejected, wait, err := e.post(ctx, body)
		var again *retryError
		if err == nil {
			return min(rejected, len(batch)), nil
		}
		if !errors.As(err, &again) || try == maxTries || ctx.Err() != nil {
			return len(batch), err
		}
		if wait == 0 {
			wait = time.Second << (try - 1)
		}
		e.cfg.Pause(ctx, min(wait, maxPause))
	}
}

// retryError is one that may be gone at the next try.
type retryError struct{ error }

func (e *retryError) Unwrap() error { return e.error }

// post sends a request. rejected are the spans that the collector refused
// although it took the request.
func (e *Exporter) post(ctx context.Context, body []byte) (rejected int, wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	for key, value := range e.cfg.Headers {
		req.Header.Set(key, value)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, 0, &retryError{err}
	}
	defer resp.Body.Close()
	text := io.LimitReader(resp.Body, maxAnswer)
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		var answer struct {
			Partial struct {
				Rejected json.Number `json:"rejectedSpans"` // a number of 64 bits, so a text
			} `json:"partialSuccess"`
		}
		if json.NewDecoder(text).Decode(&answer) == nil {
			if n, err := answer.Partial.Rejected.Int64(); err == nil && n > 0 {
				rejected = int(min(n, maxBatch))
			}
		}
		return rejected, 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		_, _ = io.Copy(io.Discard, text) // so that the connection can be used again
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			wait = time.Duration(min(s, 60)) * time.Second
		}
		return 0, wait, &retryError{fmt.Errorf("the collector answers %s", resp.Status)}
	}
	return 0, 0, fmt.Errorf("the collector answers %s", resp.Status)
}
