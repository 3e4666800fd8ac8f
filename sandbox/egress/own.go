package egress

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ownFor is how long a list of the host's addresses is used. A new address of the host is
// known after this time at the latest.
const ownFor = time.Second

// ownAddrs are the addresses of the host itself. A server that listens there may
// be meant for the host alone, even on a public address.
type ownAddrs struct {
	read func() ([]net.Addr, error)
	keep time.Duration // ownFor, except in tests

	mu    sync.Mutex
	until time.Time
	addrs map[netip.Addr]bool
}

// has reports whether the host has the address. It fails if the addresses cannot
// be read, because then any address may be the host's. It reads them under the
// lock: this takes some microseconds (a netlink dump), and every waiting caller
// needs the result.
func (o *ownAddrs) has(addr netip.Addr) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.addrs == nil || !now.Before(o.until) {
		list, err := o.read()
		if err != nil {
			return false, fmt.Errorf("read the host's addresses: %w", err)
		}
		o.addrs = make(map[netip.Addr]bool, len(list))
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				o.addrs[p.Addr().Unmap().WithZone("")] = true
			}
		}
		o.until = now.Add(o.keep)
	}
	return o.addrs[addr], nil
}

// class is classify, except that the host's own addresses are not public.
func (d *Door) class(addr netip.Addr) class {
	c := classify(addr)
	if !c.public {
		return c
	}
	addr = addr.Unmap()
	for _, a := range append(embedded(addr), addr) {
		own, err := d.own.has(a)
		switch {
		case err != nil:
			d.cfg.Log.Error("egress", "err", err)
			return class{reason: "the host's own addresses are not known now"}
		case own:
			return class{reason: fmt.Sprintf("%v is an address of the host that the sandbox runs on", a)}
		}
	}
	return c
}
