package egress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"belljar.dev/policies"
)

// permit decides whether a connection to h may go to an address; nil allows it. It is
// called twice: before an address is tried, and by the dialler with the address of the
// system call.
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
	case c.fake: // a fake address never stands for another fake address
		return refuse(ruleAddress, c.reason, "")
	case snap.AllowsPrivate(literal, port) && h == literal:
		return nil
	case c.metadata:
		return refuse(ruleAddress, c.reason, "")
	case snap.AllowsPrivate(h, port):
		return nil
	case snap.AllowsPrivate(literal, port) && !snap.Connect(literal, port).Requests:
		// If requests to the address are judged, no name may be a way around that.
		return nil
	}
	return refuse(ruleAddress, c.reason, "If this is a server of the person you work for, they can name it under allow_private.")
}

// dial connects to a port of a host that was judged. The error wraps a *Refused if no
// address of the host may be dialled. If an address may be dialled, dial calls decided,
// unless decided is nil.
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

// race connects to the first address that answers. It tries them one after the other, each
// after a short pause or as soon as the attempt before it fails. When race returns, all
// attempts have ended.
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
		for r := range results { // connections that were made too late
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
