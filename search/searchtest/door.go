package searchtest

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search"
)

// Way leads to a server of another process too: its fields can be sent there.
type Way struct {
	Port      uint16
	Hosts     []string
	Authority []byte // PEM

	strange func(host string) // called with each other host; may be nil
}

// Door is that of the server's Way.
func (s *Server) Door(record func(egress.Record)) func(policies.Grant) (search.Door, error) {
	return s.Way().Door(record)
}

// Door makes egress doors that lead to the server: for Config.Door of a fan.
// They are real ones, and judge by the grant. Three things are not real: the
// port, the loopback address of the engines' names, and the authority of their
// certificates.
func (w Way) Door(record func(egress.Record)) func(policies.Grant) (search.Door, error) {
	return func(g policies.Grant) (search.Door, error) {
		e := *g.Egress()
		e.Allow = slices.Clone(e.Allow)
		e.Private = slices.Clone(e.Private)
		for i := range e.Allow {
			if slices.Contains(e.Allow[i].Ports, 443) {
				e.Allow[i] = policies.EgressRule{
					Host: e.Allow[i].Host, Ports: append(slices.Clone(e.Allow[i].Ports), w.Port),
					Methods: e.Allow[i].Methods, Paths: e.Allow[i].Paths, Source: e.Allow[i].Source,
				}
			}
		}
		// The address is private for all names, and no name is allowed by that.
		local, err := policies.ParseHost("127.0.0.1")
		if err != nil {
			return nil, err
		}
		e.Private = append(e.Private, policies.PrivateRule{Host: local, Port: w.Port})
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(w.Authority) {
			return nil, errors.New("the way has no authority")
		}
		d, err := egress.New(egress.Config{Egress: &e, Profile: g.Profile(), Resolver: w, Roots: roots, Record: record})
		if err != nil {
			return nil, err
		}
		return &door{d, w.Port}, nil
	}
}

// LookupNetIP makes a resolver of the way: all engines are there, and nobody
// else is anywhere.
func (w Way) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !slices.Contains(w.Hosts, host) {
		if w.strange != nil {
			w.strange(host)
		}
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// door is an egress door that takes 443 for another port.
type door struct {
	*egress.Door
	port uint16
}

// Client is the inner door's.
func (d *door) Client() *http.Client {
	c := d.Door.Client()
	c.Transport = &turned{c.Transport, strconv.Itoa(int(d.port))}
	return c
}

type turned struct {
	inner http.RoundTripper
	port  string
}

// RoundTrip makes a request at the server's port. Its caller sees nothing of
// that.
func (t *turned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" || req.URL.Port() != "" {
		return t.inner.RoundTrip(req)
	}
	to := req.Clone(req.Context())
	to.URL.Host = net.JoinHostPort(req.URL.Hostname(), t.port)
	to.Host = ""
	resp, err := t.inner.RoundTrip(to)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}
