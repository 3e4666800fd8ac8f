package sandbox_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// bypassHTTP returns attempts by the content of a request.
func bypassHTTP() []bypass {
	const j = "judged.example"
	on := func(text string, words ...string) func(*place) (string, error) { return asks(j+":80", text, words...) }
	const only, admin = "the profile allows only some requests", "/admin"
	list := []bypass{
		{name: "a method that no rule allows", act: on(request("DELETE", j, "/v1/x"), "DELETE"), says: only},
		{name: "a method in lower case", act: on(request("delete", j, "/v1/x"), "delete"), says: only},
		{name: "a path that no rule allows", act: on(get(j, admin), admin), says: only},
		{name: "a request for another host on an allowed connection", act: asks("allowed.example:80", get("denied.example", "/"), "denied.example"), says: "its Host header names denied.example"},
		{name: "a request for another port in Host", act: asks("allowed.example:80", get("allowed.example:22", "/"), ":22"), says: "its Host header names allowed.example:22"},
		{name: "a whole URL of another host", act: asks("allowed.example:80", get("denied.example", "http://denied.example/")), says: "its Host header names denied.example"},
		{name: "a whole URL that Host does not agree with", act: asks("allowed.example:80", get("allowed.example", "http://denied.example/")), says: "a request target names denied.example:80 and its Host header names allowed.example:80"},
		{name: "a whole URL with user information", act: asks("allowed.example:80", get("allowed.example", "http://allowed.example@denied.example/")), says: "user information stands before the host"},
		{name: "a tunnel through an allowed host that is a proxy", act: tunnelVia("allowed.example:80", "denied.example:80"), says: "a tunnel through this host would hide where it leads"},
		{name: "a tunnel in a tunnel", act: tunnelInTunnel, says: "a tunnel through this host would hide where it leads"},
		{name: "a tunnel that is asked for after another request", act: tunnelAfter, says: "the profile denies it"},
		{name: "a request to the proxy for a denied host", act: asks(doorProxy, get("denied.example", "http://denied.example/")), says: "the profile denies it"},
		{name: "a request to the proxy for a loopback address", act: asks(doorProxy, get("127.0.0.1", "http://127.0.0.1/")), says: "no rule of the profile names it"},
		{name: "a request to the proxy for a number", act: asks(doorProxy, get("2130706433", "http://2130706433/")), says: "is a number"},
		{name: "a second request to the proxy for another host", act: secondRequest, says: "the profile denies it"},
		{name: "a password for a proxy further on", fails: `no "Proxy-Authorization"`, act: asks("allowed.example:80", get("allowed.example", "/", "Proxy-Authorization: Basic eDp4"), "Proxy-Authorization")},
		{name: "two Host headers", act: on(get(j, "/v1/x", "Host: denied.example"), "denied.example"), says: "has 2 Host headers"},
		{name: "no Host header", act: on("GET /v1/x HTTP/1.1\r\n\r\n"), says: "has 0 Host headers"},
		{name: "a header that runs on in the next line", act: on(get(j, "/v1/x", "X: a", " X-Method-Override: PUT")), says: "no name directly before its colon"},
		{name: "a blank before a colon", act: on(get(j, "/v1/x", "Transfer-Encoding : chunked")), says: "no name directly before its colon"},
		{name: "a NUL in a header", act: on(get(j, "/v1/x", "X: a\x00b")), says: "contains the byte 0x00"},
		{name: "a lone CR in a header", act: on(get(j, "/v1/x", "X: a\rX-Method-Override: PUT")), says: "contains the byte 0x0d"},
		{name: "lines that end in LF", act: on("GET /v1/x HTTP/1.1\nHost: " + j + "\n\n"), says: "does not end in an empty line"},
		{name: "a tab in the request line", act: on("GET\t/admin HTTP/1.1\r\nHost: " + j + "\r\n\r\n"), says: "a request line is not"},
		{name: "a version of HTTP that is none", act: on("GET /admin HTTP/1.10\r\nHost: " + j + "\r\n\r\n"), says: "a version that is neither"},
		{name: "a request of HTTP/0.9", act: on("GET /admin\r\n", admin), says: "does not begin with an HTTP/1 request"},
		{name: "an empty line before the request", act: on("\r\n" + get(j, admin)), says: "does not end in an empty line"},
		{name: "a length and chunks", act: on(smuggled("Content-Length: 4", "Transfer-Encoding: chunked"), "GET /admin"), says: "both a Transfer-Encoding and a Content-Length"},
		{name: "two lengths", act: on(smuggled("Content-Length: 4", "Content-Length: 0"), "GET /admin"), says: "gives the length of its body twice"},
		{name: "a length with a sign", act: on(smuggled("Content-Length: +4"), "GET /admin"), says: "a Content-Length that is not a number"},
		{name: "a list of lengths", act: on(smuggled("Content-Length: 4, 0"), "GET /admin"), says: "a Content-Length that is not a number"},
		{name: "another coding beside chunks", act: on(smuggled("Transfer-Encoding: chunked, identity"), "GET /admin"), says: "a Transfer-Encoding other than chunked"},
		{name: "chunks in HTTP/1.0", act: on(strings.Replace(smuggled("Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1), "GET /admin"), says: "one in HTTP/1.0"},
		{name: "a request behind another one", act: on(get(j, "/v1/x")+get(j, admin), "GET /admin"), says: only},
		{name: "a request in a body", fails: "no \"GET /admin\"", act: bodyAsRequest},
		{name: "headers of 1 MB", act: on(get(j, "/v1/x", "X: "+strings.Repeat("x", 1<<20)), "xxx"), says: "longer than 65536 bytes"},
		{name: "a thousand headers", act: on(get(j, "/v1/x", strings.Split(strings.Repeat("X: y\n", 1000)+"Last: 1", "\n")...), "Last"), says: "at most 128 are read"},
		{name: "a header that Connection has dropped", act: on(get(j, "/v1/x", "Connection: host", "X: y"), "X: y"), says: "Connection header names host"},
		{name: "HTTP/2 that was not asked for", act: on("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), says: "does not begin with an HTTP/1 request"},
		{name: "an upgrade to HTTP/2", fails: `no "Upgrade: h2c"`, act: on(get(j, "/v1/x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"), "Upgrade: h2c")},
		{name: "HTTP/2 after an upgrade", act: on(get(j, "/v1/x", "Connection: Upgrade", "Upgrade: h2c")+"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI *"), says: "a version that is neither"},
		{name: "an upgrade to a websocket on another path", act: on(get(j, admin, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"), admin), says: only},
		{name: "a request behind an upgrade to a websocket", act: on(get(j, "/v1/x", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")+get(j, admin), "GET /admin"), says: only},
		{name: "bytes that are no HTTP on a judged connection", act: on("hello\n"), says: "does not begin with an HTTP/1 request"},
		{name: "TLS on a judged connection", act: handshake(j+":80", j), says: "which TLS hides", alone: "the server speaks no TLS on that port"},
		{name: "a redirect to a denied host", act: follows("http://denied.example/"), says: "the profile denies it"},
		{name: "a redirect to loopback", act: follows("http://127.0.0.1:5432/"), fails: "connection refused"},
		{name: "a redirect to loopback by a name", act: follows("http://loop.example/"), says: "127.0.0.1 is not a public address"},
		{name: "a redirect to a cloud's metadata", act: follows("http://" + cloudAddr + "/latest/meta-data/"), says: "no rule of the profile names it"},
		{name: "a server name of TLS other than the one connected to", act: handshake("allowed.example:443", "denied.example"), says: "SNI mismatch: the TLS ClientHello names denied.example, and the connection was asked for allowed.example"},
		{name: "TLS without a server name", act: handshake("allowed.example:443", ""), says: "SNI mismatch: the TLS ClientHello names no server"},
		{name: "a server name of TLS in many pieces", act: splitHello("denied.example"), says: "SNI mismatch"},
		{name: "a server name of TLS in many records", act: splitRecords("denied.example"), says: "SNI mismatch"},
		{name: "a server name of TLS behind an alert", act: asks("allowed.example:443", "\x15\x03\x01\x00\x02\x01\x00\x16\x03\x01"), says: "a record of type 21 in place of a ClientHello", alone: "a strict server ends the connection at that"},
		{name: "a server name of TLS in a tunnel", act: helloInTunnel, says: "SNI mismatch"},
	}
	for _, path := range []string{"/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1//../admin", "/v1/./../admin", "/v1/x/..;/admin", "/v1/%252e%252e/admin", "/v1/..\\admin", "//v1/x", "/v1/%00/../admin", "/%761/x/../../admin"} {
		list = append(list, bypass{name: "the path " + path, act: on(get(j, path), path), says: only})
	}
	for _, header := range []string{"X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X_HTTP_Method_Override: DELETE", "X-Original-URL: /admin", "X-Rewrite-URL: /admin"} {
		list = append(list, bypass{name: "the header " + header, act: on(get(j, "/v1/x", header), header), says: "for another request"})
	}
	return list
}

// smuggled returns a request whose body is another request for some servers.
func smuggled(lines ...string) string {
	return request("GET", "judged.example", "/v1/x", lines...) + "0\r\n\r\n" + get("judged.example", "/admin")
}

// bodyAsRequest sends a request as the body of another one. A server that reads no bodies
// would take it for a request, so the door must not send a body that was not announced.
func bodyAsRequest(p *place) (string, error) {
	inner := get("judged.example", "/admin")
	if p.Outside {
		return p.ask("judged.example:80", get("judged.example", "/v1/x")+inner, "GET /admin")
	}
	return p.ask("judged.example:80", get("judged.example", "/v1/x", "Content-Length: 0")+"\r\n", "GET /admin")
}

// tunnelVia connects to a server and asks it for a tunnel.
func tunnelVia(server, target string) func(*place) (string, error) {
	return func(p *place) (string, error) {
		c, err := p.dial(server)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if err := tunnelOn(c, target); err != nil {
			return "", err
		}
		return p.askOn(c, "hello\n")
	}
}

func tunnelInTunnel(p *place) (string, error) {
	c, err := p.dial(doorProxy)
	if err != nil {
		return "", err
	}
	defer c.Close()
	for _, target := range []string{"allowed.example:80", "denied.example:80"} {
		if err := tunnelOn(c, target); err != nil {
			return "", err
		}
	}
	return p.askOn(c, "hello\n")
}

// tunnelAfter asks for a denied tunnel on a connection on which an allowed
// request was served.
func tunnelAfter(p *place) (string, error) {
	c, err := p.dial(doorProxy)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if !p.Outside { // the careless proxy serves only one request on a connection
		if _, err := p.askOn(c, get("allowed.example", "http://allowed.example/")); err != nil {
			return "", fmt.Errorf("the first request: %w", err)
		}
	}
	if err := tunnelOn(c, "denied.example:80"); err != nil {
		return "", err
	}
	return p.askOn(c, "hello\n")
}

func secondRequest(p *place) (string, error) {
	c, err := p.dial(doorProxy)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if !p.Outside {
		if _, err := p.askOn(c, get("allowed.example", "http://allowed.example/")); err != nil {
			return "", fmt.Errorf("the first request: %w", err)
		}
	}
	return p.askOn(c, get("denied.example", "http://denied.example/"))
}

// follows asks an allowed server, which redirects the client, and follows the redirect to
// another place.
func follows(to string) func(*place) (string, error) {
	return func(p *place) (string, error) {
		answer, err := plainGet(p, "allowed.example:80", "/redirect?to="+to)
		if err != nil {
			return "", fmt.Errorf("the first request: %w", err)
		}
		defer answer.Body.Close()
		where, err := url.Parse(answer.Header.Get("Location"))
		if err != nil {
			return "", err
		}
		if where.String() != to {
			return "", fmt.Errorf("the first request was sent to %v", where)
		}
		target := where.Host
		if where.Port() == "" {
			target = net.JoinHostPort(target, "80")
		}
		return p.ask(target, get(where.Host, where.Path))
	}
}

func plainGet(p *place, target, path string) (*http.Response, error) {
	host, _, _ := strings.Cut(target, ":")
	client := http.Client{
		Transport:     &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(target) }, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       bypassPatience,
	}
	return client.Get("http://" + host + path)
}

// shake makes a TLS handshake and sends a text.
func (p *place) shake(c net.Conn, name string) (string, error) {
	s := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := s.Handshake(); err != nil {
		return "", err
	}
	return p.askOn(s, "hello\n")
}

func handshake(target, name string) func(*place) (string, error) {
	return func(p *place) (string, error) {
		c, err := p.dial(target)
		if err != nil {
			return "", err
		}
		defer c.Close()
		return p.shake(c, name)
	}
}

func helloInTunnel(p *place) (string, error) {
	c, err := p.dial(doorProxy)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := tunnelOn(c, "allowed.example:443"); err != nil {
		return "", err
	}
	return p.shake(c, "denied.example")
}

// rewriting is a connection whose first write is sent in another form.
type rewriting struct {
	net.Conn
	form func([]byte, io.Writer) error
	done bool
}

func (c *rewriting) Write(b []byte) (int, error) {
	if c.done {
		return c.Conn.Write(b)
	}
	c.done = true
	return len(b), c.form(b, c.Conn)
}

func reformed(name string, form func([]byte, io.Writer) error) func(*place) (string, error) {
	return func(p *place) (string, error) {
		c, err := p.dial("allowed.example:443")
		if err != nil {
			return "", err
		}
		defer c.Close()
		return p.shake(&rewriting{Conn: c, form: form}, name)
	}
}

// splitHello sends a ClientHello in pieces of 100 bytes.
func splitHello(name string) func(*place) (string, error) {
	return reformed(name, func(b []byte, w io.Writer) error {
		for len(b) > 0 {
			n := min(100, len(b))
			if _, err := w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	})
}

// splitRecords sends a ClientHello in records of 40 bytes (RFC 8446, 5.1).
func splitRecords(name string) func(*place) (string, error) {
	return reformed(name, func(b []byte, w io.Writer) error {
		if len(b) < 5 {
			return errors.New("no record")
		}
		head, b := b[:3], b[5:]
		for len(b) > 0 {
			n := min(40, len(b))
			if _, err := w.Write(append(append(append([]byte{}, head...), 0, byte(n)), b[:n]...)); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	})
}
