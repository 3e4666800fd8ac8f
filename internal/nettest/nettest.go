// Package nettest joins network namespaces by its own switch, so that tests can have
// machines whose cables are long, lose packets, or are cut in one direction.
//
// Each host is a network namespace with one TUN device, whose packets a test process reads
// and writes. A [Wire] is the way from one host to another, and can be changed at any time.
// A seed determines all random values. Tests that use this package need root and
// /dev/net/tun.
package nettest

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// maxFlying is the most packets that are on the way at the same time. Further packets are
// lost, as in a switch whose queue is full.
const maxFlying = 16_384

// Wire describes what happens to packets in one direction. The zero value is a good cable.
type Wire struct {
	Delay  time.Duration
	Jitter time.Duration // most by which Delay is longer or shorter, so that packets can overtake each other
	Loss   float64       // part of the packets that is lost, from 0 to 1
	Cut    bool          // whether all packets are lost without an error
}

// Count contains the numbers of packets in one direction that passed and that were lost.
type Count struct{ Passed, Lost int }

// Net is a switch with hosts. It ends with its test.
type Net struct {
	t testing.TB

	mu     sync.Mutex
	hosts  []*Host        // guarded by mu
	wires  map[way]Wire   // guarded by mu
	counts map[way]*Count // guarded by mu
	random *rand.Rand     // guarded by mu
	flying flying         // guarded by mu
	sent   uint64         // guarded by mu: number of delayed packets so far

	news    chan struct{} // receives a value when a packet is delayed; its capacity is 1
	over    chan struct{} // closed when the test ends
	running sync.WaitGroup
}

// way is a direction between two hosts.
type way struct{ from, to netip.Addr }

// New starts a switch without hosts.
func New(t testing.TB, seed uint64) *Net {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Tun)
	n := &Net{
		t: t, wires: make(map[way]Wire), counts: make(map[way]*Count), random: rand.New(rand.NewPCG(seed, 0)),
		news: make(chan struct{}, 1), over: make(chan struct{}),
	}
	n.running.Go(n.deliver)
	t.Cleanup(n.close)
	return n
}

func (n *Net) close() {
	close(n.over)
	n.mu.Lock()
	hosts := n.hosts
	n.mu.Unlock()
	for _, h := range hosts {
		h.close()
	}
	n.running.Wait()
}

// Set changes one direction between two hosts.
func (n *Net) Set(from, to *Host, w Wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[way{from.Addr, to.Addr}] = w
}

// Between changes both directions between two hosts.
func (n *Net) Between(a, b *Host, w Wire) {
	n.Set(a, b, w)
	n.Set(b, a, w)
}

// Count returns the numbers of packets from one host to another so far.
func (n *Net) Count(from, to *Host) Count {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.counts[way{from.Addr, to.Addr}]; c != nil {
		return *c
	}
	return Count{}
}

// forward sends a packet of a host to its destination.
func (n *Net) forward(from *Host, packet []byte) {
	const header = 20 // bytes of an IPv4 header
	if len(packet) < header || packet[0]>>4 != 4 {
		return // not IPv4: for example a host that looks for IPv6 routers
	}
	dst := netip.AddrFrom4([4]byte(packet[16:20]))
	n.mu.Lock()
	var to *Host
	for _, h := range n.hosts {
		if h.Addr == dst {
			to = h
		}
	}
	if to == nil {
		n.mu.Unlock()
		return
	}
	w := way{from.Addr, dst}
	count := n.counts[w]
	if count == nil {
		count = new(Count)
		n.counts[w] = count
	}
	wire := n.wires[w]
	if wire.Cut || wire.Loss > 0 && n.random.Float64() < wire.Loss || len(n.flying) >= maxFlying {
		count.Lost++
		n.mu.Unlock()
		return
	}
	count.Passed++
	if wire.Delay == 0 && wire.Jitter == 0 {
		n.mu.Unlock()
		to.write(packet)
		return
	}
	late := wire.Delay
	if wire.Jitter > 0 {
		late += time.Duration(n.random.Int64N(2*int64(wire.Jitter)+1)) - wire.Jitter
	}
	n.sent++
	heap.Push(&n.flying, flight{time.Now().Add(late), n.sent, to, append([]byte(nil), packet...)})
	n.mu.Unlock()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// deliver delivers the delayed packets when they are due.
func (n *Net) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n.mu.Lock()
		var due []flight
		wait := time.Hour
		for len(n.flying) > 0 {
			if wait = time.Until(n.flying[0].due); wait > 0 {
				break
			}
			if f, ok := heap.Pop(&n.flying).(flight); ok {
				due = append(due, f)
			}
			wait = time.Hour
		}
		n.mu.Unlock()
		for _, f := range due {
			f.to.write(f.packet)
		}
		timer.Reset(wait)
		select {
		case <-n.over:
			return
		case <-n.news:
		case <-timer.C:
		}
	}
}

// flight is a packet on its way.
type flight struct {
	due    time.Time
	number uint64
	to     *Host
	packet []byte
}

// flying contains the packets on their way, as a heap: the next packet is the first.
type flying []flight

func (f flying) Len() int      { return len(f) }
func (f flying) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

// Less orders packets by the times at which they are due, and packets of the same time by
// the order in which they were sent.
func (f flying) Less(i, j int) bool {
	if f[i].due.Equal(f[j].due) {
		return f[i].number < f[j].number
	}
	return f[i].due.Before(f[j].due)
}

// Push adds a packet.
func (f *flying) Push(x any) {
	if p, ok := x.(flight); ok {
		*f = append(*f, p)
	}
}

// Pop removes the last packet, and returns it.
func (f *flying) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
