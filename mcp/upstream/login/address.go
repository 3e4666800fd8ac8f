package login

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"belljar.dev/internal/printable"
)

// maxAddress bounds the length of a URL, in bytes.
const maxAddress = 2 << 10

// remote is a server's URL. It decides which URLs the server's documents may name.
type remote struct {
	*url.URL
	local bool // the host is this machine
}

// parseServer parses the URL of a server. Plain HTTP is allowed only for a server on this
// machine: otherwise others could read its tokens on the way.
func parseServer(text string) (remote, error) {
	u, err := parse(text)
	if err != nil {
		return remote{}, fmt.Errorf("the URL of the server %w", err)
	}
	r := remote{canonical(u), loopback(u)}
	if u.Scheme != "https" && !r.local {
		return remote{}, errors.New("the URL of the server does not begin with https://, which only a server on this machine may omit: others could read its tokens on the way")
	}
	return r, nil
}

// endpoint parses a URL that a document of a server names. It must be https, and not on
// this machine. Only if the server itself is on this machine may the URL be on it too, and
// then plain HTTP is allowed. Otherwise a foreign document could send requests and the person's
// browser to services that trust this machine.
func (r remote) endpoint(what, text string) (*url.URL, error) {
	u, err := parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the %s %w", what, err)
	case loopback(u) && !r.local:
		return nil, fmt.Errorf("the %s %s is on this machine, but the server is not", what, show(text))
	case u.Scheme != "https" && !loopback(u):
		return nil, fmt.Errorf("the %s %s does not begin with https://", what, show(text))
	}
	return u, nil
}

// parse parses a URL of http or https with a host. It refuses a user, a password, a
// fragment, and hosts in an unusual form.
func parse(text string) (*url.URL, error) {
	if len(text) > maxAddress {
		return nil, fmt.Errorf("is longer than %d bytes", maxAddress)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, fmt.Errorf("%s is not a valid URL", show(text))
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || oddNumber(u.Hostname()):
		return nil, fmt.Errorf("%s does not begin with https:// and a host", show(text))
	case u.User != nil:
		return nil, errors.New("contains a user or a password")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, fmt.Errorf("%s contains a fragment", show(text))
	}
	return u, nil
}

// canonical returns the canonical form of a server's URL (RFC 8707, section 2; MCP,
// "Canonical Server URI"): lower case, no default port, no slash for an empty path.
func canonical(u *url.URL) *url.URL {
	c := *u
	c.Host = strings.ToLower(u.Hostname())
	if strings.Contains(c.Host, ":") {
		c.Host = "[" + c.Host + "]"
	}
	if port := u.Port(); port != "" && (u.Scheme != "https" || port != "443") && (u.Scheme != "http" || port != "80") {
		c.Host += ":" + port
	}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	c.ForceQuery = false
	return &c
}

// loopback reports whether the host of a URL is this machine, by its name or address alone.
func loopback(u *url.URL) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && (addr.Unmap().IsLoopback() || addr.IsUnspecified())
}

// oddNumber reports whether a host is an IP address in an unusual form, such as 127.1 or
// 0x7f000001. Browsers and resolvers accept these forms, and the checks here would not
// recognize them (URL Standard, "ends in a number").
func oddNumber(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// origin returns the scheme and the host of a URL.
func origin(u *url.URL) string {
	c := canonical(u)
	return c.Scheme + "://" + c.Host
}

// covers reports whether the resource in metadata is the server itself, or a part of its
// host that contains the server. Whole segments of the path are compared (RFC 9728, section
// 3.3). A token for only a part of the server, or for another part of its host, is a token
// for another resource.
func (r remote) covers(resource *url.URL) bool {
	c := canonical(resource)
	if origin(c) != origin(r.URL) || c.RawQuery != "" && c.RawQuery != r.RawQuery {
		return false
	}
	server, part := r.EscapedPath(), strings.TrimSuffix(c.EscapedPath(), "/")
	return strings.TrimSuffix(server, "/") == part || strings.HasPrefix(server, part+"/")
}

// port returns the port of a listener's address.
func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}

// mostShown is how many characters of a foreign text an error contains.
const mostShown = 120

// show returns the beginning of a foreign text for an error, quoted and in one line.
func show(text string) string { return `"` + printable.Line(text, mostShown) + `"` }
