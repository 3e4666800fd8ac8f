package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"belljar.dev/policies"
)

// ServeProxy serves a box as its HTTP proxy: CONNECT, and requests of http URLs. It
// judges like ServeTransparent, and also looks into tunnels. A refusal is an answer
// with status 403 whose body is the line for the agent. ServeProxy blocks until the
// listener or the door is closed, waits for its connections, and closes the
// listener. The error says why it could not continue.
func (d *Door) ServeProxy(l net.Listener) error {
	return d.accept(l, maxServed, func(ctx context.Context, c net.Conn, decided func()) {
		decided() // immediately: the client itself waits for the answer
		client := newSide(c, nil)
		defer client.free()
		p := proxied{door: d, client: client}
		p.serve(ctx)
	})
}

// proxied is one connection to the proxy. Its requests may go to several hosts, one after
// the other. For the caps, the policy and the records, each change of the host is a new
// connection.
type proxied struct {
	door   *Door
	client *side
	flow   *flow     // flow of the connection; counts against the caps
	keep   func()    // makes the end of the flow leave the client's connection open
	up     *exchange // connection to the host of the last request; nil without a connection
}

func (p *proxied) serve(ctx context.Context) {
	f, err := p.door.begin(ctx)
	if err != nil {
		p.door.turnAway(err, netip.AddrPort{})
		p.fail(err) //nolint:errcheck // fail returns err for other callers; it is recorded already
		return
	}
	p.hold(f)
	err = p.requests(ctx)
	p.drop(err)
}

// hold makes f the flow of the connection.
func (p *proxied) hold(f *flow) {
	var kept atomic.Bool
	f.own(func() {
		if !kept.Load() {
			p.client.conn.Close()
		}
	})
	p.flow, p.keep = f, func() { kept.Store(true) }
}

// drop ends the flow, and its connection to a host if it has one.
func (p *proxied) drop(err error) {
	p.flow.end(err)
	if p.up != nil {
		p.up.up.free()
		p.up = nil
	}
}

func (p *proxied) requests(ctx context.Context) error {
	for {
		if p.up != nil {
			ended, err := p.up.await()
			if err == nil && ended {
				err = p.change(ctx)
			}
			if err != nil {
				return err
			}
		}
		h, err := readHead(p.client)
		if err != nil {
			return p.unreadable(err)
		}
		if h.method == "CONNECT" {
			return p.tunnel(ctx, h)
		}
		more, err := p.forward(ctx, h)
		if err != nil || !more {
			return err
		}
	}
}

func (p *proxied) unreadable(err error) error {
	x := exchange{relay: &relay{flow: p.flow, client: p.client}}
	return x.unreadable(err)
}

// fail reports to the client that a connection was not made, and returns err. It ends the
// flow first, because the client may read the answer slowly.
func (p *proxied) fail(err error) error {
	if p.flow != nil {
		p.keep()
		p.flow.end(err)
	}
	status, line := http.StatusBadGateway, policies.Clip("The sandbox's door cannot reach the server: "+err.Error(), maxLine)
	if refused, ok := errors.AsType[*Refused](err); ok {
		status, line = http.StatusForbidden, refused.Record.Refusal()
	}
	tell(p.client, status, line)
	return err
}

// tunnel serves CONNECT. The bytes behind it are treated like a transparent
// connection.
func (p *proxied) tunnel(ctx context.Context, h head) error {
	host, port, err := parseAuthority(h.target, 0)
	switch {
	case err != nil:
		return p.unreadable(bad("a CONNECT names no host and port: %v", err))
	case h.length != 0:
		return p.unreadable(bad("a CONNECT has a body"))
	}
	if p.up != nil { // earlier requests went elsewhere
		if err := p.change(ctx); err != nil {
			return err
		}
	}
	c, err := p.flow.connect(ctx, host, port)
	if err != nil {
		return p.fail(err)
	}
	up := newSide(c, p.flow)
	defer up.free()
	if _, err := io.WriteString(p.client.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	r := relay{flow: p.flow, host: host, port: port, client: p.client, up: up}
	return r.run(ctx)
}

// forward serves a request whose target is a whole URL. It reports whether another
// request may follow.
func (p *proxied) forward(ctx context.Context, h head) (bool, error) {
	if strings.HasPrefix(h.target, "/") || h.target == "*" {
		return false, p.unreadable(bad("a request to a proxy names a whole URL, or is CONNECT"))
	}
	at, err := h.place("http")
	if err != nil {
		return false, p.unreadable(err)
	}
	if p.up != nil && (p.up.host != at.host || p.up.port != at.port) {
		if err := p.change(ctx); err != nil {
			return false, err
		}
	}
	for {
		again := p.up != nil
		if !again {
			if err := p.open(ctx, at.host, at.port); err != nil {
				return false, p.fail(err)
			}
		}
		more, err := p.up.serve(ctx, h)
		// A server may close an idle connection at any time. A request that may be
		// sent twice is then sent on a new connection (RFC 9110, 9.2.2).
		if !again || !errors.Is(err, errStale) || h.length != 0 || h.method != http.MethodGet && h.method != http.MethodHead {
			if err != nil && errors.Is(err, errStale) {
				return false, p.fail(err)
			}
			return more, err
		}
		if err := p.change(ctx); err != nil {
			return false, err
		}
	}
}

// open connects to a host.
func (p *proxied) open(ctx context.Context, host policies.Host, port uint16) error {
	c, err := p.flow.connect(ctx, host, port)
	if err != nil {
		return err
	}
	p.flow.rec.Proto = "http"
	p.up = &exchange{scheme: "http", relay: &relay{flow: p.flow, host: host, port: port, client: p.client, up: newSide(c, p.flow)}}
	return nil
}

// change ends the flow of one host and begins that of the next. The client's
// connection stays open.
func (p *proxied) change(ctx context.Context) error {
	p.keep()
	p.drop(nil)
	next, err := p.door.begin(ctx)
	if err != nil {
		p.door.turnAway(err, netip.AddrPort{})
		return p.fail(err)
	}
	p.hold(next)
	return nil
}
