package webcheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// soon is how long before its end a certificate should be replaced.
const soon = 14 * 24 * time.Hour

// address checks the form of the URL.
func (t *target) address(context.Context) Finding {
	if t.at.Path != "/mcp" {
		return found("address", "give clients a URL that ends in /mcp", "the path is %q; some clients connect to /mcp only", t.at.Path)
	}
	return found("address", "", "%s", t.at.Redacted())
}

// encryption checks TLS and the certificate.
func (t *target) encryption(ctx context.Context) Finding {
	const name = "TLS"
	if t.at.Scheme == "http" {
		if t.local() {
			return found(name, "", "none, and only this machine can reach the address")
		}
		return found(name, "use --tls-cert and --tls-key, or a proxy with TLS", "tokens cross the network in clear text")
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	conn, err := t.dial(ctx)
	if err != nil {
		return found(name, "use a certificate for this name, from an authority that clients know, with those that lead to it", "%v", err)
	}
	defer conn.Close()
	c, ok := conn.(*tls.Conn)
	if !ok {
		return unknown(name, "", "the connection is not of TLS")
	}
	state := c.ConnectionState()
	leaf := state.PeerCertificates[0]
	detail := fmt.Sprintf("%s, the certificate of %s is valid until %s", tls.VersionName(state.Version), leaf.Issuer.CommonName, leaf.NotAfter.UTC().Format(time.DateOnly))
	if time.Until(leaf.NotAfter) < soon {
		return found(name, "renew the certificate", "%s", detail)
	}
	old := &tls.Dialer{Config: &tls.Config{RootCAs: t.Roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}} //nolint:gosec // the server must not accept TLS 1.1
	if was, err := old.DialContext(ctx, "tcp", c.RemoteAddr().String()); err == nil {
		was.Close()
		return found(name, "allow TLS 1.2 and later only, at the proxy", "%s, and TLS 1.1 is accepted as well", detail)
	}
	return found(name, "", "%s", detail)
}

const evil = "evil.example"

// refused makes a check whose request the server must refuse before any login.
func (t *target) refused(ctx context.Context, check, fix string, q request) Finding {
	q.body = ping
	got, err := t.ask(ctx, q)
	switch {
	case err != nil: // a proxy may close the connection
		return found(check, "", "refused: %v", err)
	case got.Header.Get("Access-Control-Allow-Origin") != "":
		return found(check, fix, "the answer lets pages of %s read it", got.Header.Get("Access-Control-Allow-Origin"))
	case got.StatusCode < 400 || got.StatusCode == http.StatusUnauthorized:
		return found(check, fix, "answered with %s", got.Status)
	}
	return found(check, "", "refused with %s", got.Status)
}

// host checks whether DNS rebinding is possible.
func (t *target) host(ctx context.Context) Finding {
	return t.refused(ctx, "Host", "let the proxy refuse names that it does not know, and pass the Host header on as it is", request{header: map[string]string{"Host": evil}})
}

// origin checks whether any web page may use the server.
func (t *target) origin(ctx context.Context) Finding {
	return t.refused(ctx, "Origin", "let the proxy pass the Origin header on, and name pages that may use the server by --origin", request{header: map[string]string{"Origin": "https://" + evil}})
}

// preflight checks whether a browser would let any page send requests.
func (t *target) preflight(ctx context.Context) Finding {
	return t.refused(ctx, "preflight", "let the proxy add no CORS headers of its own", request{method: http.MethodOptions, header: map[string]string{
		"Origin": "https://" + evil, "Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true",
	}})
}

// strangers checks the answer to a client without a token.
func (t *target) strangers(ctx context.Context) Finding {
	const name = "login"
	got, err := t.ask(ctx, request{body: hello})
	if err != nil {
		return unknown(name, "", "%v", err)
	}
	challenge := got.Header.Get("WWW-Authenticate")
	switch {
	case got.StatusCode == http.StatusOK && t.local():
		return found(name, "", "no token is required: everybody on this machine may use the server")
	case got.StatusCode == http.StatusOK:
		return found(name, "use a policy that names tenants", "everybody may use this server without a token")
	case got.StatusCode != http.StatusUnauthorized:
		return found(name, "let requests for this path reach belljar as they are", "without a token the answer is %s instead of 401, so clients do not log in", got.Status)
	case !strings.HasPrefix(challenge, "Bearer "):
		return found(name, "let the proxy pass the header WWW-Authenticate on", "the answer is 401 with WWW-Authenticate: %q, which tells clients nothing", challenge)
	}
	t.login = true
	return found(name, "", "401 with %s", challenge)
}

const metadataPath = "/.well-known/oauth-protected-resource"

// metadata checks the documents that tell clients where to log in.
func (t *target) metadata(ctx context.Context) Finding {
	const name, fix = "metadata", "let the proxy pass " + metadataPath + " and what is below on as it is; check --public-url"
	got, err := t.ask(ctx, request{body: hello})
	if err != nil {
		return unknown(name, "", "%v", err)
	}
	if !strings.Contains(got.Header.Get("WWW-Authenticate"), "resource_metadata=") {
		return found(name, "", "none, because tokens come from the operator and not from an issuer")
	}
	var texts []string
	want := strings.TrimSuffix(t.at.String(), "/")
	paths := []string{metadataPath, metadataPath + "/mcp"}
	if t.at.Path != "/mcp" { // the document of a place has only one path
		paths = []string{metadataPath + strings.TrimSuffix(t.at.Path, "/")}
	}
	for _, path := range paths {
		got, err := t.ask(ctx, request{method: http.MethodGet, path: path})
		if err != nil || got.StatusCode != http.StatusOK {
			return found(name, fix, "%s: %s", path, status(got, err))
		}
		texts = append(texts, got.text)
	}
	switch {
	case texts[0] != texts[len(texts)-1]:
		return found(name, fix, "the two documents below %s differ", metadataPath)
	case !strings.Contains(texts[0], `"`+want+`"`):
		return found(name, "start the server with --public-url "+strings.TrimSuffix(want, "/mcp"), "the document does not name %s as the resource, so clients get tokens that are for another server", want)
	}
	return found(name, "", "names this server")
}

func status(got *answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return got.Status
}

// wrongToken checks the answer to a token that nobody issued.
func (t *target) wrongToken(ctx context.Context) Finding {
	const name = "wrong token"
	if !t.login {
		return unknown(name, "", "the server requires no login")
	}
	got, err := t.ask(ctx, request{body: hello, header: map[string]string{"Authorization": "Bearer belljar-doctor"}})
	if err != nil || got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.Header.Get("WWW-Authenticate"), "invalid_token") {
		return found(name, "let the proxy pass the header Authorization on, without a login of its own", "the answer is %s", status(got, err))
	}
	return found(name, "", "refused with 401")
}

// tokenInURL checks whether the server accepts a token in a URL, where it would be written
// to logs.
func (t *target) tokenInURL(ctx context.Context) Finding {
	got, err := t.ask(ctx, request{body: hello, query: "access_token=belljar-doctor"})
	if err != nil || got.StatusCode != http.StatusBadRequest {
		return found("token in the URL", "let the proxy pass the query on as it is", "the answer is %s instead of 400", status(got, err))
	}
	return found("token in the URL", "", "refused with 400")
}

// operatorsPaths checks whether strangers can reach the operator's paths.
func (t *target) operatorsPaths(ctx context.Context) Finding {
	for _, path := range []string{"/metrics", "/readyz", "/livez", "/debug/pprof/", "/debug/vars"} {
		got, err := t.ask(ctx, request{method: http.MethodGet, path: path})
		if err == nil && got.StatusCode < 300 {
			return found("operator's paths", "let the proxy pass none of the paths of --admin on", "%s is answered with %s", path, got.Status)
		}
	}
	return found("operator's paths", "", "metrics and probes are not answered here")
}

// twoLengths checks whether a request with two lengths is accepted: a proxy may use one
// length and the server the other (RFC 9112, 6.1, request smuggling).
func (t *target) twoLengths(ctx context.Context) Finding {
	const name, fix = "two lengths", "use a proxy that refuses requests with Transfer-Encoding and Content-Length"
	second := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", t.at.Path, t.at.Host)
	text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", t.at.Path, t.at.Host, len("0\r\n\r\n")+len(second), second)
	got, err := t.raw(ctx, twoLengthsWait, text)
	_, open := errors.AsType[*stillOpenError](err)
	switch answers := strings.Count(got, "HTTP/1.1 "); {
	case err != nil && !open:
		return unknown(name, "", "%v", err)
	case answers > 1:
		return found(name, fix, "the rest of a request with both headers is answered as another request")
	case open:
		return found(name, fix, "the connection stays open after a request with both headers")
	}
	line, _, _ := strings.Cut(got, "\r\n")
	return found(name, "", "the connection is closed after such a request (%s)", line)
}

// twoLengthsWait is how long a connection may stay open after such a request.
const twoLengthsWait = 5 * time.Second

// slowHeaders checks how long a connection stays open if its client never completes the
// request.
func (t *target) slowHeaders(ctx context.Context) Finding {
	const name = "slow headers"
	began := time.Now()
	_, err := t.raw(ctx, slowWait, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n", t.at.Path, t.at.Host))
	if _, open := errors.AsType[*stillOpenError](err); open {
		return found(name, "bound the time for headers at the proxy (nginx: client_header_timeout 10s)", "a connection without complete headers is still open after %v", slowWait)
	} else if err != nil {
		return unknown(name, "", "%v", err)
	}
	return found(name, "", "the connection is closed after %v", time.Since(began).Round(time.Second))
}

// forwarded checks whether the server believes a client address that the client made up.
func (t *target) forwarded(ctx context.Context) Finding {
	const name, fix, invented = "forwarded address", "name only the networks of proxies in --behind-proxy", "203.0.113.77"
	if t.AccessLog == "" {
		return unknown(name, "", "only the access log shows it: --access-log FILE, on the machine of the server")
	}
	id := "doctor-" + time.Now().UTC().Format("150405.000000000")
	if _, err := t.ask(ctx, request{method: http.MethodGet, header: map[string]string{"X-Forwarded-For": invented, "Mcp-Session-Id": id}}); err != nil {
		return unknown(name, "", "%v", err)
	}
	line, err := t.logged(ctx, id)
	switch {
	case err != nil:
		return unknown(name, "", "%v", err)
	case line.From == invented:
		return found(name, fix, "the server accepts X-Forwarded-For from anybody")
	}
	return found(name, "", "the access log has %s, and not the invented address of X-Forwarded-For", line.From)
}
