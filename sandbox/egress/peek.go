package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// opaque relays bytes without reading them.
func (r *relay) opaque() error {
	if r.requests() {
		return r.refuse(r.rec, "requests", "the profile has rules about the requests to it, and the connection does not begin with an HTTP/1 request", "Use HTTP/1.1 without TLS, or TLS if the profile has tls: intercept.")
	}
	return r.splice(r.ways())
}

// first finds out the protocol of the connection. If the policy has no rules about
// requests, a server that sends first makes the connection opaque: neither TLS nor
// HTTP/1 begins like that, and the client may wait for these bytes.
func (r *relay) first() (opening, error) {
	var spoke atomic.Bool
	if r.requests() {
		return r.peek(&spoke)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		if _, err := r.up.in.Peek(1); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			spoke.Store(true)
			wake(r.client.conn)
		}
	})
	kind, err := r.peek(&spoke)
	wake(r.up.conn)
	watch.Wait()
	if e := r.up.conn.SetReadDeadline(time.Time{}); e != nil && err == nil {
		err = e
	}
	// A *Refused is returned even if the server began to speak meanwhile.
	if _, refused := errors.AsType[*Refused](err); spoke.Load() && !refused && (err != nil || r.up.in.Buffered() > 0 && kind != openingTLS) {
		return openingOpaque, r.client.conn.SetReadDeadline(time.Time{})
	}
	return kind, err
}

// wake ends a blocked read of the connection, or its next read.
func wake(c net.Conn) {
	c.SetReadDeadline(longAgo) //nolint:errcheck // a closed connection blocks no read
}

// peek reads as much of what the client sends as is needed to find out the protocol, and
// leaves it in the buffer. The client may be silent before its first byte for as long as at
// any other time. Once spoke is set, no read blocks for long.
func (r *relay) peek(spoke *atomic.Bool) (opening, error) {
	in := r.client.in
	if _, err := in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) { // the client only listens, or sends nothing
			return openingOpaque, nil
		}
		return openingUnknown, err
	}
	if err := r.client.conn.SetReadDeadline(time.Now().Add(openingTime)); err != nil {
		return openingUnknown, err
	}
	if spoke.Load() {
		wake(r.client.conn)
	}
	for range maxPieces {
		seen, _ := in.Peek(in.Buffered()) // cannot fail: these bytes are buffered
		kind := openingOf(seen)
		if kind == openingTLS {
			var err error
			switch r.hello, err = parseHello(seen); {
			case err == nil:
				return kind, r.client.conn.SetReadDeadline(time.Time{})
			case !errors.Is(err, errMore):
				return kind, r.unclear(err.Error())
			}
		} else if kind != openingUnknown {
			return kind, r.client.conn.SetReadDeadline(time.Time{})
		}
		_, err := in.Peek(len(seen) + 1)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && spoke.Load():
			return openingUnknown, err
		case errors.Is(err, os.ErrDeadlineExceeded):
			return kind, r.unclear(fmt.Sprintf("the first message of the connection did not arrive within %v", openingTime))
		case errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull):
			return kind, r.unclear("the first message of the connection is cut short, or too long")
		default:
			return kind, err
		}
	}
	return openingUnknown, r.unclear("the first message of the connection arrives in too many pieces")
}

// unclear refuses a connection whose destination cannot be determined.
func (r *relay) unclear(reason string) error {
	return r.refuse(r.rec, "opening", reason, "Use a client that follows the protocol.")
}
