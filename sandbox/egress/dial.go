package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"belljar.dev/policies"
)

// dialTime bounds making a connection, including the look-up. stagger is how long an
// address may be silent before the next one is tried in addition (RFC 8305, 5).
const (
	dialTime = 15 * time.Second
	stagger  = 250 * time.Millisecond
)

// ruleAddress is the rule in the record of a refused address.
const ruleAddress = "public addresses only"

// Dial connects to "host:port" on network "tcp", like a connection of the box. The
// connection is closed when its time is up or the door is closed, and the caller
// must close it. The error is or wraps a *Refused if the door refused.
func (d *Door) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dialUnder(ctx, d.current.Load(), network, address)
}

func (d *Door) dialUnder(ctx context.Context, snap *snapshot, network, address string) (net.Conn, error) {
	f, err := d.beginUnder(ctx, snap)
	if err != nil {
		d.turnAway(err, netip.AddrPort{})
		return nil, err
	}
	c, err := f.dial(ctx, network, address)
	if err != nil {
		f.end(err)
		return nil, err
	}
	conn := &counted{Conn: c, flow: f}
	f.own(func() { f.end(nil) }) // the caller may be slow to close it
	return conn, nil
}

// dial is connect for an address in the form "host:port".
func (f *flow) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("dial %s: only tcp leaves a box", policies.Clip(network, maxShown))
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		// the error repeats the address as it was given
		return nil, fmt.Errorf("dial: %s", policies.Clip(err.Error(), maxShown))
	}
	h, err := policies.ParseHost(host)
	if err != nil {
		return nil, f.refuse(f.rec, ruleName, err.Error(), "")
	}
	port, err := parsePort(digits)
	if err != nil {
		return nil, err
	}
	return f.connect(ctx, h, port)
}

// counted is a connection whose bytes its flow counts, and which ends its flow.
type counted struct {
	net.Conn
	flow *flow
}

// Read counts what came in.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.after(0, n, err)
}

// Write counts what went out.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.after(n, 0, err)
}

// after counts bytes, and replaces the connection's error with the flow's reason: a
// connection that the flow closed reports only that it is closed.
func (c *counted) after(sent, received int, err error) error {
	if why := c.flow.count(int64(sent), int64(received)); why != nil && !errors.Is(why, net.ErrClosed) {
		c.flow.end(why)
		return why
	}
	return err
}

// Close ends the connection.
func (c *counted) Close() error {
	c.flow.end(nil)
	return nil
}
