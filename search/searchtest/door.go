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

// Way describes how to reach a server. Its exported fields can be sent to another process,
// which can then reach the server too.
type Way struct {
	Port      uint16
	Hosts     []string
	Authority []byte // certificate in PEM

	strange func(host string) // called with each host that is not in Hosts; may be nil
}

// Door returns the doors of the server's Way.
func (s *Server) Door(record func(egress.Record)) func(policies.Grant) (search.Door, error) {
	return s.Way().Door(record)
}

// Door returns a function that makes egress doors that lead to the server, for Config.Door
// of a fan. They are real doors, and judge by the grant. Three things are not real: the
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
		// The address is private, so it is allowed for all names. That alone does not allow
		// any name.
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

// LookupNetIP makes a Way a resolver: all its hosts exist, and no other host does.
func (w Way) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if !slices.Contains(w.Hosts, host) {
		if w.strange != nil {
			w.strange(host)
		}
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// door is an egress door that connects to another port instead of 443.
type door struct {
	*egress.Door
	port uint16
}

// Client returns the client of the inner door, with requests to 443 sent to the other port.
func (d *door) Client() *http.Client {
	c := d.Door.Client()
	c.Transport = &turned{c.Transport, strconv.Itoa(int(d.port))}
	return c
}

type turned struct {
	inner http.RoundTripper
	port  string
}

// RoundTrip makes a request at the server's port. The caller does not see the change.
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
