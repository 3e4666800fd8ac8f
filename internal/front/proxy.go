package front

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// parsePrefixes parses the networks of proxies. A plain address is a network with one
// address.
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
			return nil, fmt.Errorf("--behind-proxy %q: this is every address, and anybody could forge the origin of a request; name the network of the proxy", text)
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

// addrOf returns the address in HOST:PORT, or the zero Addr if the host is not an address.
func addrOf(hostPort string) netip.Addr {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// sender returns the address of the client that a request comes from. A header with that
// address is trusted only from a proxy. It is read from right to left, because each proxy
// appends the address that it got the request from: the client may have made up everything
// to the left of the first address that does not belong to a proxy.
func sender(r *http.Request, proxies []netip.Prefix) netip.Addr {
	from := addrOf(r.RemoteAddr)
	if !contains(proxies, from) {
		return from
	}
	hops := forwarded(r.Header)
	for i := len(hops) - 1; i >= 0 && contains(proxies, from); i-- {
		if !hops[i].IsValid() {
			break // hidden or not readable, so only the last proxy is known
		}
		from = hops[i]
	}
	return from
}

// LocalSender returns the address of the client that a request comes from, with only this
// machine's own proxies trusted. It is the zero Addr if the address cannot be found out.
func LocalSender(r *http.Request) netip.Addr { return sender(r, loopback) }

// loopback are the addresses of this machine's own proxies.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// forwarded returns the addresses in X-Forwarded-For, or if that header is missing, in
// Forwarded (RFC 7239). If a request has both, a proxy wrote only one of them and may have
// passed on the other one from the client, so neither counts.
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

// hopAddr parses ADDRESS, ADDRESS:PORT, [ADDRESS] or [ADDRESS]:PORT.
func hopAddr(text string) netip.Addr {
	text = strings.TrimSpace(text)
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return ip.Unmap().WithZone("")
	}
	return addrOf(text)
}
