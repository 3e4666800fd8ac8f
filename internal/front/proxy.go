package front

import (
	"fmt"
	"net/netip"
)

// parsePrefixes reads the networks of proxies. A plain address is a network of one.
func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if ip, single := netip.ParseAddr(text); single == nil && ip.Zone() == "" {
			p, err = netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("--behind-proxy %q: want the network of the proxy, for example 10.0.0.0/8 or 10.1.2.3", text)
		case p.Bits() == 0:
			return nil, fmt.Errorf("--behind-proxy %q: this is every address, and anybody could say who a request comes from; name the network of the proxy", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

func contains(all []netip.Prefix, ip netip.Addr) bool {
	for _, p := range all {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
