package config

import (
	"net"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// checkVariableName checks the name of an environment variable.
func (r *report) checkVariableName(at place, name string) {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		r.wrong(at, "", "%s is not a valid name of a variable", quoted(name))
	case Reserved(name):
		r.wrong(at, "remove it, or use another name", "the variable %s is one of belljar's own, which no server gets", quoted(name))
	}
}

// Headers that belong to the connection and its protocol (RFC 9110, section 7.2 and 7.6.1;
// MCP, Streamable HTTP). A file that could set the refused headers could reach another host
// of the same server, or another session. The idle headers are harmless: the transport
// replaces their values.
var (
	refusedHeaders = []string{
		"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Last-Event-Id", "Mcp-Method", "Mcp-Name",
		"Mcp-Protocol-Version", "Mcp-Session-Id", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	idleHeaders = []string{"Accept", "Content-Type"}
)

// header adds a header if it is allowed.
func (r *report) header(e *Entry, at place, name string, value Text) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !token(name):
		r.wrong(at, "a name has letters, digits and -", "%s is not a valid name of a header", quoted(name))
	case slices.Contains(refusedHeaders, canonical):
		r.wrong(at, "remove it", "the header %s belongs to the connection and cannot be set", quoted(name))
	case slices.Contains(idleHeaders, canonical):
		r.warn(at, "", "the header %s has no effect: the transport sets it", quoted(name))
	case slices.ContainsFunc(e.Headers, func(v Variable) bool { return v.Name == canonical }):
		r.wrong(at, "keep one of them", "the header %s is set twice", quoted(name))
	default:
		e.Headers = append(e.Headers, Variable{canonical, value})
	}
}

// token reports whether a text is a token of HTTP (RFC 9110, section 5.6.2).
func token(s string) bool {
	const others = "!#$%&'*+-.^_`|~"
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		letter := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		return !letter && !strings.ContainsRune(others, c)
	})
}

// checkHeaderValue checks the known parts of a header's value. A line break in it would let
// the file add another header or a second request.
func (r *report) checkHeaderValue(v Variable) {
	shown := v.Value.render(func(p piece) string { return p.text })
	if strings.ContainsFunc(shown, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		r.wrong(v.Value.at, "remove line breaks and control characters", "the value of the header %s cannot be sent", quoted(v.Name))
	}
}

// Characters that no URL contains. They stand for unknown parts of a URL: unseen for a
// secret, and unset for a value that Expand will fill in.
const (
	unseen = "\uffff"
	unset  = "\ufffe"
)

// checkURL checks the known parts of a URL. Expand calls it again with the values of
// variables, so finally every part except secrets has been checked.
func (r *report) checkURL(t Text, headers bool) {
	const hint = "write https://HOST/PATH"
	whole := t.render(func(p piece) string { return p.text })
	if strings.ContainsFunc(whole, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' || c >= 0xfffe }) {
		r.wrong(t.at, hint, "the URL contains a space, a line break, a backslash or another character that a URL cannot contain")
		return
	}
	shown := t.render(func(p piece) string {
		switch {
		case p.ref == secret:
			return unseen
		case !p.known:
			return unset
		}
		return p.text
	})
	scheme, rest, _ := strings.Cut(shown, "://")
	host := rest
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		host = rest[:at]
	}
	begin, _, _ := strings.Cut(shown, "/")
	u, err := url.Parse(strings.NewReplacer(unseen, "x", unset, "x").Replace(shown))
	switch {
	case strings.Contains(begin+host, unseen):
		r.wrong(t.at, hint, "a secret can be used only after the host of a URL")
	case strings.Contains(begin, unset): // the scheme is not known yet
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		r.wrong(t.at, hint, "the URL does not begin with http or https, and no other scheme is supported")
	case strings.Contains(host, "@"):
		r.wrong(t.at, "put the user and the password into a header, as a secret", "the URL contains a user or a password")
	case strings.Contains(shown, "#"):
		r.wrong(t.at, "remove it", "the URL contains a fragment, which is never sent")
	case strings.Contains(host, unset): // the host is not known yet
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		r.wrong(t.at, hint, "this is not a valid URL with a host")
	case u.Scheme == "http" && headers && !loopback(u.Hostname()):
		r.warn(t.at, "write https://", "the headers go to %s unencrypted", quoted(u.Hostname()))
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
