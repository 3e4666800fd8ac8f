package fleet

import (
	"crypto/tls"
	"sync"
	"time"
)

// probeAfter is the time between the last write of a message and the tail probe. A link is long
// if its shortest round trip takes longer than that.
const probeAfter = 10 * time.Millisecond

// probeFrame is the answer to a PING of HTTP/2 (RFC 9113, 6.7) that was not sent. The other end
// writes nothing because of it: a front that had to answer would wait behind its uploads, and read
// nothing meanwhile.
const probeFrame = "\x00\x00\x08\x06\x01\x00\x00\x00\x00belljar\x00"

// prefaceSize is the number of bytes that a client of HTTP/2 sends before its first frame
// (RFC 9113, 3.4).
const prefaceSize = 24

// tailProbe sends a small frame after the last frame that one end of a long link has written. If
// the network loses the last packet of a message, no acknowledgement of a later packet shows it,
// and the kernel sends the packet again only after a timeout. The probe is that later packet. A
// kernel sends a probe of its own (RFC 8985, 7), but after two round trips.
//
// begin, end and writes may happen at the same time.
type tailProbe struct {
	mu     sync.Mutex  // held for each write, so that a probe does not split a frame
	timer  *time.Timer // guarded by mu: calls conn.probe; nil before begin and after end
	frames framing     // guarded by mu
	late   func() bool // guarded by mu: see conn.late
}

// begin records that the link uses HTTP/2 from now on, and that this end writes preface bytes
// before its first frame. send is called when a probe is due.
func (t *tailProbe) begin(preface int, send func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer, t.frames.rest = time.AfterFunc(time.Hour, send), preface
	t.timer.Stop() // until the first message: no frame may come before SETTINGS
}

// wrote records what was written. The caller holds t.mu.
func (t *tailProbe) wrote(p []byte) {
	if t.timer != nil && t.frames.follow(p) {
		t.timer.Reset(probeAfter)
	}
}

// end stops the probes, and waits for a write that has begun. The connection must be closed.
func (t *tailProbe) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// probe sends a tail probe if the other end has not acknowledged everything.
func (c *conn) probe() {
	if !c.tail.mu.TryLock() {
		return // the frame that is being written shows a loss as well as a probe would
	}
	defer c.tail.mu.Unlock()
	if c.tail.timer != nil && c.tail.frames.between() && c.tail.late() {
		_, _ = c.Conn.Write([]byte(probeFrame)) // the next read or write gets the same error
	}
}

// late reports whether the link is long and the other end has not acknowledged everything.
func (c *conn) late() bool { return c.long() && c.socket().owes() }

// overTLS returns the connection of TLS; nil if conn is over something else.
func (c *conn) overTLS() *tls.Conn {
	over, _ := c.Conn.(*tls.Conn)
	return over
}

// socket returns the socket below TLS; nil if TLS is over something else.
func (c *conn) socket() *socket {
	over := c.overTLS()
	if over == nil {
		return nil
	}
	s, _ := over.NetConn().(*socket)
	return s
}

// long reports whether the other end is far away, see [probeAfter].
func (c *conn) long() bool {
	s := c.socket()
	return s != nil && s.trip() > probeAfter
}

// framing follows what is written frame by frame (RFC 9113, 4.1).
type framing struct {
	head    [9]byte // length (3 bytes), type, flags and stream of a frame
	has     int     // number of bytes of head that are known
	rest    int     // number of bytes until the next frame begins
	message bool    // whether the frame is part of a request or of an answer
	headers bool    // whether headers have begun but not ended: no other frame may be between them
}

// Types of frames, and a flag of the two with headers (RFC 9113, 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameContinuation = 0x9

	endHeaders = 0x4
)

// follow records what was written. It reports whether a part of it belongs to a request or an
// answer, and not only to the connection.
func (f *framing) follow(p []byte) (message bool) {
	for len(p) > 0 {
		if f.rest > 0 {
			message = message || f.message
			n := min(f.rest, len(p))
			f.rest -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.has:], p)
		f.has += n
		p = p[n:]
		if f.has == len(f.head) {
			f.begin()
			message = message || f.message
		}
	}
	return message
}

// begin begins the frame of f.head.
func (f *framing) begin() {
	f.has, f.rest = 0, int(f.head[0])<<16|int(f.head[1])<<8|int(f.head[2])
	switch f.head[3] {
	case frameHeaders, frameContinuation:
		f.message, f.headers = true, f.head[4]&endHeaders == 0
	case frameData, frameReset:
		f.message = true
	default:
		f.message = false
	}
}

// between reports whether another frame may be written now.
func (f *framing) between() bool { return f.has == 0 && f.rest == 0 && !f.headers }
