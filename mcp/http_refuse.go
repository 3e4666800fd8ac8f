package mcp

import (
	"math"
	"net/http"
	"strconv"

	"belljar.dev/mcp/wire"
)

// busy refuses a request before any part of it has run; the client may send it again.
func (w *web) busy(rw http.ResponseWriter, status int, p posted, e *wire.Error) {
	p.served.limited(e)
	retryAfter(rw.Header(), e)
	if mark := w.server.cfg.HTTP.MarkNotStarted; mark != nil && w.server.sessions.over() {
		mark(rw.Header())
	}
	w.refuse(rw, status, p.id, p.era, e)
}

// stopping returns the error of a request that arrives while the server waits for earlier
// requests to end. No part of the request has run, and the client may send it again, to the
// next server.
func stopping() *wire.Error { return wire.OverLimit("shutdown", queueRetry, "%v", ErrShutdown) }

// retryAfter sets a header with the time after which a request may be tried again.
func retryAfter(h http.Header, e *wire.Error) {
	if data, ok := e.Data.(map[string]any); ok {
		if ms, ok := data["retryAfterMs"].(int64); ok {
			h.Set("Retry-After", strconv.Itoa(int(math.Ceil(float64(ms)/1000))))
		}
	}
}

func (w *web) refuse(rw http.ResponseWriter, status int, id []byte, in wire.Era, e *wire.Error) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	if _, err := rw.Write(e.Frame(id, in)); err != nil {
		w.server.cfg.Log.Debug("an answer was not sent", "error", err)
	}
}

// statusOf returns the status of a POST that was refused as a whole.
func statusOf(e *wire.Error) int {
	if e.Kind == wire.RateLimited {
		return http.StatusTooManyRequests
	}
	if e.Kind == wire.InternalError {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// statusOfNone returns the status of a request whose session cannot be used. After 404 a
// client must begin another session, so the status is not 404 for a session that may be
// resumed later.
func statusOfNone(e *wire.Error) int {
	if e != nil && e.Kind == wire.RateLimited {
		return http.StatusServiceUnavailable
	}
	return http.StatusNotFound
}

// notAllowed refuses a method (RFC 9110, 15.5.6).
func notAllowed(rw http.ResponseWriter, allow string) {
	rw.Header().Set("Allow", allow)
	http.Error(rw, "this method is not allowed here; use "+allow, http.StatusMethodNotAllowed)
}

// offered reports whether a path is served and a request has the right method. If not, the
// answer has been sent; why is its text for a path that is not served, which names another
// way to the server.
func offered(rw http.ResponseWriter, r *http.Request, served bool, why, method string) bool {
	switch {
	case !served:
		http.Error(rw, why, http.StatusNotFound)
	case r.Method != method:
		notAllowed(rw, method)
	default:
		return true
	}
	return false
}
