package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// Bounds of what a door serves.
const (
	// maxServed bounds the connections of one listener that are served at once. The
	// limits of a policy apply within it; a connection that they refuse ends at once.
	maxServed = 1024

	// openingTime is how long a client may take from the first byte of a
	// ClientHello or a request head to its last, and maxPieces in how many
	// pieces these may come. Both are many times what a slow client needs.
	openingTime = 10 * time.Second
	maxPieces   = 256
)

// longAgo is a deadline in the past: it ends a read that waits.
var longAgo = time.Unix(1, 0)

// ServeTransparent serves redirected connections of a box; original returns the
// address to which the box connected. A refused connection is reset, so that the
// client fails at once. ServeTransparent blocks until the listener or the door is
// closed, waits for its connections, and closes the listener. The error says why it
// could not continue; it is nil after either close.
//
// For each connection it finds the host that the address stands for, judges the
// host and the port, connects to it, and then looks at what the client sends first.
// TLS must name the same host. HTTP requests are judged one by one. Everything else
// is relayed without a look. If the policy has rules about requests, it refuses
// whatever could hide requests instead.
func (d *Door) ServeTransparent(l net.Listener, original func(net.Conn) (netip.AddrPort, error)) error {
	return d.accept(l, maxServed, func(ctx context.Context, c net.Conn, decided func()) {
		addr, err := original(c)
		if err != nil {
			d.cfg.Log.Warn("egress: the destination of a connection is not known", "error", err)
			reset(c)
			return
		}
		f, err := d.begin(ctx)
		if err != nil {
			d.turnAway(err, addr)
			reset(c)
			return
		}
		f.own(func() { c.Close() })
		f.decided = decided
		host, err := f.meant(addr)
		if err == nil {
			client := newSide(c, nil)
			defer client.free()
			err = f.relay(ctx, client, host, addr.Port())
		}
		if _, refused := errors.AsType[*Refused](err); refused {
			reset(c)
		}
		f.end(err)
	})
}

// turnAway records a connection that got no slot.
func (d *Door) turnAway(err error, addr netip.AddrPort) {
	if refused, ok := errors.AsType[*Refused](err); ok {
		rec := refused.Record
		rec.Addr, rec.Port = addr, addr.Port()
		rec.Host, _ = d.names.name(addr.Addr().Unmap()) // without a name the record has the address
		d.recordSome(rec.Reason, rec)
	}
}

// reset makes the coming close of a connection a reset.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed in the slower way
	}
}

// relay connects a client to a host and relays between them.
func (f *flow) relay(ctx context.Context, client *side, host policies.Host, port uint16) error {
	c, err := f.connect(ctx, host, port)
	if err != nil {
		return err
	}
	up := newSide(c, f)
	defer up.free()
	r := relay{flow: f, host: host, port: port, client: client, up: up}
	return r.run(ctx)
}

// relay is one connection between a client in a box and a host that it may
// reach.
type relay struct {
	*flow
	host   policies.Host
	port   uint16
	client *side
	up     *side
	hello  hello // once the client has begun TLS
}

func (r *relay) run(ctx context.Context) error {
	kind, err := r.first()
	if err != nil {
		return err
	}
	switch kind {
	case openingTLS:
		return r.tls(ctx)
	case openingHTTP:
		return r.http(ctx, "http")
	case openingUnknown, openingHTTP2, openingOpaque:
	}
	return r.opaque()
}

// opaque relays bytes without a look.
func (r *relay) opaque() error {
	if r.requests() {
		return r.refuse(r.rec, "requests", "the profile has rules about the requests to it, and what the connection begins with is no HTTP/1 request", "Use HTTP/1.1 in the clear, or TLS where the profile has tls: intercept.")
	}
	return r.splice(r.ways())
}

// tls continues with a client that has begun TLS.
func (r *relay) tls(ctx context.Context) error {
	r.rec.Proto = "tls"
	if err := r.hello.wants(r.host); err != nil {
		return r.refuse(r.rec, "SNI", err.Error(), "Connect to each host by its own name.")
	}
	switch {
	case r.snap.Intercept:
		return r.intercept(ctx)
	case r.requests():
		return r.refuse(r.rec, "requests", "the profile has rules about the requests to it, which TLS hides; the profile would need tls: intercept", "Tell the person you work for.")
	}
	return r.passTLS()
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
	// A Refused that came while the server began to speak stays one.
	if _, refused := errors.AsType[*Refused](err); spoke.Load() && !refused && (err != nil || r.up.in.Buffered() > 0 && kind != openingTLS) {
		return openingOpaque, r.client.conn.SetReadDeadline(time.Time{})
	}
	return kind, err
}

// wake ends a read of the connection that blocks, or the next one.
func wake(c net.Conn) {
	c.SetReadDeadline(longAgo) //nolint:errcheck // a closed connection is awake
}

// peek reads as much of what the client sends as it takes to tell what it is,
// and leaves it to be read. For its first byte the client has the time that
// any silence has. Once spoke is set, a read that blocks is not for long.
func (r *relay) peek(spoke *atomic.Bool) (opening, error) {
	in := r.client.in
	if _, err := in.Peek(1); err != nil {
		if errors.Is(err, io.EOF) { // it wants to listen only, or nothing
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
			return kind, r.unclear(fmt.Sprintf("what the connection begins with did not come in %v", openingTime))
		case errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull):
			return kind, r.unclear("what the connection begins with is cut short, or too long")
		default:
			return kind, err
		}
	}
	return openingUnknown, r.unclear("what the connection begins with comes in too many pieces")
}

// unclear refuses a connection whose destination cannot be determined.
func (r *relay) unclear(reason string) error {
	return r.refuse(r.rec, "opening", reason, "Use a client that follows the protocol.")
}
