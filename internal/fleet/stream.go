package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// stream is an answer that is a stream of events.
type stream struct {
	front *Front
	from  io.ReadCloser
	fl    *flight
	link  *link
	cut   cutter
	piece []byte // what has been read
}

// stream is the stream of an answer, whose headers have been sent.
func (f *Front) stream(res *http.Response, fl *flight, l *link) *stream {
	res.Header, res.Request = nil, nil // net/http has the answer for as long as it lasts
	return &stream{front: f, from: res.Body, fl: fl, link: l, piece: make([]byte, firstPiece), cut: cutter{
		message: fl.message, protocol: f.cfg.Protocol,
		take:    func() bool { return f.answers.take(fl.Tenant, maxBuffered) },
		release: func() { f.answers.release(fl.Tenant, maxBuffered) },
	}}
}

// copy sends the events of a stream, each as a whole, so that one can be put behind them. flush
// sends what has been written. If copy returns false, the client must not take what it got for
// the whole.
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
		if n == len(s.piece) && n < pieceSize { // a stream that says much
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

// ended ends a stream that cannot be read any more: with the answer in the place of a worker
// that is gone, if the client has none. It reports whether the stream has all that it can have.
func (s *stream) ended(w io.Writer, flush func() error, err error) bool {
	m := s.fl.message
	switch {
	case errors.Is(err, io.EOF):
		return true
	case s.cut.torn || m.ID == nil || s.cut.answered:
		return false
	case !s.link.over(): // the client has gone, or the worker ends the answer without reason
		return false
	}
	s.front.cfg.Log.Warn("a worker is gone while it had a request", "worker", s.link.Name, "place", s.fl.Place, "method", m.Method, "tool", m.Tool)
	frame := s.front.cfg.Protocol.Lost(m)
	_, err = w.Write(append(append([]byte("event: message\ndata: "), frame...), "\n\n"...))
	return err == nil && flush() == nil
}

// detach takes the connection of a client from net/http whose stream lasts; nil where that
// cannot be. As long as a handler runs, net/http keeps three buffers of 10 KiB together, the
// request and its headers, and the handler a stack for all that is above it.
func detach(w http.ResponseWriter, r *http.Request, fl *flight) net.Conn {
	if !fl.message.Lasts || fl.GoesOn == nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 {
		return nil
	}
	control := http.NewResponseController(w)
	if control.Flush() != nil { // the headers, which say that the body comes in chunks
		return nil
	}
	conn, _, err := control.Hijack()
	if err != nil { // net/http goes on
		return nil
	}
	return conn
}

// goOn sends a stream over a connection that net/http has given away, and returns at once. over
// is called at its end.
func (s *stream) goOn(conn net.Conn, over func()) {
	answered := s.fl.GoesOn()
	c := &chunked{conn: conn}
	go func() { // for which Close waits
		defer s.front.lasting.end(conn)
		var watching sync.WaitGroup
		watching.Go(func() {
			discard(conn)
			s.fl.end() // the client has gone
		})
		if s.copy(c, func() error { return nil }) {
			_ = c.end()
		}
		conn.Close()
		watching.Wait()
		over()
		answered(c.sent)
	}()
}

// discard reads until the other end has gone. A client says nothing more while it has a stream.
func discard(conn net.Conn) {
	var some [64]byte
	for {
		if _, err := conn.Read(some[:]); err != nil {
			return
		}
	}
}

// chunked is the body of an answer of HTTP/1.1 (RFC 9112, 7.1).
type chunked struct {
	conn net.Conn
	sent int64 // of the body
}

// Write sends a chunk.
func (c *chunked) Write(p []byte) (int, error) {
	if len(p) == 0 { // which would be the end
		return 0, nil
	}
	text := append(fmt.Appendf(make([]byte, 0, len(p)+16), "%x\r\n", len(p)), p...)
	if _, err := c.conn.Write(append(text, "\r\n"...)); err != nil {
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
