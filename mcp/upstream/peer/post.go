package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp/wire"
)

const (
	mostRefusal = 64 << 10 // most bytes that are read of the body of a response that is not an answer
	mostRest    = 4 << 10  // most bytes that are read after an answer, so that the connection can be used again
	restTime    = time.Second

	eventStream = "text/event-stream"
)

// do makes an HTTP request. extra is added to the headers of all requests.
func (w *web) do(ctx context.Context, method string, to *url.URL, body []byte, extra http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), content)
	if err != nil {
		return nil, withoutURL(err)
	}
	for name, values := range w.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	switch method {
	case http.MethodPost:
		r.Header.Set("Accept", "application/json, "+eventStream)
	case http.MethodGet:
		r.Header.Set("Accept", eventStream)
	}
	w.mu.Lock()
	if w.session != "" {
		r.Header.Set(wire.SessionHeader, w.session)
	}
	if w.info != nil {
		r.Header.Set(wire.RevisionHeader, w.info.Revision)
	}
	w.mu.Unlock()
	maps.Copy(r.Header, extra)
	resp, err := w.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	return resp, nil
}

// withoutURL returns an error of package http without its URL, whose query may contain a
// secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// exchange sends the request of a call and reads the response until the answer.
func (w *web) exchange(ctx context.Context, cl *call, line []byte) error {
	sent := sync.OnceFunc(func() { close(cl.sent) })
	if w.oldStream() != nil {
		err := w.post(ctx, line) // the answer comes on the old stream
		sent()
		return err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		if i.Err == nil {
			sent()
		}
	}})
	resp, err := w.do(ctx, http.MethodPost, w.url, line, w.mirrored(cl, line))
	if err != nil {
		return fmt.Errorf("%s: %w", cl.method, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return w.refused(resp, cl)
	}
	if id := resp.Header.Get(wire.SessionHeader); id != "" && cl.method == initializeMethod {
		if err := w.keepSession(id); err != nil {
			return err
		}
	}
	switch kind := mediaType(resp); kind {
	case "application/json":
		body, err := readBody(resp.Body, w.conn.cfg.Limits.Answer)
		if err != nil {
			return fmt.Errorf("%s: %w", cl.method, err)
		}
		w.conn.receive(ctx, body, cl)
		return w.unanswered(cl)
	case eventStream:
		return w.follow(ctx, cl, resp)
	default:
		return fmt.Errorf("%s: the server answered with HTTP status %d and content of type %q", cl.method, resp.StatusCode, excerpt([]byte(kind), mostShown))
	}
}

// unanswered returns the error of a call whose response has ended; nil if the response
// contained the answer.
func (w *web) unanswered(cl *call) error {
	if !w.conn.isOpen(cl) {
		return nil
	}
	return fmt.Errorf("%s: the server ended its response without an answer", cl.method)
}

// follow reads a stream of events until the answer to a call. A legacy server may end the
// stream before the answer, and continue it on another stream.
func (w *web) follow(ctx context.Context, cl *call, resp *http.Response) error {
	body := resp.Body
	defer func() { body.Close() }()
	ev := newEvents(body, w.conn.cfg.Limits.Answer)
	for tries := 0; ; tries++ {
		before := ev.id
		err := w.readStream(ctx, ev, cl)
		if !w.conn.isOpen(cl) {
			rest(body)
			return nil
		}
		if ev.id != before {
			tries = 0
		}
		if info := w.agreement(); info == nil || info.Era == wire.Modern || ev.id == "" || tries == mostRetries || w.conn.Err() != nil {
			if errors.Is(err, io.EOF) {
				return w.unanswered(cl)
			}
			return fmt.Errorf("%s: the server's response ended early: %w", cl.method, err)
		}
		if err := pause.For(ctx, min(max(ev.retry, 100*time.Millisecond), longestRetry)); err != nil {
			return err
		}
		again, err := w.do(ctx, http.MethodGet, w.url, nil, http.Header{wire.LastHeader: {ev.id}})
		if err != nil {
			continue
		}
		if again.StatusCode != http.StatusOK || mediaType(again) != eventStream {
			err := w.refused(again, cl)
			again.Body.Close()
			return err
		}
		body.Close()
		body = again.Body
		ev = &events{lines: newEvents(body, ev.most).lines, most: ev.most, id: ev.id, retry: ev.retry}
	}
}

// readStream passes on the messages of a stream until its end or, if from is not nil, until
// the end of that call. It returns why it has ended.
func (w *web) readStream(ctx context.Context, ev *events, from *call) error {
	for {
		e, err := ev.next()
		if _, large := errors.AsType[*wire.LongLineError](err); large {
			if from != nil {
				w.conn.tooLong(fmt.Append(nil, from.id), from)
			} else {
				w.conn.tooLong(nil, nil)
			}
			if w.conn.Err() != nil || from != nil && !w.conn.isOpen(from) {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if e.name != "" && e.name != "message" {
			continue
		}
		w.conn.receive(ctx, e.data, from)
		if from != nil && !w.conn.isOpen(from) {
			return nil
		}
		if err := w.conn.Err(); err != nil {
			return err
		}
	}
}

// listenLegacy reads a legacy server's stream of messages that belong to no call, and opens
// it again when it ends. A server need not have such a stream.
func (w *web) listenLegacy(ctx context.Context) {
	last := ""
	for tries := 0; tries < mostRetries; tries++ {
		extra := http.Header{}
		if last != "" {
			extra.Set(wire.LastHeader, last)
		}
		began := time.Now()
		wait := time.Second << tries
		resp, err := w.do(ctx, http.MethodGet, w.url, nil, extra)
		if err == nil {
			if resp.StatusCode != http.StatusOK || mediaType(resp) != eventStream {
				resp.Body.Close()
				w.conn.cfg.Log.Debug("an upstream server has no stream of its own", "status", resp.StatusCode)
				return
			}
			ev := newEvents(resp.Body, w.conn.cfg.Limits.Answer)
			ev.id = last
			err = w.readStream(ctx, ev, nil)
			resp.Body.Close()
			if ev.id != last || time.Since(began) > longestRetry {
				tries = -1
			}
			last, wait = ev.id, max(wait, min(ev.retry, longestRetry))
		}
		w.conn.cfg.Log.Debug("the stream of an upstream server has ended", "error", err)
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// post sends a message that the server does not answer.
func (w *web) post(ctx context.Context, line []byte) error {
	to := w.url
	if o := w.oldStream(); o != nil {
		var err error
		if to, err = o.wait(ctx); err != nil {
			return err
		}
	}
	resp, err := w.do(ctx, http.MethodPost, to, line, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return w.refused(resp, nil)
	}
	rest(resp.Body)
	return nil
}

// refused reads a response that is not an answer, and returns it as an error. cl is the
// call that the response refuses; it may be nil.
func (w *web) refused(resp *http.Response, cl *call) error {
	body, err := readBody(resp.Body, mostRefusal)
	if err != nil {
		body = nil
	}
	status := &StatusError{Status: resp.StatusCode, Challenge: resp.Header.Values("Www-Authenticate"), Text: excerpt(bytes.TrimSpace(body), mostShown)}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return status
	}
	w.mu.Lock()
	gone := resp.StatusCode == http.StatusNotFound && w.session != "" && w.info != nil
	w.mu.Unlock()
	if gone { // Streamable HTTP of the legacy era, "Session Management"
		w.conn.fail(ErrSession)
		return ErrSession
	}
	body = wire.TrimLine(body)
	if cl == nil || len(body) == 0 || wire.CheckJSON(body, w.conn.cfg.Limits.Depth) != nil {
		return status
	}
	m, bad := wire.ParseMessage(body)
	if bad != nil || !wire.IsObject(m.Failure) {
		return status
	}
	e := readError(m.Failure)
	if cl.method == initializeMethod || cl.method == discoverMethod && !e.isModern() {
		return status // the handshake needs the status
	}
	return e
}

// readOld reads the stream of an HTTP+SSE server until its end.
func (w *web) readOld(ctx context.Context, o *oldStream) error {
	resp, err := w.do(ctx, http.MethodGet, w.url, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || mediaType(resp) != eventStream {
		return w.refused(resp, nil)
	}
	ev := newEvents(resp.Body, w.conn.cfg.Limits.Answer)
	first, err := ev.next()
	if err != nil {
		return err
	}
	if first.name != "endpoint" {
		return errors.New("the first event of the server's stream is not its endpoint")
	}
	to, err := w.url.Parse(string(first.data))
	if err != nil || !sameOrigin(to, w.url) || to.User != nil {
		// Another host would get the calls, and the headers with the credentials.
		return errors.New("the endpoint that the server names is not on the server's own host")
	}
	o.endpoint = to
	close(o.ready)
	return w.readStream(ctx, ev, nil)
}

// rest reads the rest of a body, if it is short and arrives soon, so that the connection
// can be used again.
func rest(body io.ReadCloser) {
	soon := time.AfterFunc(restTime, func() { body.Close() })
	defer soon.Stop()
	_, _ = io.CopyN(io.Discard, body, mostRest) // after an error the connection is not used again
}
