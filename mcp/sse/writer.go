package sse

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/pause"
)

// Writer is a ResponseWriter for a handler that writes its own events, one in each Write.
// After KeepAlive, it writes comments between them. It is safe for concurrent use. Stop
// ends it.
type Writer struct {
	rw     http.ResponseWriter
	header http.Header // the handler's headers, until the headers are sent

	mu     sync.Mutex
	out    *response   // guarded by mu
	timer  *time.Timer // guarded by mu: for the next comment; nil before KeepAlive
	begun  bool        // guarded by mu: the headers are sent
	events bool        // guarded by mu: the response is a stream of events
	late   bool        // guarded by mu: the handler's answer is plain, but a comment was sent first
	over   bool        // guarded by mu
}

// NewWriter returns a Writer to rw.
func NewWriter(rw http.ResponseWriter) *Writer {
	return &Writer{rw: rw, header: make(http.Header), out: newResponse(rw)}
}

// KeepAlive makes the Writer write comments while the handler is silent: the first after
// Patience, which then begins the stream of events.
func (w *Writer) KeepAlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(Patience, w.alive)
}

// Stop ends the Writer. It must be called before the handler's request is over.
func (w *Writer) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.out.end()
}

// alive writes a comment.
func (w *Writer) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.begun && !w.events {
		return
	}
	if w.begun {
		_ = w.out.comment() // an error is not needed here: the handler's next write fails, or its context ends
	} else {
		w.begun, w.events = true, true
		_ = w.out.begin()
	}
	w.timer.Reset(pause.Together(keepAlive))
}

// Header returns the handler's headers.
func (w *Writer) Header() http.Header { return w.header }

// WriteHeader sends the handler's headers.
func (w *Writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(status)
}

// begin sends the headers, unless a comment has sent them already; the caller holds mu.
func (w *Writer) begin(status int) {
	isEvents := strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream")
	if w.begun {
		w.late = w.events && !isEvents
		return
	}
	w.begun, w.events = true, isEvents
	w.header.Del("Connection") // the handler does not decide whether the connection stays open; the go-sdk sets keep-alive
	maps.Copy(w.rw.Header(), w.header)
	if isEvents {
		Headers(w.rw.Header())
	}
	w.rw.WriteHeader(status)
}

// Write writes an event of the handler, or a part of another answer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begin(http.StatusOK)
	}
	b := p
	if w.late { // the stream of events has begun, so the answer is sent as an event
		b = Event("", bytes.TrimSpace(p))
	}
	if w.timer != nil && w.events {
		w.timer.Reset(pause.Together(keepAlive))
	}
	_ = w.out.ctl.SetWriteDeadline(time.Now().Add(writeWait))
	if _, err := w.rw.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError sends the client what was written.
func (w *Writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.ctl.Flush()
}
