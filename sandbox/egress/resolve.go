package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
)

// The bounds of look-ups on the host.
const (
	lookupTime    = 5 * time.Second
	lookupsAtOnce = 32
	maxAnswers    = 16               // number of addresses of one name that are tried
	maxAnswered   = 1024             // number of names whose addresses are remembered
	answerFor     = 15 * time.Second // how long they are remembered
)

// The bounds of names that no rule spells out. If a rule allows all names below a name, a
// box can send data to their name server in the names that it looks up. These constants
// bound how much.
const (
	maxFreeName   = 160 // characters of one name
	maxFreeLabels = 12
	freeNames     = 300 // number of new names in a minute, after as many at once
)

// Resolver finds the addresses of a name. It must be safe for concurrent use.
// The network is "ip". The name is absolute, without a closing dot: search
// domains must not be tried.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// hostResolver is the host's own resolver.
type hostResolver struct{}

var hostDNS = &net.Resolver{PreferGo: true}

// LookupNetIP looks up the name with a closing dot, which makes it absolute, so that
// exactly the judged name is looked up.
func (hostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return hostDNS.LookupNetIP(ctx, network, host+".")
}

// lookups asks a resolver, with a bounded number of concurrent look-ups, and remembers its
// answers for answerFor. An answer decides nothing: each address is judged when it is
// dialled.
type lookups struct {
	resolver Resolver
	slots    chan struct{}

	mu       sync.Mutex
	answered map[string]answered
}

// answered contains the addresses of a name, which are not changed.
type answered struct {
	addrs []netip.Addr
	until time.Time
}

func newLookups(r Resolver) *lookups {
	return &lookups{resolver: r, slots: make(chan struct{}, lookupsAtOnce), answered: make(map[string]answered)}
}

// find returns the addresses of a name: at least one and at most maxAnswers.
func (l *lookups) find(ctx context.Context, name string) ([]netip.Addr, error) {
	if addrs, ok := l.remembered(name); ok {
		return addrs, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("look up %s: too many other look-ups: %w", name, context.Cause(ctx))
	}
	found, err := l.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", name, withoutHost(err))
	}
	var addrs []netip.Addr
	for _, a := range found {
		// An address with a zone means something else on each host.
		if a = a.Unmap(); a.IsValid() && a.Zone() == "" && len(addrs) < maxAnswers {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: it has no address", name)
	}
	l.remember(name, addrs)
	return addrs, nil
}

// withoutHost returns an error of a resolver in words for a box. The text of the error can
// have the address of the host and that of its name server.
func withoutHost(err error) error {
	from, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return err
	}
	bare := net.DNSError{Name: from.Name, IsTimeout: from.IsTimeout, IsTemporary: from.IsTemporary, IsNotFound: from.IsNotFound}
	switch {
	case from.IsNotFound:
		bare.Err = "no such host"
	case from.IsTimeout:
		bare.Err = "the name server did not answer in time"
	default:
		bare.Err = "the name server cannot be used"
	}
	return &bare
}

func (l *lookups) remembered(name string) ([]netip.Addr, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.answered[name]
	if !ok || !time.Now().Before(a.until) {
		return nil, false
	}
	return a.addrs, true
}

func (l *lookups) remember(name string, addrs []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.answered) >= maxAnswered {
		clear(l.answered) // rare, and costs one look-up for each name
	}
	l.answered[name] = answered{addrs: addrs, until: time.Now().Add(answerFor)}
}

// forget drops the remembered addresses of a name, because none of them answered.
func (l *lookups) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answered, name)
}

// HostName is the name by which a box reaches the host's own loopback, if
// allow_private names it; localhost is the box itself. Names below internal are
// never assigned (ICANN resolution 2024.07.29.06).
const HostName = "host.belljar.internal"

// addresses returns the addresses to dial for a host, in the order of attempts.
func (d *Door) addresses(ctx context.Context, h policies.Host) ([]netip.Addr, error) {
	switch {
	case h.Name() == "":
		return []netip.Addr{h.Addr()}, nil
	case isLocal(h), h.Name() == HostName:
		// RFC 6761, 6.3: no resolver is asked. The name means the host's loopback, so only
		// allow_private can allow it.
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	addrs, err := d.lookups.find(ctx, h.Name())
	return interleave(addrs), err
}

// isLocal reports whether the name is localhost or below it.
func isLocal(h policies.Host) bool {
	return h.Name() == "localhost" || strings.HasSuffix(h.Name(), ".localhost")
}

// interleave alternates addresses of both families (RFC 8305, 4), so that a family
// that does not work delays only the first connection. Otherwise it keeps the
// order.
func interleave(addrs []netip.Addr) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	var first, second []netip.Addr
	for _, a := range addrs {
		if a.Is4() == addrs[0].Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	all := make([]netip.Addr, 0, len(addrs))
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			all = append(all, first[i])
		}
		if i < len(second) {
			all = append(all, second[i])
		}
	}
	return all
}

// boundReached is why a name that the policy allows gets no address.
type boundReached struct {
	reason, instead string
	passes          bool // whether the name may get an address later
}

// admit returns the address that stands for a name in the box, or the bound that was
// reached. It admits only a bounded number of names that no rule spells out.
func (d *Door) admit(snap *snapshot, h policies.Host) (netip.Addr, *boundReached) {
	if !snap.exact[h] && !d.names.knows(h) {
		const shorter = "Use a shorter name, or tell the person you work for: a rule can spell the name out."
		switch name := h.Name(); {
		case len(name) > maxFreeName:
			return netip.Addr{}, &boundReached{reason: fmt.Sprintf("a name that no rule spells out has at most %d characters here", maxFreeName), instead: shorter}
		case strings.Count(name, ".") >= maxFreeLabels:
			return netip.Addr{}, &boundReached{reason: fmt.Sprintf("a name that no rule spells out has at most %d parts here", maxFreeLabels), instead: shorter}
		case !d.free.take(time.Now(), freeNames/60.0, freeNames):
			return netip.Addr{}, &boundReached{
				reason:  fmt.Sprintf("the box has asked for too many names that no rule spells out, which are %d in a minute", freeNames),
				instead: "Go more slowly.", passes: true,
			}
		}
	}
	addr, ok := d.names.give(h)
	if !ok {
		return netip.Addr{}, &boundReached{
			reason: "connections to too many names are open", instead: "Close connections that are not needed any more.", passes: true,
		}
	}
	return addr, nil
}
