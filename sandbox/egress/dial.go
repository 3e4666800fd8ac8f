package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"belljar.dev/policies"
)

// dialTime bounds making a connection, with its look-up. stagger is how long an
// address may keep silent before the next is tried beside it (RFC 8305, 5).
const (
	dialTime = 15 * time.Second
	stagger  = 250 * time.Millisecond
)

// permit decides about an address for a connection to h; nil allows it. It is
// called twice: before an address is tried, and by the dialler with the address
// that is in the system call.
func (d *Door) permit(snap *snapshot, h policies.Host, port uint16, addr netip.Addr) *Refused {
	addr = addr.Unmap()
	refuse := func(rule, reason, instead string) *Refused {
		return &Refused{Record: Record{
			Time: time.Now(), Profile: d.cfg.Profile, Proto: "tcp", Host: h, Port: port, Addr: netip.AddrPortFrom(addr, port),
			Rule: rule, Reason: reason, Instead: instead,
		}}
	}
	literal := policies.HostAddr(addr)
	for _, a := range append(embedded(addr), addr) {
		if v, denied := snap.Denied(policies.HostAddr(a), port); denied {
			return refuse(v.Rule, fmt.Sprintf("it leads to %v, and %s", a, v.Reason), "")
		}
	}
	c := d.class(addr)
	switch {
	case c.public:
		return nil
	case c.fake: // where a box's fake addresses lead is never a fake address
		return refuse(ruleAddress, c.reason, "")
	case snap.AllowsPrivate(literal, port) && h == literal:
		return nil
	case c.metadata:
		return refuse(ruleAddress, c.reason, "")
	case snap.AllowsPrivate(h, port):
		return nil
	case snap.AllowsPrivate(literal, port) && !snap.Connect(literal, port).Requests:
		// Where requests to the address are judged, no name may be a way
		// round that.
		return nil
	}
	return refuse(ruleAddress, c.reason, "If this is a server of the person you work for, they can name it under allow_private.")
}

// ruleAddress is the rule in the record of a refused address.
const ruleAddress = "public addresses only"

// dial connects to a port of a host that was judged. The error wraps a *Refused if
// no address of the host may be dialled. If one may, decided is called, unless it
// is nil.
func (d *Door) dial(ctx context.Context, snap *snapshot, h policies.Host, port uint16, decided func()) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addrs, err := d.addresses(ctx, h)
	if err != nil {
		return nil, err
	}
	var refused *Refused
	var good []netip.Addr
	for _, a := range addrs {
		if r := d.permit(snap, h, port, a); r == nil {
			good = append(good, a)
		} else {
			refused = cmp.Or(refused, r)
		}
	}
	if len(good) == 0 {
		return nil, refused
	}
	if decided != nil {
		decided()
	}
	// The dialler gets addresses, so it uses neither a resolver nor a proxy. Control
	// sees the same address as connect(2), so nothing can change between the check
	// and the connection.
	dialer := &net.Dialer{
		FallbackDelay: -1,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || to.Port() != port {
				return fmt.Errorf("dial %s: not what was asked for", policies.Clip(address, maxShown))
			}
			if r := d.permit(snap, h, port, to.Addr()); r != nil {
				return r
			}
			return nil
		},
	}
	c, err := race(ctx, dialer, good, port)
	if err != nil && h.Name() != "" {
		d.lookups.forget(h.Name())
	}
	return c, err
}

// race connects to the first address that answers. It tries them one after the
// other, each a little after the last one or when that fails. When race returns,
// all attempts have ended.
func race(ctx context.Context, dialer *net.Dialer, addrs []netip.Addr, port uint16) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, len(addrs))
	var attempts sync.WaitGroup
	defer func() {
		cancel()
		attempts.Wait()
		close(results)
		for r := range results { // those that came in second
			if r.conn != nil {
				r.conn.Close()
			}
		}
	}()
	wait := time.NewTimer(0)
	defer wait.Stop()
	next, pending := 0, 0
	var first error
	for {
		select {
		case <-wait.C:
			if next == len(addrs) {
				continue
			}
			to := netip.AddrPortFrom(addrs[next], port)
			next++
			pending++
			attempts.Go(func() {
				conn, err := dialer.DialContext(ctx, network(to), to.String())
				results <- result{conn, err}
			})
			wait.Reset(stagger)
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			pending--
			first = cmp.Or(first, r.err)
			if pending == 0 && next == len(addrs) {
				return nil, first
			}
			wait.Reset(0)
		}
	}
}

// network returns the network for the address's family.
func network(to netip.AddrPort) string {
	if to.Addr().Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// failed returns the error for a connection that was not made.
func (f *flow) failed(rec Record, err error) error {
	if r, ok := errors.AsType[*Refused](err); ok {
		rec.Addr = r.Record.Addr
		return f.refuse(rec, r.Record.Rule, r.Record.Reason, r.Record.Instead)
	}
	return fmt.Errorf("%s: %w", rec.what(), err)
}

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
	f.own(func() { f.end(nil) }) // the user may be slow to close it
	return conn, nil
}

// dial is connect for an address in the form "host:port".
func (f *flow) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("dial %s: only tcp leaves a box", policies.Clip(network, maxShown))
	}
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial: %s", policies.Clip(err.Error(), maxShown)) // it repeats the address as it came
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
