package egress

import "net/netip"

// Public reports whether an address is public: global unicast, and in no row of the
// special-purpose registries. The host's own addresses count as public here; a Door knows
// them, and connects to none of them.
func Public(addr netip.Addr) bool { return classify(addr.Unmap()).public }
