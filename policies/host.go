package policies

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Host is a name or an address on the network, in the one form that both rules and
// connections use. So the host that was judged and the host that is dialled cannot differ.
// Hosts are comparable; the zero Host names nothing.
type Host struct {
	name string     // lower case, without a closing dot; empty for an address
	addr netip.Addr // unmapped, without a zone; invalid for a name
}

// maxHost bounds a name (RFC 1035, 2.3.4: 255 octets with their lengths), and
// maxLabel one part of it.
const (
	maxHost  = 253
	maxLabel = 63
)

// ParseHost reads a host as a client writes it: a name of letters, digits,
// hyphens and underscores between dots, or an address; an IPv6 address may have
// brackets. Anything else is refused, because it means different things to
// different readers. This includes names that a resolver would read as a number
// (2130706433, 0x7f.1, 127.1: inet_aton(3)).
func ParseHost(s string) (Host, error) {
	if bare, ok := strings.CutPrefix(s, "["); ok {
		bare, closed := strings.CutSuffix(bare, "]")
		addr, err := netip.ParseAddr(bare)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return Host{}, fmt.Errorf("host %s is not an IPv6 address", Clip(s, 80))
		}
		return HostAddr(addr), nil
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return Host{}, fmt.Errorf("host %s names a zone", Clip(s, 80))
		}
		return HostAddr(addr), nil
	}
	// Before the letters are made lower case: strings.ToLower makes the Kelvin sign a k.
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return Host{}, notName(s)
	}
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	switch {
	case name == "":
		return Host{}, errors.New("no host is named")
	case len(name) > maxHost:
		return Host{}, fmt.Errorf("a host of %d characters; a name has at most %d", len(name), maxHost)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
			return Host{}, notName(s)
		case label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-':
			return Host{}, fmt.Errorf("host %s is not a name: between dots it must have 1 to %d characters, and no hyphen first or last", Clip(s, 80), maxLabel)
		}
		last = label
	}
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return Host{}, fmt.Errorf("host %s is not a name: its last part is a number; write an address as four numbers from 0 to 255", Clip(s, 80))
	}
	return Host{name: name}, nil
}

func notName(s string) error {
	return fmt.Errorf("host %s is not a name: it contains more than letters, digits, hyphens, underscores and dots; write other letters in the xn-- form", Clip(s, 80))
}

// HostAddr returns the host of an address. An IPv4 address in its IPv6-mapped form is the
// IPv4 address.
func HostAddr(addr netip.Addr) Host { return Host{addr: addr.Unmap().WithZone("")} }

// IsZero reports whether h is the zero Host.
func (h Host) IsZero() bool { return h == Host{} }

// Name returns the host's name, or an empty text if the host is an address.
func (h Host) Name() string { return h.name }

// Addr returns the host's address, or an invalid one if the host is a name.
func (h Host) Addr() netip.Addr { return h.addr }

// String returns the name or the address, without brackets.
func (h Host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// ownNames are domains whose names are not those of the public DNS: of RFC 6761, 6762, 7686
// and 8375, and the top level that ICANN has reserved for private use.
var ownNames = []string{".localhost", ".local", ".internal", ".home.arpa", ".onion"}

// Public reports whether "*" matches the host: a name that anyone can resolve. A name of
// one label is not public: a search list decides what it means.
func (h Host) Public() bool {
	return strings.Contains(h.name, ".") &&
		!slices.ContainsFunc(ownNames, func(own string) bool { return strings.HasSuffix("."+h.name, own) })
}
