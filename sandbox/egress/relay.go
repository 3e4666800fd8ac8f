package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"belljar.dev/policies"
)

// Bounds of what a door serves.
const (
	// maxServed bounds the connections of one listener that are served at the same time.
	// The limits of a policy apply within it; a connection that they refuse ends
	// immediately.
	maxServed = 1024

	// openingTime is how long a client may take from the first byte of a ClientHello, or of
	// the first line of a request, to its last, and maxPieces is in how many pieces these
	// bytes may arrive. Both are many times what a slow client needs.
	openingTime = 10 * time.Second
	maxPieces   = 256
)

// longAgo is a deadline in the past: it ends a read that waits.
var longAgo = time.Unix(1, 0)

// ServeTransparent serves redirected connections of a box; original returns the address to
// which the box connected. A refused connection is reset, so that the client fails
// immediately. ServeTransparent blocks until the listener or the door is closed, waits for
// its connections, and closes the listener. The error says why it could not continue; it is
// nil after either close.
//
// For each connection it finds the host that the address stands for, judges the host and
// the port, connects to it, and then looks at what the client sends first. TLS must name
// the same host. HTTP requests are judged one by one. Everything else is relayed without a
// look. If the policy has rules about requests, everything that could hide requests is
// refused instead.
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
	hello  hello // the ClientHello, once the client has begun TLS
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

// reset makes the next close of a connection a reset.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0) //nolint:errcheck // if this fails, the connection only closes more slowly
	}
}
