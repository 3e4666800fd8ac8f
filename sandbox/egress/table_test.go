package egress

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"belljar.dev/policies"
)

func TestTable(t *testing.T) {
	tb := newTable()
	name := func(i int) policies.Host { return host(t, fmt.Sprintf("n%d.example", i)) }
	reserved := netip.MustParsePrefix("198.19.255.0/24")
	addrs := make(map[netip.Addr]bool)
	for i := range maxNames {
		addr, ok := tb.give(name(i))
		b := addr.As4()
		if !ok || !fakeRange.Contains(addr) || reserved.Contains(addr) || addrs[addr] || b[3] == 0 || b[3] == 255 {
			t.Fatalf("name %d: got %v, %v", i, addr, ok)
		}
		addrs[addr] = true
	}
	first, _ := tb.give(name(0)) // now the last used
	if h, ok := tb.hold(first); !ok || h != name(0) {
		t.Fatalf("got %v, %v", h, ok)
	}

	// The table is full: the name that was not used for the longest time loses its address,
	// and no name has that address for now.
	second, _ := tb.name(netip.MustParseAddr("198.18.0.2"))
	fresh, ok := tb.give(name(maxNames))
	if !ok || addrs[fresh] {
		t.Errorf("got %v, %v, want an address that nobody had", fresh, ok)
	}
	if tb.knows(second) || !tb.knows(name(0)) || !tb.knows(name(2)) || len(tb.byName) != maxNames || len(tb.byAddr) != maxNames || tb.recent.Len() != maxNames {
		t.Errorf("got %v kept: %v; table of %d", second, tb.knows(second), len(tb.byName))
	}
	if _, ok := tb.hold(netip.MustParseAddr("198.18.0.2")); ok {
		t.Error("an address without a name was held")
	}

	// All addresses are used in turn, and a name in use never loses its own.
	seen := make(map[netip.Addr]int)
	for i := range 2 * fakes {
		addr, ok := tb.give(name(maxNames + 1 + i))
		if !ok || reserved.Contains(addr) || addr == first {
			t.Fatalf("got %v, %v", addr, ok)
		}
		if last, was := seen[addr]; was && i-last < fakes-3*maxNames {
			t.Fatalf("%v was given again after %d others", addr, i-last)
		}
		seen[addr] = i
	}
	if h, ok := tb.name(first); !ok || h != name(0) {
		t.Errorf("got %v, %v for an address in use", h, ok)
	}
	tb.release(first)
	for i := range maxNames {
		tb.give(name(-i - 1e6))
	}
	if tb.knows(name(0)) {
		t.Error("a name that was released was kept for ever")
	}
}

func TestTableFull(t *testing.T) {
	tb := newTable()
	tb.most = 2
	a, _ := tb.give(host(t, "a.example"))
	b, _ := tb.give(host(t, "b.example"))
	tb.hold(a)
	tb.hold(a)
	tb.hold(b)
	tb.release(a)
	if addr, ok := tb.give(host(t, "c.example")); ok {
		t.Errorf("got %v although all names are in use", addr)
	}
	tb.release(b)
	if _, ok := tb.give(host(t, "c.example")); !ok || tb.knows(host(t, "b.example")) || !tb.knows(host(t, "a.example")) {
		t.Error("got no address although a name was not in use")
	}
}

func TestTableConcurrent(t *testing.T) {
	tb := newTable()
	tb.most = 50
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 500 {
				h := host(t, fmt.Sprintf("n%d.example", (i*7+w)%100))
				addr, ok := tb.give(h)
				if !ok {
					t.Error("no address")
					return
				}
				if held, ok := tb.hold(addr); ok {
					if now, ok := tb.name(addr); !ok || now != held {
						t.Errorf("%v is held by %v and named %v", addr, held, now)
					}
					tb.release(addr)
				}
			}
		})
	}
	workers.Wait()
}

func TestBucket(t *testing.T) {
	var b bucket
	now := time.Now()
	for i := range 4 {
		if !b.take(now, 2, 4) {
			t.Fatalf("token %d: got none", i)
		}
	}
	if wait := b.wait(now, 2, 4); wait != time.Second/2 {
		t.Errorf("got to wait %v, want 500ms", wait)
	}
	if b.take(now.Add(-time.Hour), 2, 4) || !b.take(now.Add(time.Second/2), 2, 4) || b.take(now.Add(time.Second/2), 2, 4) {
		t.Error("got other than one token after half a second")
	}
	// A smaller burst with the same bucket: what was spent stays spent.
	if b.take(now.Add(time.Second), 1, 1) {
		t.Error("got a token of a smaller burst that was spent")
	}
	if !b.take(now.Add(time.Hour), 0.001, 0.002) {
		t.Error("got none of a rate that is very small, want one at a time")
	}
}
