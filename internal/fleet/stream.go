package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Bounds of a stream whose connection a front has hijacked.
const (
	// maxUnasked is how many bytes a client may send while it has such a stream. It has no
	// reason to send any, because the connection ends with the stream.
	maxUnasked = 4 << 10
	// closeGrace is how long the end of such a stream waits for a client that does not
	// read.
	closeGrace = 2 * time.Second
)

// stream is an answer that is a stream of events.
type stream struct {
	front *Front
	from  io.ReadCloser
	fl    *flight
	link  *link
	cut   cutter
	piece []byte // buffer for reading
	code  int    // HTTP status of the answer
}

// stream returns the stream of an answer. Its headers must have been sent.
func (f *Front) stream(res *http.Response, fl *flight, l *link) *stream {
	res.Header, res.Request = nil, nil // net/http keeps the response until the stream ends
	return &stream{front: f, from: res.Body, fl: fl, link: l, piece: make([]byte, firstPiece), code: res.StatusCode, cut: cutter{
		message: fl.message, protocol: f.cfg.Protocol,
		acquire: func() bool { return f.answers.acquire(fl.Tenant, maxBuffered) },
		release: func() { f.answers.release(fl.Tenant, maxBuffered) },
	}}
}

// copy sends the events of a stream, each event as a whole, so that an event of the front
// can be added after them. flush sends what was written. If copy returns false, the client
// must not take what it got for the whole stream.
func (s *stream) copy(w io.Writer, flush func() error) bool {
	defer s.close()
	if flush() != nil {
		return false
	}
	for {
		n, err := s.from.Read(s.piece)
		if events := s.cut.next(s.piece[:n]); len(events) > 0 {
			if _, err := w.Write(events); err != nil || flush() != nil {
				return false
			}
		}
		s.cut.written()
		if n == len(s.piece) && n < pieceSize { // the stream sends much, so a larger buffer is useful
			s.piece = make([]byte, pieceSize)
		}
		if err != nil {
			return s.ended(w, flush, err)
		}
	}
}

func (s *stream) close() {
	s.cut.free()
	s.link.running.Add(-1)
	s.from.Close()
}

// ended ends a stream that cannot be read any more. If the worker is lost and the client
// has no answer, ended sends an answer in place of the worker. It reports whether the
// stream is complete.
func (s *stream) ended(w io.Writer, flush func() error, err error) bool {
	m := s.fl.message
	switch {
	case errors.Is(err, io.EOF):
		return true
	case s.cut.torn || m.ID == nil || s.cut.answered:
		return false
	case !s.link.over(): // the client has disconnected, or the worker has ended the answer without a reason
		return false
	}
	s.front.cfg.Log.Warn("a worker disconnected while it had a request", "worker", s.link.Name, "place", s.fl.Place, "method", m.Method, "tool", m.Tool)
	frame := s.front.cfg.Protocol.Lost(m)
	_, err = w.Write(append(append([]byte("event: message\ndata: "), frame...), "\n\n"...))
	return err == nil && flush() == nil
}

// hijack takes over from net/http the connection of a client whose stream lasts. While a
// handler runs, net/http keeps three buffers (10 KiB together), the request with its
// headers, and the stack of all handlers above. The error is [http.ErrNotSupported] if
// net/http must keep the connection. After any other error nothing can be sent on it.
func (s *stream) hijack(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	bodiless := s.code != http.StatusOK || r.Method == http.MethodHead // or the answer may have no body
	if !s.fl.message.Lasts || s.fl.Hijacked == nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || bodiless {
		return nil, http.ErrNotSupported
	}
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil { // sends the headers, which say that the body is chunked
		return nil, err
	}
	conn, _, err := control.Hijack()
	return conn, err
}

// sendHijacked sends a stream over a hijacked connection, and returns immediately. over is
// called when the stream ends. When ctx ends, a client that does not read has [closeGrace].
func (s *stream) sendHijacked(ctx context.Context, conn net.Conn, over func()) {
	answered := s.fl.Hijacked()
	c := &chunked{conn: conn}
	go func() { // Close waits for this goroutine
		defer s.front.hijacked.end(conn)
		defer func() { answered(c.sent) }()
		defer over()
		var watching sync.WaitGroup
		defer watching.Wait()
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now().Add(closeGrace)) })()
		watching.Go(func() {
			discard(conn)
			s.fl.end() // the client has disconnected
		})
		defer func() {
			if p := recover(); p != nil { // the worker may send hostile data
				s.front.cfg.Log.Error("a panic has ended a stream", "worker", s.link.Name, "place", s.fl.Place, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if s.copy(c, func() error { return nil }) {
			_ = c.end()
		}
	}()
}

// discard reads until the other end has disconnected, or has sent more than [maxUnasked].
func discard(conn net.Conn) {
	var some [64]byte
	for said := 0; said <= maxUnasked; {
		n, err := conn.Read(some[:])
		if err != nil {
			return
		}
		said += n
	}
}

// chunked is the body of an answer of HTTP/1.1 (RFC 9112, 7.1).
type chunked struct {
	conn net.Conn
	sent int64 // bytes of the body that were sent
}

// Write sends a chunk. A large chunk is not copied.
func (c *chunked) Write(p []byte) (int, error) {
	if len(p) == 0 { // an empty chunk would be the end of the body
		return 0, nil
	}
	pieces := net.Buffers{fmt.Appendf(nil, "%x\r\n", len(p)), p, []byte("\r\n")}
	if len(p) <= pieceSize {
		pieces = net.Buffers{fmt.Appendf(make([]byte, 0, len(p)+16), "%x\r\n%s\r\n", len(p), p)}
	}
	if _, err := pieces.WriteTo(c.conn); err != nil {
		return 0, err
	}
	c.sent += int64(len(p))
	return len(p), nil
}

// end sends the end of the body.
func (c *chunked) end() error {
	_, err := c.conn.Write([]byte("0\r\n\r\n"))
	return err
}
