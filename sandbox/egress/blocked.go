package egress

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"belljar.dev/policies"
)

// maxBlocked bounds the refusals that are kept for Blocked.
const maxBlocked = 128

// Blocked returns what was refused after the mark since, oldest first, each kind once with
// its count, and the mark for the next call. A mark is the number that an earlier call
// returned; 0 is the beginning, and math.MaxUint64 requests only the mark. Only the newest
// 128 kinds are kept.
func (d *Door) Blocked(since uint64) ([]Record, uint64) { return d.blocked.after(since) }

// blocked keeps the newest refusals. Equal refusals share one entry if no mark was returned
// between them. So the owner of a mark sees only refusals after the mark, with exact
// counts.
type blocked struct {
	mu      sync.Mutex
	entries []refusal // oldest first, at most maxBlocked
	last    uint64    // number of the newest entry
	marked  uint64    // entries up to this number have been returned, and do not change
}

// refusal is one entry of blocked.
type refusal struct {
	number uint64
	kind   kind
	record Record
}

// kind is the key that equal refusals share.
type kind struct {
	proto, method, path, reason string
	host                        policies.Host
	addr                        netip.AddrPort
	port                        uint16
}

func (b *blocked) add(r Record) {
	r.Method, r.Path, r.Count = policies.Clip(r.Method, maxShown), policies.Clip(r.Path, maxShown), 1
	k := kind{proto: r.Proto, method: r.Method, path: r.Path, reason: r.Reason, host: r.Host, addr: r.Addr, port: r.Port}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.entries) - 1; i >= 0 && b.entries[i].number > b.marked; i-- {
		if b.entries[i].kind == k {
			b.entries[i].record.Count++
			return
		}
	}
	b.last++
	if len(b.entries) == maxBlocked {
		b.entries = slices.Delete(b.entries, 0, 1)
	}
	b.entries = append(b.entries, refusal{number: b.last, kind: k, record: r})
}

func (b *blocked) after(since uint64) ([]Record, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked = b.last
	var all []Record
	seen := make(map[kind]int)
	for _, e := range b.entries {
		if e.number <= since {
			continue
		}
		if i, ok := seen[e.kind]; ok {
			all[i].Count += e.record.Count
			continue
		}
		seen[e.kind] = len(all)
		all = append(all, e.record)
	}
	return all, b.last
}

// A throttle lets one event of each kind through in each period of throttleFor, for a
// bounded number of kinds. The zero throttle has let nothing through.
type throttle struct {
	mu    sync.Mutex
	since time.Time
	seen  map[string]bool
}

// throttleFor is how long a throttle remembers the kinds that it let through, and
// throttleKinds how many of them.
const (
	throttleFor   = 10 * time.Second
	throttleKinds = 256
)

// first reports whether the kind was not yet let through in this period, and remembers it.
func (t *throttle) first(kind string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil || now.Sub(t.since) >= throttleFor {
		t.since, t.seen = now, make(map[string]bool)
	}
	if t.seen[kind] || len(t.seen) >= throttleKinds {
		return false
	}
	t.seen[kind] = true
	return true
}
