package webcheck

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 20

// request is a request to a server. The zero value is an ordinary POST.
type request struct {
	method string            // empty means POST
	path   string            // empty means the path of the URL
	query  string            // query after the path
	header map[string]string // Host is the host of the request
	body   string
	login  bool // send the token
}

// answer is the answer to a request, with its body.
type answer struct {
	*http.Response
	text string
}

// certificateError is the error for a certificate that is not accepted.
type certificateError struct {
	*tls.CertificateVerificationError
}

// newClient returns a client that follows no redirect and does not ask for compression.
func (t *target) newClient() *http.Client {
	return &http.Client{
		Timeout:       answerWait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSClientConfig: &tls.Config{RootCAs: t.Roots, MinVersion: tls.VersionTLS12},
		},
	}
}

// send sends a request; the caller closes the body of the answer.
func (t *target) send(ctx context.Context, client *http.Client, q request) (*http.Response, error) {
	at := *t.at
	if q.path != "" {
		at.Path = q.path
	}
	at.RawQuery = q.query
	if q.method == "" {
		q.method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, q.method, at.String(), strings.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if q.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.login && t.Token != "" {
		r.Header.Set("Authorization", "Bearer "+t.Token)
	}
	for name, value := range q.header {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, &certificateError{bad}
	}
	return res, err
}

// ask sends a request and returns the answer.
func (t *target) ask(ctx context.Context, q request) (*answer, error) {
	res, err := t.send(ctx, t.client, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(io.LimitReader(res.Body, maxAnswer))
	return &answer{res, text.String()}, err
}

// raw sends a text, and returns up to maxAnswer bytes of what arrives until the connection
// is closed. If it is still open after wait, the error is a *stillOpenError. net/http would
// correct the faults in the text.
func (t *target) raw(ctx context.Context, wait time.Duration, text string) (got string, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	conn, err := t.dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	var all bytes.Buffer
	_, err = all.ReadFrom(io.LimitReader(conn, maxAnswer))
	if err != nil && ctx.Err() != nil {
		return all.String(), &stillOpenError{wait}
	}
	return all.String(), nil // also if the connection was closed by a reset
}

// stillOpenError is the error of a connection that was not closed in time.
type stillOpenError struct{ wait time.Duration }

func (e *stillOpenError) Error() string {
	return fmt.Sprintf("the connection is still open after %v", e.wait)
}

// dial connects to the server, and not to the proxy of the environment. In the handshake of
// TLS, it offers HTTP/1.1 only.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	port := t.at.Port()
	if t.at.Scheme != "https" {
		if port == "" {
			port = "80"
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(t.at.Hostname(), port))
	}
	if port == "" {
		port = "443"
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: t.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(t.at.Hostname(), port))
}
