package search

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/idna"

	"belljar.dev/internal/printable"
	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// longestURL bounds the address of a result, in bytes.
const longestURL = 2048

// spot is the address of a result. Two URLs that engines use for one page have the same
// key.
type spot struct {
	url  string // address that is shown and opened
	host string // in lower case
	key  string
}

// locate parses the address of a result. It returns false if no agent should get the
// address: a script, a file, another scheme, an address with credentials, or a host of a
// private network. Nothing is ever fetched to find out.
func locate(raw string) (spot, bool) {
	if len(raw) > longestURL || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || !printable.Rune(r) }) {
		return spot{}, false
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return spot{}, false
	}
	host, ok := publicHost(u.Hostname())
	if !ok {
		return spot{}, false
	}
	// The host is written as browsers send it. So nobody takes a letter of another script
	// for an ASCII letter, and both spellings of a name are one host.
	if !strings.Contains(host, ":") && !strings.EqualFold(host, strings.TrimSuffix(u.Hostname(), ".")) {
		if p := u.Port(); p != "" {
			u.Host = net.JoinHostPort(host, p)
		} else {
			u.Host = host
		}
	}
	u.RawQuery = untracked(u.RawQuery)
	if before, _, found := strings.Cut(u.EscapedFragment(), ":~:"); found { // text to scroll to and to highlight
		u.Fragment, u.RawFragment = "", ""
		if f, err := url.PathUnescape(before); err == nil {
			u.Fragment, u.RawFragment = f, before
		}
	}
	return spot{url: u.String(), host: host, key: key(u, host)}, true
}

// untracked returns a query without the parameters that only say where a reader came from.
// All else stays as it was written.
func untracked(query string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); !tracking(name) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// publicHost returns a host in lower case, and whether it may be on the public internet.
func publicHost(s string) (string, bool) {
	h, err := policies.ParseHost(s)
	switch {
	case err != nil:
		return foreignHost(s)
	case h.Addr().IsValid():
		return h.String(), egress.Public(h.Addr())
	}
	return h.Name(), !privateName(h.Name())
}

// foreignHost returns the xn-- form of a name in another script, which is the form that
// browsers send.
func foreignHost(s string) (string, bool) {
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(s, "."))
	if err != nil || name == s {
		return "", false
	}
	h, err := policies.ParseHost(name)
	if err != nil || h.Addr().IsValid() {
		return "", false
	}
	return h.Name(), !privateName(h.Name())
}

// privateName reports whether a name is valid only in some networks (RFC 6761, RFC 6762,
// RFC 8375, and names that ICANN reserves for private use).
func privateName(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch last {
	case "localhost", "local", "internal", "lan", "home", "corp", "intranet", "localdomain", "invalid":
		return true
	}
	return strings.HasSuffix(name, ".home.arpa")
}

// key returns a text that is the same for all addresses of one page. It ignores http or
// https, www, hosts for small screens, an index file, a closing slash and a fragment that
// only scrolls. The case of a path counts.
func key(u *url.URL, host string) string {
	var b strings.Builder
	if id := strings.TrimPrefix(u.EscapedPath(), "/"); host == "youtu.be" && id != "" && !strings.Contains(id, "/") {
		short := *u
		u, host = &short, "youtube.com"
		u.Path, u.RawPath, u.RawQuery = "/watch", "", strings.TrimSuffix("v="+id+"&"+u.RawQuery, "&")
	}
	b.WriteString(wideHost(host))
	if p := u.Port(); p != "" && u.Scheme+p != "http80" && u.Scheme+p != "https443" {
		b.WriteString(net.JoinHostPort("", p))
	}
	path := plainPath(u)
	for _, index := range []string{"/index.html", "/index.htm", "/index.php"} {
		path = strings.TrimSuffix(path, index)
	}
	b.WriteString(strings.TrimRight(path, "/"))
	sep := byte('?')
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if pair == "" {
			continue
		}
		b.WriteByte(sep)
		b.WriteString(pair)
		sep = '&'
	}
	if strings.HasPrefix(u.Fragment, "!") { // the fragment names the page, in applications with "#!" addresses
		b.WriteString("#" + u.EscapedFragment())
	}
	return b.String()
}

// wideHost returns the main host of a site for its host for small screens or with an older
// look, if both have the same paths.
func wideHost(host string) string {
	host = strings.TrimPrefix(host, "www.")
	if lang, ok := strings.CutSuffix(host, ".m.wikipedia.org"); ok {
		return lang + ".wikipedia.org"
	}
	switch host {
	case "old.reddit.com", "new.reddit.com", "m.youtube.com", "m.facebook.com", "mobile.twitter.com", "m.imdb.com":
		_, host, _ = strings.Cut(host, ".")
	}
	return host
}

// plainPath returns a path in which only the necessary characters are escaped (RFC 3986,
// section 6.2.2.2): %7E becomes ~.
func plainPath(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.Contains(path, "%") {
		return path
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b.WriteByte(path[i])
			continue
		}
		one, err := url.PathUnescape(path[i : i+3])
		c := byte(0)
		if err == nil {
			c = one[0]
		}
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
		i += 2
	}
	return b.String()
}

// tracking reports whether a parameter only says where a reader came from.
func tracking(name string) bool {
	switch name = strings.ToLower(name); name {
	case "gclid", "fbclid", "msclkid", "dclid", "yclid", "gbraid", "wbraid", "igshid", "twclid", "mc_cid", "mc_eid", "srsltid", "ref_src", "_ga", "_gl":
		return true
	}
	return strings.HasPrefix(name, "utm_")
}

// under reports whether a host is a domain or one of its subdomains.
func under(host, domain string) bool {
	domain = strings.ToLower(strings.Trim(strings.TrimPrefix(domain, "*."), "."))
	rest, ok := strings.CutSuffix(host, domain)
	return ok && domain != "" && (rest == "" || strings.HasSuffix(rest, "."))
}
