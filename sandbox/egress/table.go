package egress

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"

	"belljar.dev/policies"
)

// fakeRange contains the addresses that stand for names in a box. RFC 2544 reserves
// them for benchmarks of devices, so no host has one, and the door never dials
// them.
var fakeRange = netip.MustParsePrefix("198.18.0.0/15")

// maxNames bounds the names of one box that have an address. reservedFakes is the number of
// addresses at the end of the range, 198.19.255.0/24, that the box itself uses, for example
// for its door.
const (
	maxNames      = 16384
	fakes         = 1 << 17
	reservedFakes = 256
)

// table assigns addresses of the fake range to names. A name keeps its address until
// the table is full of other names. The address is then reused only after all other
// addresses: a client that remembers it for too long is refused, and not connected
// to another host.
type table struct {
	most int // maxNames, except in tests

	mu     sync.Mutex
	next   uint32 // offset in the range of the address to try next
	byName map[policies.Host]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent *list.List // elements are *named, the last used in front
}

// named is a name and its address.
type named struct {
	host policies.Host
	addr netip.Addr
	uses int // number of flows that use the address and have not ended
}

func newTable() *table {
	return &table{
		most:   maxNames,
		next:   1,
		byName: make(map[policies.Host]*list.Element),
		byAddr: make(map[netip.Addr]*list.Element),
		recent: list.New(),
	}
}

// knows reports whether the name has an address.
func (t *table) knows(h policies.Host) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byName[h]
	return ok
}

// give returns the address of a name. It fails if the table is full of names that
// are in use.
func (t *table) give(h policies.Host) (netip.Addr, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byName[h]; ok {
		t.recent.MoveToFront(e)
		return entry(e).addr, true
	}
	if len(t.byName) >= t.most && !t.forget() {
		return netip.Addr{}, false
	}
	n := &named{host: h, addr: t.unused()}
	e := t.recent.PushFront(n)
	t.byName[n.host], t.byAddr[n.addr] = e, e
	return n.addr, true
}

// forget frees the address of the least recently used name without a flow, and
// reports whether there was such a name.
func (t *table) forget() bool {
	for e := t.recent.Back(); e != nil; e = e.Prev() {
		if n := entry(e); n.uses == 0 {
			t.recent.Remove(e)
			delete(t.byName, n.host)
			delete(t.byAddr, n.addr)
			return true
		}
	}
	return false
}

// unused returns the next address without a name. The range has more addresses than
// the table has names, so one is always free.
func (t *table) unused() netip.Addr {
	for {
		offset := t.next
		t.next++
		if t.next >= fakes-reservedFakes {
			t.next = 1
		}
		// To some programs, the first and last address of a /24 look like a network and its
		// broadcast address.
		if last := byte(offset); last == 0 || last == 255 {
			continue
		}
		base := fakeRange.Addr().As4()
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+offset)
		if addr := netip.AddrFrom4(b); t.byAddr[addr] == nil {
			return addr
		}
	}
}

// name returns the name that has an address.
func (t *table) name(addr netip.Addr) (policies.Host, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byAddr[addr]
	if !ok {
		return policies.Host{}, false
	}
	return entry(e).host, true
}

// hold is name, for a flow: the name keeps the address until release.
func (t *table) hold(addr netip.Addr) (policies.Host, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byAddr[addr]
	if !ok {
		return policies.Host{}, false
	}
	entry(e).uses++
	t.recent.MoveToFront(e)
	return entry(e).host, true
}

// release ends a hold.
func (t *table) release(addr netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byAddr[addr]; ok {
		entry(e).uses--
	}
}

// entry returns the value of an element of recent.
func entry(e *list.Element) *named {
	n, _ := e.Value.(*named) // nothing else is put there
	return n
}
