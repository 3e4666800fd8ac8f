// Package origin decides by which names an HTTP server may be reached, and which web pages
// may use it. The front calls it for each request on each route. Package mcp calls it for
// its handler when the handler is used without the front.
//
// A page of any site can make a browser send requests to loopback and to the network of its
// user. Two headers reveal such a page, since no page can set them. Host is the name by
// which the browser found the server: a page of evil.example, a name that resolves to
// 127.0.0.1 (DNS rebinding), sends Host: evil.example. Origin is the site of the page. CORS
// in the browser only hides the answer from the page, after the request was served. So both
// headers are checked here.
package origin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard contains the names of a server and the pages that may use it. The zero value allows
// the names and addresses of loopback, and the pages that the server serves itself.
type Guard struct {
	Hosts   []string // further names of the server, from ParseHost
	Origins []string // origins of further pages, from ParseOrigin
}

// Errors of Check. The sender of the request reads their texts.
var (
	ErrHost   = errors.New("this server does not go by the name in the Host header; connect to a loopback address, or have its operator name it with --host or --public-url")
	ErrOrigin = errors.New("web pages of other origins may not use this server; its operator can name one with --origin")
)

// Check returns ErrHost or ErrOrigin for a request that must not be served. It does not
// read the body.
func (g Guard) Check(r *http.Request) error {
	if !g.knows(r) {
		return ErrHost
	}
	values, sent := r.Header["Origin"]
	if !sent {
		// A browser sends no Origin with some requests that only read, such as those for
		// images. It sends Sec-Fetch-Site with such requests, which states which page they
		// come from. Clients that are not browsers do not send this header.
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			return nil
		}
		return ErrOrigin
	}
	if len(values) != 1 {
		return ErrOrigin
	}
	page, err := ParseOrigin(values[0])
	if err != nil || !slices.Contains(g.Origins, page) && page != own(r) {
		return ErrOrigin
	}
	return nil
}

// knows reports whether the Host of a request is one of loopback, one of Hosts, or the
// address at which the connection arrived. DNS rebinding cannot change an address.
func (g Guard) knows(r *http.Request) bool {
	host, err := ParseHost(r.Host)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || slices.Contains(g.Hosts, host)
	}
	if ip.IsLoopback() || slices.Contains(g.Hosts, host) {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip
}

// own returns the origin of the server's own pages in the form that this client sees.
func own(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	page, err := ParseOrigin(scheme + "://" + r.Host)
	if err != nil {
		return "" // no page has the empty text as its origin
	}
	return page
}

// ParseHost returns the name or address in a Host header, in lower case and without port
// and brackets. Any other text is an error, since HTTP parsers differ in how they read it.
func ParseHost(host string) (string, error) {
	name := strings.ToLower(host)
	if rest, found := strings.CutPrefix(name, "["); found {
		inner, port, closed := strings.Cut(rest, "]")
		ip, err := netip.ParseAddr(inner)
		if !closed || err != nil || !ip.Is6() || ip.Zone() != "" || port != "" && !isPort(port) {
			return "", fmt.Errorf("%q is not a host", host)
		}
		return ip.Unmap().String(), nil
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		if !isPort(name[i:]) {
			return "", fmt.Errorf("%q is not a host", host)
		}
		name = name[:i]
	}
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-._", c)
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return "", fmt.Errorf("%q is not a host", host)
	}
	return name, nil
}

// isPort reports whether s is a colon and a port.
func isPort(s string) bool {
	digits, ok := strings.CutPrefix(s, ":")
	return ok && digits != "" && len(digits) <= 5 && strings.Trim(digits, "0123456789") == ""
}

// ParseOrigin returns the origin of a web page in the form that browsers send: scheme,
// host, and the port if it is not the default of the scheme (RFC 6454, 6.2).
func ParseOrigin(text string) (string, error) {
	bad := fmt.Errorf("%q is not an origin; want SCHEME://HOST[:PORT], for example https://app.example", text)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || strings.HasSuffix(text, "#") {
		return "", bad
	}
	host, err := ParseHost(u.Host)
	if err != nil {
		return "", bad
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := u.Port()
	if port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		return u.Scheme + "://" + host, nil
	}
	return u.Scheme + "://" + host + ":" + port, nil
}
