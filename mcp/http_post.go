package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"belljar.dev/mcp/wire"
)

// posted is what the body of a POST contains.
type posted struct {
	body     []byte
	message  *wire.Message // the only message; nil if body is a batch
	id       []byte        // id with which a refusal of the body is answered; nil if the body contains no such id
	method   string        // method of the first message
	requests int
	era      wire.Era
	served   *Served // receives the outcome of the request; may be nil
}

// readPost reads what a client sent, and checks everything that needs no session. If the
// request is refused, the answer has been sent, and ok is false.
func (w *web) readPost(rw http.ResponseWriter, r *http.Request) (p posted, ok bool) {
	body, ok := w.readBody(rw, r)
	if !ok {
		return p, false
	}
	p, bad := w.parse(r, body)
	if bad == nil {
		p.served = w.serves(r.Context(), p)
		bad = p.misplaced()
	}
	if bad != nil {
		w.refuse(rw, http.StatusBadRequest, p.id, p.era, bad)
		return p, false
	}
	if !w.scoped(rw, r, p) {
		return p, false
	}
	if p.requests > 0 && w.server.sessions.over() {
		w.busy(rw, http.StatusServiceUnavailable, p, stopping())
		return p, false
	}
	return p, true
}

// readBody reads the body of a request within the limits of size and time. If the body
// cannot be read, the answer has been sent, and ok is false.
func (w *web) readBody(rw http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		http.Error(rw, "the body must not be compressed", http.StatusUnsupportedMediaType)
		return nil, false
	}
	limit := w.server.cfg.Limits.Line
	size := limit // for a body without a stated length
	if r.ContentLength >= 0 {
		size = int(min(r.ContentLength, int64(limit)))
	}
	tenant := w.server.cfg.callerOf(r.Context()).Tenant
	room := w.server.web.inFlight
	if !room.hold(tenant, size) { // checked first, because a slow client keeps this memory in use
		w.busy(rw, http.StatusTooManyRequests, posted{}, bytesInFlight())
		return nil, false
	}
	defer room.hold(tenant, -size)
	deadline := func(time.Time) error { return nil } // the front has set a deadline
	if !w.server.cfg.Guarded {
		deadline = http.NewResponseController(rw).SetReadDeadline
	}
	_ = deadline(time.Now().Add(w.server.cfg.Limits.Body)) // the recorder of a test supports no deadlines
	b, err := readAll(http.MaxBytesReader(rw, r.Body, int64(limit)), int(min(max(r.ContentLength, 0), int64(limit))))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		_ = deadline(time.Time{})             // a later read of the connection must not fail
		if !w.server.cfg.holds(r.Context()) { // the token may have expired while the body arrived
			w.challenge(rw, r, errLapsed)
			return nil, false
		}
		return b, true
	// After an error the deadline stays: before net/http writes the answer, it reads the
	// rest of the body, and would wait for it without end.
	case large:
		w.refuse(rw, http.StatusRequestEntityTooLarge, wire.RequestIDBefore(b), wire.Legacy,
			wire.Errorf(wire.InvalidRequest, "invalid request: the message is larger than %d bytes", limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		rw.Header().Set("Connection", "close")
		http.Error(rw, "the body did not arrive in time", http.StatusRequestTimeout)
	default:
		http.Error(rw, "read the request: "+err.Error(), http.StatusBadRequest)
	}
	return nil, false
}

// readAll reads a body to its end. size is the length that the client announced. If there
// is an error, readAll also returns what it has read.
func readAll(body io.Reader, size int) (b []byte, err error) {
	b = make([]byte, 0, size+1) // one more byte, to find the end
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		case len(b) == cap(b):
			b = slices.Grow(b, bytes.MinRead)
		}
	}
}

// parse checks a body in the same way as the guard checks a line.
func (w *web) parse(r *http.Request, body []byte) (p posted, bad *wire.Error) {
	body = wire.TrimLine(body)
	p.body = body
	if r.Header.Get(wire.RevisionHeader) >= wire.ModernRevision {
		p.era = wire.Modern
	}
	if len(body) == 0 {
		return p, wire.Errorf(wire.InvalidRequest, "invalid request: the body is empty")
	}
	if bad := wire.CheckLine(body, w.server.cfg.Limits.Depth); bad != nil {
		p.id = wire.RequestID(body)
		return p, bad
	}
	if body[0] == '[' {
		return p, w.parseBatch(r, &p)
	}
	p.message, bad = wire.ParseMessage(body)
	p.method, p.id, p.era = p.message.Method, p.message.ID, max(p.era, p.message.Era())
	if bad == nil && p.message.IsRequest() {
		p.requests = 1
	}
	return p, bad
}

// parseBatch checks a batch. Only clients of one legacy revision may send batches.
func (w *web) parseBatch(r *http.Request, p *posted) (bad *wire.Error) {
	if revision := r.Header.Get(wire.RevisionHeader); revision != "" && revision != wire.BatchRevision {
		if ids := wire.RequestIDs(p.body); len(ids) == 1 { // an answer can have only one id
			p.id = ids[0]
		}
		return wire.Errorf(wire.InvalidRequest, "invalid request: batches exist in revision %s only", wire.BatchRevision)
	}
	most := w.server.cfg.Limits.Running
	wire.Elements(p.body, func(raw []byte) bool {
		var m *wire.Message
		m, bad = wire.ParseMessage(bytes.TrimSpace(raw))
		if p.method == "" {
			p.method, p.id = m.Method, m.ID
		}
		if m.IsRequest() {
			p.requests++
		}
		switch {
		case bad != nil:
		case m.Era() == wire.Modern:
			bad = wire.Errorf(wire.InvalidRequest, "invalid request: batches exist in revision %s only", wire.BatchRevision)
		case p.requests > most:
			bad = wire.Errorf(wire.InvalidRequest, "invalid request: a batch contains at most %d requests", most)
		}
		return bad == nil
	})
	if bad == nil && p.method == "" && p.requests == 0 {
		bad = wire.Errorf(wire.InvalidRequest, "invalid request: the batch is empty")
	}
	return bad
}

// checkRepeats decodes the header Mcp-Name of a modern request. It refuses a header that
// cannot be decoded, and one that names another task than the body of a request of tasks/*.
// The sdk compares this header with the body of most other requests, and the method and the
// revision of all requests.
func (w *web) checkRepeats(r *http.Request, p posted) *wire.Error {
	sent := r.Header.Get(wire.NameHeader)
	name, ok := wire.DecodeHeader(sent)
	if !ok {
		return wire.Errorf(wire.HeaderMismatch, "the header %s is not valid base64 of UTF-8", wire.NameHeader)
	}
	if name != sent {
		r.Header.Set(wire.NameHeader, name)
	}
	if p.message != nil && name != "" && strings.HasPrefix(p.method, "tasks/") && name != wire.Text(wire.Member(p.message.Params, "taskId")) {
		return wire.Errorf(wire.HeaderMismatch, "the header %s and params.taskId must name the same task", wire.NameHeader)
	}
	return nil
}

// checkParamHeaders refuses the call of an upstream's tool if headers that repeat arguments
// differ from the body. It searches for the tool in the same way as the call, and reads all
// arguments, so it is part of the request's turn. A client that did not get the tool from a
// list cannot know these headers.
func (w *web) checkParamHeaders(ctx context.Context, session *Session, h http.Header, p posted) (bad *wire.Error) {
	if p.message == nil || p.method != "tools/call" {
		return nil
	}
	gate, name := w.server.gate, wire.Text(wire.Member(p.message.Params, "name"))
	t, known := gate.find(ctx, session, name)
	if !known || t.repeats == nil || gate.hides(ctx, session, t) {
		return nil // a hidden tool is refused like a tool that does not exist
	}
	unknowing := t.unlisted || name != t.info.Name
	t.repeats.Each(wire.Member(p.message.Params, "arguments"), func(header string, argument []byte) bool {
		values := h.Values(header)
		says, ok := wire.DecodeHeader(h.Get(header))
		switch {
		case len(values) == 0 && (unknowing || len(argument) == 0 || argument[0] == 'n'):
			// There is nothing to repeat, or the client has not seen the schema.
		case len(values) == 0:
			bad = wire.Errorf(wire.HeaderMismatch, "the header %s is missing: it must repeat an argument of the tool", header)
		case len(values) > 1 || !ok || !wire.HeaderSays(says, argument):
			bad = wire.Errorf(wire.HeaderMismatch, "the header %s and its argument must have the same value", header)
		}
		return bad == nil
	})
	return bad
}

// withBody restores the body of a request, for the go-sdk.
func withBody(ctx context.Context, r *http.Request, body []byte) *http.Request {
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return r
}
