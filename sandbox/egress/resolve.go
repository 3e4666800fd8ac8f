package egress

import (
	"context"
	"net"
	"net/netip"

	"belljar.dev/policies"
)

// Resolver finds the addresses of a name. It must be safe for concurrent use.
// The name is absolute and has no closing dot.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// hostResolver is the host's own, without its search domains: the name that was
// judged is the name that is asked for.
type hostResolver struct{}

var hostDNS = &net.Resolver{PreferGo: true}

// LookupNetIP asks for the name with a closing dot, which makes it absolute.
func (hostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return hostDNS.LookupNetIP(ctx, network, host+".")
}

type lookups struct{ resolver Resolver }

func newLookups(r Resolver) *lookups { return &lookups{resolver: r} }

// admit reports whether the name may be used at all.
func (d *Door) admit(snap *snapshot, h policies.Host) error { return nil }
