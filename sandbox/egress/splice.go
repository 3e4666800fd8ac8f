package egress

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// chunk is how many bytes go in one direction before they are counted. A connection can
// exceed the limit on bytes by as many. Within a chunk, the kernel itself moves the bytes
// (splice(2)).
const chunk = 256 << 10

// halfTime is how long one direction may be silent after the other one has ended: a
// side that has ended its direction has most often left, for example because the
// client was killed.
const halfTime = time.Minute

var errHalf = errors.New("one side has closed its end and the other one is silent")

// readers and buffers are kept for the next connection.
var (
	readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxOpening+512) }}
	buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
)

// side is one end of a relay, with the bytes that were read from it but not used.
type side struct {
	conn  net.Conn
	in    *bufio.Reader
	limit *io.LimitedReader // bounds what may still be read through in
}

// newSide returns the side of a connection. A connection to the outside gets the flow that
// counts its bytes.
func newSide(c net.Conn, count *flow) *side {
	if count != nil {
		c = &metered{Conn: c, flow: count}
	}
	s := &side{conn: c, limit: &io.LimitedReader{R: c, N: math.MaxInt64}}
	in, ok := readers.Get().(*bufio.Reader)
	if !ok {
		in = bufio.NewReaderSize(nil, maxOpening+512)
	}
	in.Reset(s.limit)
	s.in = in
	return s
}

// free returns the buffer. The side must not be used afterwards.
func (s *side) free() {
	if s.in != nil {
		s.in.Reset(nil)
		readers.Put(s.in)
		s.in = nil
	}
}

// metered is a connection to the outside, whose bytes its flow counts and which
// the flow's owner ends.
type metered struct {
	net.Conn
	flow *flow
}

func (c *metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		err = cmp.Or(c.flow.count(0, int64(n)), err)
	}
	return n, err
}

func (c *metered) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		err = cmp.Or(c.flow.count(int64(n), 0), err)
	}
	return n, err
}

// CloseWrite closes the sending direction.
func (c *metered) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the sending direction of a connection.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// isGone reports whether the other side has closed the connection.
func isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOTCONN)
}

// way is one direction of a relay. first, if not nil, is called before the rest is
// copied.
type way struct {
	to, from *side
	first    func() error
}

// ways returns both directions, without a function that is called first.
func (r *relay) ways() (out, back way) {
	return way{to: r.up, from: r.client}, way{to: r.client, from: r.up}
}

// splice relays bytes in both directions until both have ended, or one has failed. It
// passes on the end of one direction and leaves the other direction open.
func (f *flow) splice(out, back way) error {
	var err error
	var half atomic.Pointer[time.Time]
	var wait sync.WaitGroup
	wait.Go(func() { err = f.oneWay(back, &half) })
	sent := f.oneWay(out, &half)
	wait.Wait()
	return cmp.Or(sent, err)
}

// oneWay relays what one side sends. If it fails, it shuts the flow, which ends the
// other direction. half is the time at which the first direction has ended.
func (f *flow) oneWay(w way, half *atomic.Pointer[time.Time]) error {
	var err error
	if w.first != nil {
		err = w.first()
	}
	if err == nil {
		err = f.pour(w.to, w.from, half)
	}
	now := time.Now()
	half.CompareAndSwap(nil, &now)
	if err == nil {
		err = closeWrite(w.to.conn)
		if errors.Is(err, net.ErrClosed) || isGone(err) {
			err = nil // the other direction has ended before
		}
	}
	if err != nil {
		f.shut(err)
	}
	return err
}

// pour copies what one side sends, until its end. It begins with the bytes that were
// already read from the side.
func (f *flow) pour(to, from *side, half *atomic.Pointer[time.Time]) error {
	if n := from.in.Buffered(); n > 0 {
		seen, err := from.in.Peek(n)
		if err != nil {
			return err
		}
		if _, err = to.conn.Write(seen); err != nil {
			return err
		}
		if _, err = from.in.Discard(n); err != nil {
			return err
		}
	}
	dst, out := bare(to.conn)
	src, in := bare(from.conn)
	// The flow sees bytes only when they are counted. So they must be counted in time even
	// if a chunk takes long.
	tick := min(max(f.snap.limits.Idle/4, 5*time.Millisecond), halfTime/4)
	for last := time.Now(); ; {
		if err := src.SetReadDeadline(time.Now().Add(tick)); err != nil {
			return err
		}
		n, err := copyChunk(dst, src)
		if n > 0 && (out || in) {
			sent, received := n, int64(0)
			if in {
				sent, received = 0, n
			}
			if err := f.count(sent, received); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case n > 0:
			last = time.Now()
		case time.Since(last) > halfTime:
			if ended := half.Load(); ended != nil && time.Since(*ended) > halfTime {
				return errHalf
			}
		}
	}
}

// bare returns the connection beneath a metered one, so that the kernel can move its bytes,
// and reports whether c was metered.
func bare(c net.Conn) (net.Conn, bool) {
	if m, ok := c.(*metered); ok {
		return m.Conn, true
	}
	return c, false
}

// copyChunk copies up to a chunk. Its error is io.EOF at the end, and
// os.ErrDeadlineExceeded when the read deadline passed. No bytes are lost then,
// because writes have no deadline.
func copyChunk(dst, src net.Conn) (int64, error) {
	to, tcp := dst.(*net.TCPConn)
	from, both := src.(*net.TCPConn)
	if tcp && both {
		n, err := to.ReadFrom(&io.LimitedReader{R: from, N: chunk})
		if err == nil && n < chunk {
			err = io.EOF
		}
		return n, err
	}
	buf, free := buffer()
	defer free()
	n, err := src.Read(buf)
	if n > 0 {
		if _, err := dst.Write(buf[:n]); err != nil {
			return int64(n), err
		}
	}
	return int64(n), err
}

// buffer lends 32 KiB until free is called.
func buffer() (buf []byte, free func()) {
	b, ok := buffers.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 32<<10)
		b = &fresh
	}
	return *b, func() { buffers.Put(b) }
}
