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

// Bounds of the spans that are sent.
const (
	maxQueue  = 4096            // most spans in the queue
	maxBatch  = 512             // most spans of one request
	linger    = 2 * time.Second // time for which a span waits for others
	patience  = 10 * time.Second
	maxTries  = 4
	maxPause  = 5 * time.Second
	maxAnswer = 64 << 10 // most bytes that are read of an answer
)

// Config is the configuration of an Exporter.
type Config struct {
	// URL is the URL to which requests are posted, with its path. Endpoint makes it from a
	// collector's address.
	URL string
	// Headers are sent with each request, for example the key of the collector's tenant.
	Headers map[string]string
	// Resource describes the sender, for example by service.name.
	Resource []Attr
	// Scope is the name of the code that made the spans, and ScopeVersion its version.
	Scope, ScopeVersion string
	// Log gets one line for each series of failures; nil logs nothing.
	Log *slog.Logger
	// Pause waits between two tries; nil waits for d. Tests set it, so that they do not
	// wait.
	Pause func(ctx context.Context, d time.Duration)
}

// Endpoint returns the URL for spans at a collector's address. It appends /v1/traces to the
// path unless the path ends with it.
func Endpoint(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("otlp: %q is not an http or https URL", address)
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
	prefix []byte        // beginning of each request, up to the spans
	wake   chan struct{} // receives a value when a full group of spans waits; its capacity is 1
	quit   chan struct{}
	once   sync.Once
	done   chan struct{}
	stop   context.CancelFunc

	mu      sync.Mutex
	queue   []Span // guarded by mu
	dropped uint64 // guarded by mu
	sent    uint64 // guarded by mu
	closed  bool   // guarded by mu
	failing bool   // guarded by mu: whether the failure was logged
}

// Start returns a running Exporter. The end of ctx does not end it, but its requests use
// the values of ctx.
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
			// After a redirect, another server would get the headers.
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

// Add queues spans, and does not wait. Spans that the queue has no room for are dropped and
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

// Counts returns the number of spans that the collector accepted, and of those that were
// dropped.
func (e *Exporter) Counts() (sent, dropped uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent, e.dropped
}

// Close sends the spans in the queue, until ctx ends, and then counts the rest as dropped.
// It may be called twice and concurrently; each call waits. Spans that are added after
// Close was called are dropped.
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

// run sends groups of spans until quit is closed, and then the remaining spans.
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

// flush sends one group. It returns false if no spans wait.
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
		e.cfg.Log.Warn("spans cannot be sent; calls continue without traces", "url", e.cfg.URL, "err", err)
	}
	return true
}

// send posts a group, several times if the collector may accept it later. It returns the
// number of spans that the collector did not accept.
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

// retryError is an error that may be gone at the next try.
type retryError struct{ error }

func (e *retryError) Unwrap() error { return e.error }

// post sends a request. rejected is the number of spans that the collector refused although
// it accepted the request. wait is the time after which the collector wants the next try;
// zero if it names none.
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
				Rejected json.Number `json:"rejectedSpans"` // a number of 64 bits, which JSON encodes as a string
			} `json:"partialSuccess"`
		}
		if json.NewDecoder(text).Decode(&answer) == nil {
			if n, err := answer.Partial.Rejected.Int64(); err == nil && n > 0 {
				rejected = int(min(n, maxBatch))
			}
		}
		return rejected, 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		_, _ = io.Copy(io.Discard, text) // reads the rest, so that the connection can be used again
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			wait = time.Duration(min(s, 60)) * time.Second
		}
		return 0, wait, &retryError{fmt.Errorf("the collector answers %s", resp.Status)}
	}
	return 0, 0, fmt.Errorf("the collector answers %s", resp.Status)
}
