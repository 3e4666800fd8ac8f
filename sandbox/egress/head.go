package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/policies"
)

// Bounds of the head of one request.
const (
	maxHead   = 64 << 10 // size of a head in bytes
	maxFields = 128
)

// head is the head of one HTTP/1 request, read so strictly that no server can
// read it differently.
type head struct {
	method string
	target string // target as it arrived
	minor  int    // x in HTTP/1.x
	fields []field
	host   string // value of the only Host header; a CONNECT of HTTP/1.0 may have none
	length int64  // length of the body in bytes; -1 for a chunked body
}

// field is one header line: its name as it arrived, and its value without the blanks around
// it.
type field struct{ name, value string }

// badRequest is the error for a head that cannot be relayed, with the status of the answer.
type badRequest struct {
	status int
	reason string
}

func (e *badRequest) Error() string { return e.reason }

func bad(format string, args ...any) error {
	return &badRequest{status: 400, reason: fmt.Sprintf(format, args...)}
}

// parseHead reads a head with the empty line that ends it (RFC 9112, 2 to 6). It is strict
// where the RFC lets a recipient be lenient: lines end in CR LF, one space separates the
// parts of the request line, no blank stands before a colon, no value continues on the next
// line, Host, Content-Length and Transfer-Encoding occur at most once, and the last two do
// not occur together.
func parseHead(raw []byte) (head, error) {
	text, whole := bytes.CutSuffix(raw, []byte("\r\n\r\n"))
	if !whole {
		return head{}, bad("the head of a request does not end in an empty line")
	}
	lines := strings.Split(string(text), "\r\n")
	if len(lines) > maxFields+1 {
		return head{}, &badRequest{431, fmt.Sprintf("a request has %d header lines; at most %d are read", len(lines)-1, maxFields)}
	}
	h, err := parseRequestLine(lines[0])
	if err != nil {
		return head{}, err
	}
	for _, line := range lines[1:] {
		f, err := parseField(line)
		if err != nil {
			return head{}, err
		}
		h.fields = append(h.fields, f)
	}
	if h.length, err = h.framing(); err != nil {
		return head{}, err
	}
	switch hosts := h.values("Host"); {
	case len(hosts) > 1, len(hosts) == 0 && h.method != "CONNECT":
		return head{}, bad("a request has %d Host headers in place of one", len(hosts))
	case len(hosts) == 1:
		h.host = hosts[0]
	}
	return h, nil
}

func parseRequestLine(line string) (head, error) {
	method, rest, ok := strings.Cut(line, " ")
	target, version, two := strings.Cut(rest, " ")
	switch {
	case !ok || !two || strings.Contains(version, " "):
		return head{}, bad("a request line is not a method, a target and a version with one space between them")
	case method == "" || len(method) > maxMethod || !isTokens(method):
		return head{}, bad("a request has a method that is not a token of at most %d characters", maxMethod)
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return head{}, bad("a request has a version that is neither HTTP/1.1 nor HTTP/1.0")
	case target == "":
		return head{}, bad("a request has no target")
	}
	for _, b := range []byte(target) {
		// Some servers end the path at a #.
		if b <= ' ' || b >= 0x7f || b == '#' {
			return head{}, bad("a request target contains the byte 0x%02x, which must be escaped", b)
		}
	}
	return head{method: method, target: target, minor: int(version[7] - '0')}, nil
}

func parseField(line string) (field, error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" || !isTokens(name) {
		return field{}, bad("a header line has no name directly before its colon")
	}
	value = strings.Trim(value, " \t")
	for _, b := range []byte(value) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return field{}, bad("the header %s contains the byte 0x%02x", policies.Clip(name, 40), b)
		}
	}
	return field{name, value}, nil
}

// framing returns the length of the body, -1 for a chunked body (RFC 9112, 6.3).
func (h head) framing() (int64, error) {
	codings, lengths := h.values("Transfer-Encoding"), h.values("Content-Length")
	switch {
	case len(codings) > 0 && len(lengths) > 0:
		return 0, bad("a request has both a Transfer-Encoding and a Content-Length")
	case len(codings) > 1 || len(lengths) > 1:
		return 0, bad("a request gives the length of its body twice")
	case len(codings) == 1 && (h.minor == 0 || !strings.EqualFold(codings[0], "chunked")):
		return 0, bad("a request has a Transfer-Encoding other than chunked, or one in HTTP/1.0")
	case len(codings) == 1:
		return -1, nil
	case len(lengths) == 0:
		return 0, nil
	}
	// ParseInt accepts signs; 18 digits cannot overflow.
	n, err := strconv.ParseInt(lengths[0], 10, 64)
	if err != nil || len(lengths[0]) > 18 || strings.Trim(lengths[0], "0123456789") != "" {
		return 0, bad("a request has a Content-Length that is not a number of at most 18 digits")
	}
	return n, nil
}

// values returns the values of all headers of a name.
func (h head) values(name string) []string {
	var values []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			values = append(values, f.value)
		}
	}
	return values
}

// options returns the members of the comma-separated headers of a name, in lower case
// (RFC 9110, 5.6.1).
func (h head) options(name string) []string {
	var all []string
	for _, v := range h.values(name) {
		for option := range strings.SplitSeq(v, ",") {
			if option = strings.ToLower(strings.Trim(option, " \t")); option != "" {
				all = append(all, option)
			}
		}
	}
	return all
}

// hopByHop are the headers for the next hop alone (RFC 9110, 7.6.1), and Content-Length and
// Host. They are not passed on; the door itself writes those that it needs.
var hopByHop = []string{
	"connection", "content-length", "host", "http2-settings", "keep-alive", "proxy-authenticate",
	"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// handOn returns the headers that are passed on to the next hop.
func (h head) handOn() ([]field, error) {
	named := h.options("Connection")
	for _, option := range named {
		// A header that Connection names is dropped. Without one of these headers, the
		// request would mean something else to the next reader.
		switch option {
		case "content-length", "transfer-encoding", "host", "authorization", "cookie":
			return nil, bad("a request's Connection header names %s, which must be handed on", option)
		}
	}
	var fields []field
	for _, f := range h.fields {
		name := strings.ToLower(f.name)
		if !slices.Contains(hopByHop, name) && !slices.Contains(named, name) {
			fields = append(fields, f)
		}
	}
	return fields, nil
}

// websocket reports whether the request asks to become a websocket (RFC 6455, 4.1). Other
// upgrades are not passed on: the door could not judge what follows an upgrade to HTTP/2.
func (h head) websocket() bool {
	return h.method == "GET" && h.minor == 1 && h.length == 0 &&
		slices.Contains(h.options("Connection"), "upgrade") && slices.Equal(h.options("Upgrade"), []string{"websocket"})
}

// last reports whether the client sends nothing after this request.
func (h head) last() bool {
	return h.minor == 0 || slices.Contains(h.options("Connection"), "close") || slices.Contains(h.options("Proxy-Connection"), "close")
}

// place is where a request goes.
type place struct {
	host   policies.Host
	port   uint16
	target string // target for the request line: path and query, or * for OPTIONS
	path   string // path as it arrived, escaped, without the query
}

// place returns where the request goes. The Host header names the host and port; a target
// that is a whole URL must name the same. If no port is named, it is that of the scheme.
func (h head) place(scheme string) (place, error) {
	own := ownPort(scheme)
	host, port, err := parseAuthority(h.host, own)
	if err != nil {
		return place{}, bad("a request's Host header: %v", err)
	}
	p := place{host: host, port: port, target: h.target}
	if !strings.HasPrefix(h.target, "/") && h.target != "*" {
		prefix := scheme + "://"
		if len(h.target) < len(prefix) || !strings.EqualFold(h.target[:len(prefix)], prefix) {
			return place{}, bad("a request target is neither a path nor a URL of %s", scheme)
		}
		rest := h.target[len(prefix):]
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		host, port, err := parseAuthority(rest[:end], own)
		switch {
		case err != nil:
			return place{}, bad("a request target: %v", err)
		case host != p.host || port != p.port:
			return place{}, bad("a request target names %s and its Host header names %s", hostPort(host, port, ""), hostPort(p.host, p.port, ""))
		}
		if p.target = rest[end:]; !strings.HasPrefix(p.target, "/") {
			p.target = "/" + p.target
		}
	}
	if p.target == "*" && h.method != "OPTIONS" {
		return place{}, bad("a request has the target *, which only OPTIONS may have")
	}
	p.path, _, _ = strings.Cut(p.target, "?")
	if _, err := url.PathUnescape(p.path); err != nil {
		return place{}, bad("a request path has a %% that escapes nothing")
	}
	return p, nil
}

// parseAuthority reads HOST or HOST:PORT. own is the port if none is written; if own is 0,
// a port must be written.
func parseAuthority(s string, own uint16) (policies.Host, uint16, error) {
	if len(s) > 300 {
		return policies.Host{}, 0, fmt.Errorf("%d characters are too many for a host and a port", len(s))
	}
	if strings.Contains(s, "@") {
		return policies.Host{}, 0, errors.New("user information stands before the host")
	}
	name, port := s, own
	// An IPv6 address is in brackets here (RFC 3986, 3.2.2), so the last colon
	// outside of them precedes the port.
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		n, err := parsePort(s[i+1:])
		if err != nil {
			return policies.Host{}, 0, err
		}
		name, port = s[:i], n
	}
	if port == 0 {
		return policies.Host{}, 0, errors.New("no port is named")
	}
	if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return policies.Host{}, 0, errors.New("an IPv6 address stands without its brackets")
	}
	host, err := policies.ParseHost(name)
	return host, port, err
}

// ownPort returns the port of a scheme if no port is named.
func ownPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

func isTokens(s string) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return true
}
