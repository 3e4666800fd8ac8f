package sse

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// writeWait is how long a client may take to read what was written to it.
const writeWait = 30 * time.Second

// response writes to one client.
type response struct {
	rw    http.ResponseWriter
	ctl   *http.ResponseController
	begun bool // the response has begun, as a stream of events
}

func newResponse(rw http.ResponseWriter) *response {
	return &response{rw: rw, ctl: http.NewResponseController(rw)}
}

// Headers sets the headers of a stream of events: no proxy may store or change it, or delay
// it in a buffer (nginx reads X-Accel-Buffering).
func Headers(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Comment is a comment of a stream. Clients ignore it, and it shows proxies that the
// connection is alive.
const Comment = ":\n\n"

// begin sends the headers, and a comment, since some proxies hold headers back until
// the body begins.
func (w *response) begin() error {
	w.begun = true
	Headers(w.rw.Header())
	w.rw.WriteHeader(http.StatusOK)
	return w.comment()
}

func (w *response) comment() error { return w.write([]byte(Comment)) }

// Event returns a message in the form of an event. id may be empty, and frame nil.
func Event(id string, frame []byte) []byte {
	b := make([]byte, 0, len(frame)+len(id)+32)
	if frame != nil {
		b = append(b, "event: message\n"...)
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	return append(append(append(b, "data: "...), frame...), "\n\n"...)
}

func (w *response) event(id string, e event) error {
	for _, o := range e.with {
		o.Writing()
	}
	err := w.write(Event(id, e.frame))
	for _, o := range e.with {
		o.Done(err == nil)
	}
	return err
}

// retry asks the client to wait before it reconnects; zero sends nothing.
func (w *response) retry(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	return w.write([]byte("retry: " + strconv.FormatInt(max(1, wait.Milliseconds()), 10) + "\n\n"))
}

// plain writes an answer as JSON. For an answer without content it writes only the status
// 202.
func (w *response) plain(e event, status func(http.Header) int) error {
	if e.frame == nil {
		w.rw.WriteHeader(http.StatusAccepted)
		return nil
	}
	h := w.rw.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(e.frame)))
	h.Set("Cache-Control", "no-store")
	w.rw.WriteHeader(status(h))
	for _, o := range e.with {
		o.Writing()
	}
	err := w.write(e.frame)
	for _, o := range e.with {
		o.Done(err == nil)
	}
	return err
}

// write writes b and flushes, both within writeWait.
func (w *response) write(b []byte) error {
	_ = w.ctl.SetWriteDeadline(time.Now().Add(writeWait)) // an httptest.ResponseRecorder has no deadlines
	if _, err := w.rw.Write(b); err != nil {
		return err
	}
	if err := w.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end removes the write deadline, so that the connection can serve its next request.
func (w *response) end() { _ = w.ctl.SetWriteDeadline(time.Time{}) }
