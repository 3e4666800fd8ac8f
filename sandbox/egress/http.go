package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// headTime is how long the head of a request may take from its first byte.
const headTime = openingTime

// maxAnswerHead bounds the head of an answer, in bytes.
const maxAnswerHead = 256 << 10

// http relays requests and answers one after another. A request to the server is written anew
// from what was understood, never copied: two readers cannot disagree about where a request
// ends.
func (r *relay) http(ctx context.Context, scheme string) error {
	r.rec.Proto = "http"
	x := exchange{relay: r, scheme: scheme}
	for first := true; ; first = false {
		if !first {
			if ended, err := r.await(); ended || err != nil {
				return err
			}
		}
		h, err := readHead(r.client)
		if err != nil {
			return x.unreadable(err)
		}
		more, err := x.serve(ctx, h)
		if !first && errors.Is(err, errStale) {
			return nil // the client sends the request again, as it would to any server
		}
		if err != nil || !more {
			return err
		}
	}
}

// await waits for the client's next request, and reports whether the server has ended the
// connection meanwhile. The client must see that end before it sends a request that would
// be lost.
func (r *relay) await() (bool, error) {
	if r.client.in.Buffered() > 0 {
		return false, nil
	}
	var ended atomic.Bool
	var watch sync.WaitGroup
	watch.Go(func() {
		// Bytes that a server sends without a request also end the connection.
		if _, err := r.up.in.Peek(1); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			ended.Store(true)
			wake(r.client.conn)
		}
	})
	_, err := r.client.in.Peek(1)
	wake(r.up.conn)
	watch.Wait()
	if ended.Load() || errors.Is(err, io.EOF) {
		err = nil // readHead finds the end again
	}
	return ended.Load(), errors.Join(err, r.client.conn.SetReadDeadline(time.Time{}), r.up.conn.SetReadDeadline(time.Time{}))
}

// goneTime is how long a server may take to begin its answer after the client has closed
// its sending side. A few clients close it and wait for the answer; most clients that do so
// have left.
const goneTime = 15 * time.Second

// begins waits for the first byte of an answer. Meanwhile it notices a client that leaves,
// so that this client does not keep its slot.
func (x *exchange) begins(watched bool) error {
	if !watched || x.client.in.Buffered() > 0 || x.up.in.Buffered() > 0 {
		_, err := x.up.in.Peek(1)
		return err
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		switch _, err := x.client.in.Peek(1); {
		case errors.Is(err, io.EOF):
			x.up.conn.SetReadDeadline(time.Now().Add(goneTime)) //nolint:errcheck // a closed connection is not read any more
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			wake(x.up.conn)
		}
	})
	_, err := x.up.in.Peek(1)
	wake(x.client.conn)
	watch.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the client left before the server answered")
	}
	return errors.Join(err, x.client.conn.SetReadDeadline(time.Time{}), x.up.conn.SetReadDeadline(time.Time{}))
}

// readHead reads the head of the next request. It returns io.EOF if the client
// sends no further request.
func readHead(client *side) (head, error) {
	if _, err := client.in.Peek(1); err != nil {
		return head{}, err
	}
	if err := client.conn.SetReadDeadline(time.Now().Add(headTime)); err != nil {
		return head{}, err
	}
	var raw []byte
	for {
		line, err := client.in.ReadSlice('\n')
		if len(raw)+len(line) > maxHead {
			return head{}, &badRequest{431, fmt.Sprintf("the head of a request is longer than %d bytes", maxHead)}
		}
		raw = append(raw, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			return head{}, &badRequest{408, fmt.Sprintf("the head of a request did not arrive within %v", headTime)}
		case errors.Is(err, io.EOF):
			return head{}, bad("the head of a request is cut short")
		case err != nil:
			return head{}, err
		}
		// An empty line ends the head, whatever its line ends are; parseHead checks which
		// are right.
		if bytes.HasSuffix(raw, []byte("\n\r\n")) || bytes.HasSuffix(raw, []byte("\n\n")) || len(raw) <= 2 {
			break
		}
	}
	h, err := parseHead(raw)
	if err != nil {
		return head{}, err
	}
	return h, client.conn.SetReadDeadline(time.Time{})
}

// errStale says that the server had closed the connection when the request
// reached it.
var errStale = errors.New("the server closed the connection before it answered")

// exchange relays requests and their answers on one connection.
type exchange struct {
	*relay
	scheme string
}

// unreadable ends a connection on which no further request could be read.
func (x *exchange) unreadable(err error) error {
	wrong, ok := errors.AsType[*badRequest](err)
	if !ok {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	refused := x.refuse(x.rec, "http", wrong.reason, "Use a client that follows RFC 9112.")
	x.d.record(refused.Record)
	tell(x.client, wrong.status, refused.Record.Refusal())
	return nil
}

// deny records that a request is refused, and answers with the refusal.
func (x *exchange) deny(status int, h head, path, rule, reason, instead string) {
	rec := x.rec
	rec.Time, rec.Proto, rec.Method, rec.Path = time.Now(), "http", h.method, path
	refused := x.refuse(rec, rule, reason, instead)
	x.d.record(refused.Record)
	tell(x.client, status, refused.Record.Refusal())
}

// socketMethod is the method by which a WebSocket is judged, besides the GET that it begins with.
// Its messages are not requests. A rule that allows only GET would otherwise let a program send
// data over it.
const socketMethod = "WEBSOCKET"

// serve judges one request and answers it. It reports whether another request may follow.
func (x *exchange) serve(ctx context.Context, h head) (bool, error) {
	p, err := h.place(x.scheme)
	if err != nil && h.method != "CONNECT" {
		return false, x.unreadable(err)
	}
	switch {
	case h.method == "CONNECT":
		x.deny(http.StatusForbidden, h, "", "CONNECT", "a tunnel through this host would hide where it leads", "Connect to each host directly.")
		return false, nil
	case p.host != x.host || p.port != x.port:
		x.deny(http.StatusForbidden, h, p.path, "Host", fmt.Sprintf("its Host header names %s, and the connection was asked for %s", hostPort(p.host, p.port, ""), hostPort(x.host, x.port, "")), "Connect to each host by its own name.")
		return false, nil
	}
	if expects := h.options("Expect"); len(expects) > 0 && !slices.Equal(expects, []string{"100-continue"}) {
		return false, x.unreadable(&badRequest{http.StatusExpectationFailed, "a request expects something other than 100-continue"})
	}
	extra := x.guard()
	if x.requests() || extra.narrow {
		for _, f := range h.fields {
			if overrides(f.name) {
				x.deny(http.StatusForbidden, h, p.path, "requests", "the profile has rules about the requests to it, or secrets for some of them, and some servers take a request with the header "+policies.Clip(f.name, maxShown)+" for another request", "Leave the header out.")
				return false, nil
			}
		}
	}
	methods := []string{h.method}
	if h.websocket() {
		methods = append(methods, socketMethod)
	}
	for _, m := range methods {
		if err := x.judge(m, p.path); err != nil {
			refused, ok := errors.AsType[*Refused](err)
			if !ok {
				return false, err
			}
			tell(x.client, http.StatusForbidden, refused.Record.Refusal())
			return false, nil
		}
	}
	fields, err := h.handOn()
	if err != nil {
		return false, x.unreadable(err)
	}
	if err := x.addSecrets(ctx, &extra, x.scheme, methods, p.path); err != nil {
		x.deny(http.StatusBadGateway, h, p.path, "secrets", err.Error(), "Tell the person you work for.")
		return false, nil
	}
	q := request{head: h, place: p, extra: extra, began: time.Now()}
	return x.carry(q, extra.guarded(fields))
}

// request is one request that was let through.
type request struct {
	head
	place
	extra added
	began time.Time
}

// carry sends one request and relays its answer.
func (x *exchange) carry(q request, fields []field) (bool, error) {
	websocket := q.websocket()
	if err := x.send(q, fields, websocket); err != nil {
		if isGone(err) {
			err = errStale
		}
		x.served(q.began, q.method, q.path, q.extra.names, 0, 0, err)
		return false, err
	}
	var b *body
	if q.length != 0 {
		b = x.sendBody(q.length)
	}
	resp, err := x.answer(q, websocket)
	if err != nil {
		b.stop(x.relay)
		sent, _ := b.wait() // the error of the answer counts, not that of the body
		x.served(q.began, q.method, q.path, q.extra.names, sent, 0, err)
		return false, err
	}
	defer resp.Body.Close()
	if reason, instead := q.extra.unclear(q.method, resp); reason != "" {
		b.stop(x.relay)
		// Closing the body would otherwise read the rest of the answer, which may not end.
		x.up.conn.Close()
		x.served(q.began, q.method, q.path, q.extra.names, 0, 0, nil)
		x.deny(http.StatusBadGateway, q.head, q.path, "secrets", reason, instead)
		return false, nil
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		err := x.goOn(q, resp)
		return false, err
	}
	// If the server answers before it has the whole body, the next bytes on the client's
	// connection are the rest of the body.
	whole := b == nil || b.read.Load()
	last := q.last() || resp.Close || !whole
	received, err := x.give(q, resp, last)
	if err != nil {
		x.shut(err)
	}
	if !whole || err != nil {
		b.stop(x.relay)
	}
	sent, sendErr := b.wait()
	x.served(q.began, q.method, q.path, q.extra.names, sent, received, err)
	if err == nil && last {
		settle(x.client)
	}
	return err == nil && sendErr == nil && !last, err
}

// send writes the head of a request.
func (x *exchange) send(q request, fields []field, websocket bool) error {
	_, err := x.up.conn.Write(q.write(x.scheme, fields, websocket))
	return err
}

// write returns the head of the request as it is sent: the parts that were understood, and
// the fields that are passed on.
func (q request) write(scheme string, fields []field, websocket bool) []byte {
	w := bytes.NewBuffer(make([]byte, 0, 1024))
	fmt.Fprintf(w, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.method, q.place.target, hostPort(q.place.host, q.port, scheme))
	for _, f := range fields {
		fmt.Fprintf(w, "%s: %s\r\n", f.name, f.value)
	}
	switch {
	case q.length < 0:
		w.WriteString("Transfer-Encoding: chunked\r\n")
	case q.length > 0 || len(q.values("Content-Length")) > 0:
		fmt.Fprintf(w, "Content-Length: %d\r\n", q.length)
	}
	if websocket {
		w.WriteString("Connection: Upgrade\r\nUpgrade: websocket\r\n")
	}
	w.WriteString("\r\n")
	return w.Bytes()
}

// answer reads the head of the answer. It passes on "100 Continue" before it, if the client
// waits for that; other interim answers are dropped.
func (x *exchange) answer(q request, websocket bool) (*http.Response, error) {
	const maxInterim = 16
	for range maxInterim {
		x.up.limit.N = maxAnswerHead
		if err := x.begins(q.length == 0); err != nil {
			if errors.Is(err, io.EOF) || isGone(err) {
				return nil, errStale
			}
			return nil, err
		}
		resp, err := http.ReadResponse(x.up.in, &http.Request{Method: q.method})
		cut := x.up.limit.N <= 0
		x.up.limit.N = math.MaxInt64
		if err != nil {
			if cut {
				return nil, fmt.Errorf("read the answer of %s: its head is longer than %d bytes", x.host, maxAnswerHead)
			}
			if len(q.extra.guards) > 0 {
				err = untold{err}
			}
			return nil, fmt.Errorf("read the answer of %s: %w", x.host, err)
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols && (!websocket || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket")):
			return nil, fmt.Errorf("read the answer of %s: it changes to a protocol that was not requested", x.host)
		case resp.StatusCode == http.StatusSwitchingProtocols, resp.StatusCode >= 200:
			return resp, nil
		case resp.StatusCode == http.StatusContinue && q.minor > 0 && len(q.values("Expect")) > 0:
			if _, err := io.WriteString(x.client.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("read the answer of %s: more than %d interim answers", x.host, maxInterim)
}

// untold hides the text of an error that may repeat what a server has sent.
type untold struct{ error }

func (untold) Error() string   { return "it is not a valid answer of HTTP/1.1, or is cut short" }
func (e untold) Unwrap() error { return e.error }
