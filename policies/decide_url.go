package policies

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// urlGlob is a pattern over a parsed URL. Matching the parts and not the text
// is what keeps https://pkg.go.dev@evil.example/ and
// https://pkg.go.dev.evil.example/ away from a rule about pkg.go.dev.
type urlGlob struct {
	scheme element
	host   string // "*", publicNames, "*.suffix" or a whole name
	port   string // "" for the port of the scheme, "*" for any port
	path   glob
}

// publicNames is the pattern of every host that "*" under allow of net matches:
// names of the public network, but no addresses.
const publicNames = "<public>"

func compileURL(s string) (urlGlob, error) {
	var g urlGlob
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return g, errors.New("has no scheme; begin it with https://")
	}
	if strings.ContainsAny(rest, "?#@") {
		return g, errors.New("may name scheme, host, port and path only")
	}
	host, path, ok := strings.Cut(rest, "/")
	if !ok {
		return g, fmt.Errorf("has no path; write %s/** for all of the host", s)
	}
	var err error
	if g.scheme, err = compileElement(scheme); err != nil {
		return g, err
	}
	if scheme == "" || g.scheme.any {
		return g, errors.New("has no scheme; write https, http or *")
	}
	g.host = strings.ToLower(host)
	if i := strings.LastIndexByte(g.host, ':'); i >= 0 && !strings.HasSuffix(g.host, "]") {
		g.host, g.port = g.host[:i], g.host[i+1:]
		if plain, err := plainPort(g.port); g.port != "*" && (err != nil || g.port != plain || plain == "") {
			return g, fmt.Errorf("has the port %q; write a number from 1 to 65535, without a zero in front, or *", g.port)
		}
	}
	if g.host != "*" && g.host != publicNames {
		name, below := strings.CutPrefix(g.host, "*.")
		h, err := ParseHost(name)
		if err != nil || below && h.Name() == "" {
			return g, fmt.Errorf("has the host %q; write a name, *.name, <public> or *", host)
		}
		if g.host = h.String(); below { // in the one form in which hosts are compared
			g.host = "*." + g.host
		}
	}
	if g.path, err = compilePath("/" + path); err != nil {
		return g, err
	}
	return g, nil
}

// hostname returns a host in the one form in which hosts are compared, that of
// ParseHost: a call is judged by the same host that is connected to.
func hostname(host string) (string, error) {
	if host == "" || host == "." {
		return "", errors.New("it names no host")
	}
	h, err := ParseHost(host)
	if err != nil {
		return "", err
	}
	return h.String(), nil
}

// address is a URL as patterns see it.
type address struct {
	scheme, host, port string
	path               []word
	vague              bool // servers differ in what the path means
}

// ParseURL reads a URL as rules do, or returns why no rule can judge it. The code that
// fetches an allowed URL uses the result, so that rules and connections read the URL in the
// same way. The host of the result is in the one form in which hosts are compared.
func ParseURL(s string) (*url.URL, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }); i >= 0 {
		return nil, errors.New("it contains a blank, a backslash or a control character")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read as a URL")
	case u.User != nil:
		return nil, errors.New("it carries user information before an @, which can pass for a host")
	case u.Scheme == "" || u.Opaque != "":
		return nil, errors.New("it has no scheme and host")
	}
	host, err := hostname(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := plainPort(u.Port())
	if err != nil {
		return nil, err
	}
	if u.Host = host; strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	return u, nil
}

// plainPort returns a port in the one form in which ports are compared: 0443 is 443 to
// browsers, and to the code that connects. An empty port stays empty.
func plainPort(port string) (string, error) {
	if port == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("its port is not a number from 1 to 65535")
	}
	return strconv.FormatUint(n, 10), nil
}

// readURL takes a URL apart, or returns why no rule can judge it.
func readURL(s string) (address, error) {
	u, err := ParseURL(s)
	if err != nil {
		return address{}, err
	}
	a := address{scheme: u.Scheme, port: u.Port()}
	if a.host, err = hostname(u.Hostname()); err != nil {
		return address{}, err
	}
	if a.port == "" {
		a.port = ownPort(a.scheme)
	}
	raw := u.EscapedPath()
	parts := strings.Split(strings.TrimPrefix(raw, "/"), "/")
	a.vague = strings.Contains(raw, "%") || strings.Contains(raw, "//") || slices.Contains(parts, "..") || slices.Contains(parts, ".")
	if raw != "" && raw != "/" {
		a.path = literals(parts)
	}
	return a, nil
}

// ownPort returns the port of a scheme, for a URL that names no port.
func ownPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// match returns how sure it is that the pattern matches a URL.
func (g urlGlob) match(a address) proof {
	port := g.port
	switch port {
	case "":
		port = ownPort(a.scheme)
	case "*":
		port = a.port
	}
	if !g.scheme.match(a.scheme) || port != a.port || !g.onHost(a.host) {
		return no
	}
	if a.vague && !g.path.everything() {
		return may
	}
	return g.path.match(a.path)
}

func (g urlGlob) onHost(host string) bool {
	suffix, below := strings.CutPrefix(g.host, "*")
	switch {
	case g.host == "*":
		return true
	case g.host == publicNames:
		h, err := ParseHost(host)
		return err == nil && h.Public()
	case below:
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return g.host == host
}
