package front

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
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

// addrOf is the address in HOST:PORT, or the zero Addr if the host is not an address.
func addrOf(hostPort string) netip.Addr {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// sender returns the address of the client that a request comes from. A header that names it is
// believed from a proxy only, and is read from right to left: each proxy appends the address
// that it got the request from, so the part to the left of the first address that is not a
// proxy's may be the client's own invention.
func sender(r *http.Request, proxies []netip.Prefix) netip.Addr {
	from := addrOf(r.RemoteAddr)
	if !contains(proxies, from) {
		return from
	}
	hops := forwarded(r.Header)
	for i := len(hops) - 1; i >= 0 && contains(proxies, from); i-- {
		if !hops[i].IsValid() {
			break // hidden or not readable: the last proxy is all that is known
		}
		from = hops[i]
	}
	return from
}

// LocalSender returns the address of the client that a request comes from, behind the proxies of
// this machine, if there are any. It is the zero Addr if it cannot be known.
func LocalSender(r *http.Request) netip.Addr { return sender(r, loopback) }

// loopback is where the proxies of this machine are.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// forwarded returns the addresses in X-Forwarded-For, or if there is no such header, in
// Forwarded (RFC 7239). Where a request has both, a proxy wrote one of them and may have
// passed the other on as the client sent it, so neither counts.
func forwarded(h http.Header) []netip.Addr {
	older, newer := h["X-Forwarded-For"], h["Forwarded"]
	var hops []netip.Addr
	switch {
	case len(older) > 0 && len(newer) > 0:
		return nil
	case len(older) > 0:
		for hop := range strings.SplitSeq(strings.Join(older, ","), ",") {
			hops = append(hops, hopAddr(hop))
		}
	case len(newer) > 0:
		for element := range strings.SplitSeq(strings.Join(newer, ","), ",") {
			hop := ""
			for pair := range strings.SplitSeq(element, ";") {
				if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, "for") {
					hop = strings.Trim(value, `"`)
				}
			}
			hops = append(hops, hopAddr(hop))
		}
	}
	return hops
}

// hopAddr reads ADDRESS, ADDRESS:PORT, [ADDRESS] or [ADDRESS]:PORT.
func hopAddr(text string) netip.Addr {
	text = strings.TrimSpace(text)
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return ip.Unmap().WithZone("")
	}
	return addrOf(text)
}
