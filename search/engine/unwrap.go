package engine

import (
	"encoding/base64"
	"net/netip"
	"net/url"
	"strings"
)

// result returns the address that a link of an answer leads to, made absolute and read out
// of the engine's own redirects. It returns false if the address is not a result: a link of
// the engine itself, an advertisement, or an address that no agent should follow.
func (e *Engine) result(link string, base *url.URL) (string, bool) {
	link = strings.TrimSpace(link)
	address, u, ok := absolute(link, base)
	if !ok {
		return "", false
	}
	for range 2 { // a redirect can lead to a second redirect, and to no third
		inner, found := e.inner(u)
		if !found {
			break
		}
		if address, u, ok = absolute(inner, base); !ok {
			return "", false
		}
	}
	for _, d := range e.drops {
		if d.MatchString(address) {
			return "", false
		}
	}
	return address, public(u)
}

// absolute returns a link as an absolute address. A link that is absolute already is kept
// as it is written.
func absolute(link string, base *url.URL) (string, *url.URL, bool) {
	if strings.ContainsAny(link, " \t\r\n\"<>\\`") || hasControl(link) {
		link = strings.NewReplacer(" ", "%20", `"`, "%22", "<", "%3C", ">", "%3E", "`", "%60", "\\", "%5C", "\t", "", "\r", "", "\n", "").Replace(link)
	}
	u, err := url.Parse(link)
	if err != nil || u.Opaque != "" || link == "" || strings.HasPrefix(link, "#") {
		return "", nil, false
	}
	if !u.IsAbs() || u.Host == "" {
		if base == nil || u.IsAbs() {
			return "", nil, false
		}
		u = base.ResolveReference(u)
		link = u.String()
	}
	return link, u, (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// public reports whether an address may be shown: an address with credentials, a name
// without dots or a private IP address is not a result of a web search.
func public(u *url.URL) bool {
	host := strings.TrimSuffix(u.Hostname(), ".")
	if u.User != nil || !strings.ContainsAny(host, ".:") {
		return false
	}
	for _, end := range []string{".localhost", ".local", ".internal", ".lan", ".home", ".corp", ".home.arpa"} {
		if strings.HasSuffix(strings.ToLower(host), end) {
			return false
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		// A browser takes 0x7f.1 and 2130706433 for addresses. The last label of a name on
		// the web does not begin with a digit.
		last := host[strings.LastIndexByte(host, '.')+1:]
		return last != "" && (last[0] < '0' || last[0] > '9')
	}
	addr = addr.Unmap()
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !reserved(addr)
}

// reserves are address ranges that are global by their form, but not reachable as such.
var reserves = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

func reserved(a netip.Addr) bool {
	for _, p := range reserves {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// inner returns the address inside a redirecting address, and whether there is one.
func (e *Engine) inner(u *url.URL) (string, bool) {
	for _, w := range e.unwraps {
		host := strings.ToLower(u.Hostname())
		if w.host != "" && host != w.host && !strings.HasSuffix(host, "."+w.host) || !strings.HasPrefix(u.Path, w.path) {
			continue
		}
		if s, ok := w.read(u); ok {
			return s, true
		}
	}
	return "", false
}

// read applies one rule to an address, and returns the address inside.
func (w unwrap) read(u *url.URL) (string, bool) {
	var s string
	if w.param != "" {
		s = u.Query().Get(w.param)
	} else {
		_, after, found := strings.Cut(u.EscapedPath(), w.start)
		if !found {
			return "", false
		}
		s, _, _ = strings.Cut(after, w.end)
		var err error
		if s, err = url.PathUnescape(s); err != nil {
			return "", false
		}
	}
	s, ok := strings.CutPrefix(s, w.strip)
	if !ok || s == "" {
		return "", false
	}
	if w.base64 {
		text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil {
			return "", false
		}
		s = string(text)
	}
	return s, strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}
