package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// Client returns a client that makes requests as the box may. Each request, and each hop of
// a redirect, is judged with its method and path, and its connection is made under the same
// policy. Only http and https are spoken. Servers are requested and verified by the judged
// name. Neither a proxy of the environment nor a cookie is used. A refusal is or wraps a
// *Refused.
//
// The client has no time limit in addition to those of connections, and does not bound the
// size of a body, which may be decompressed: the caller must do both.
func (d *Door) Client() *http.Client { return &http.Client{Transport: judging{d}} }

// judging is the transport of a Client.
type judging struct{ d *Door }

// RoundTrip judges a request and makes it.
func (j judging) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := j.roundTrip(req)
	if err != nil && req.Body != nil {
		req.Body.Close() // a RoundTripper must close it; the inner one may have done so
	}
	return resp, err
}

func (j judging) roundTrip(req *http.Request) (*http.Response, error) {
	snap := j.d.current.Load()
	rec := Record{
		Time: time.Now(), Profile: j.d.cfg.Profile, Proto: "http",
		Method: req.Method, Path: req.URL.EscapedPath(),
	}
	if rec.Method == "" {
		rec.Method = http.MethodGet
	}
	if rec.Path == "" {
		rec.Path = "/"
	}
	if err := target(req, &rec); err != nil {
		rec.Rule, rec.Reason = ruleName, err.Error()
		j.d.record(rec)
		return nil, &Refused{Record: rec}
	}
	v := snap.Request(rec.Host, rec.Port, rec.Method, rec.Path)
	if !v.Allowed {
		refused := j.d.refuseVerdict(snap, rec, v)
		j.d.record(refused.Record)
		return nil, refused
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	ours := req.Clone(httptrace.WithClientTrace(req.Context(), trace))
	ours.Host = ""
	ours.URL.User = nil
	// The judged host is the one that is dialled, verified in TLS and named in Host.
	ours.URL.Host = hostPort(rec.Host, rec.Port, ours.URL.Scheme)
	resp, err := snap.client.RoundTrip(ours)
	rec.Allowed, rec.Rule, rec.Took = true, v.Rule, time.Since(rec.Time)
	if err != nil {
		if rec.Reason = policies.Clip(err.Error(), maxLine); sent.Load() { // otherwise only its connection is recorded
			j.d.record(rec)
		}
		return nil, err
	}
	resp.Request = req
	j.d.record(rec)
	return resp, nil
}

// target sets the host and port in rec to those of a request.
func target(req *http.Request, rec *Record) error {
	u := req.URL
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("only http and https can be fetched, not %s", policies.Clip(u.Scheme, maxShown))
	case u.Opaque != "" || strings.HasPrefix(u.Host, ":"):
		return errors.New("the address names no host")
	case rec.Method == http.MethodConnect:
		return errors.New("CONNECT is a request to a proxy, not to a server")
	case req.Host != "" && !strings.EqualFold(req.Host, u.Host):
		return fmt.Errorf("the request is to one host and names %s in its header", policies.Clip(req.Host, maxShown))
	}
	var err error
	if rec.Host, err = policies.ParseHost(u.Hostname()); err != nil {
		return err
	}
	rec.Port, err = urlPort(u)
	return err
}

// urlPort returns the port of a URL, or that of its scheme if the URL names none.
func urlPort(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		return parsePort(u.Port())
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}

// transport returns the transport for requests that were judged under s. Its connections
// are judged under s too, and no others are reused.
func (j judging) transport(s *snapshot) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return j.d.dialUnder(ctx, s, network, address)
		},
		TLSClientConfig:        &tls.Config{RootCAs: j.d.cfg.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  time.Minute,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    4,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
