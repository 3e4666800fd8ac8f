package policies

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The limits of what leaves a box if its profile does not state them.
const (
	DefaultConns       = 64              // connections that are open at the same time
	DefaultConnRate    = 100.0           // new connections in a second
	DefaultEgressBytes = 1 << 30         // bytes in both directions, in the life of a box
	DefaultConnIdle    = 5 * time.Minute // longest silence of a connection
	DefaultConnLife    = time.Hour       // longest life of a connection
)

// Egress says what may leave a box. The zero Egress lets nothing leave: no name, no
// address, no byte. It never changes; its methods are safe for concurrent use.
//
// The code that opens connections calls in this order: Names before it resolves a name,
// Connect before it dials, Denied for each address of the name, AllowsPrivate for each of
// these addresses that is not public, and Request for each request if the verdict of
// Connect says so.
type Egress struct {
	Allow     []EgressRule   // what may be reached; apart from Private, nothing else may be reached
	Deny      []EgressRule   // what may not be reached, whatever Allow and Private say
	Private   []PrivateRule  // what may be reached although its address is not public
	Limits    EgressLimits   // each is above zero if anything may be reached
	Secrets   []SecretHeader // headers that the door adds to requests
	Intercept bool           // TLS is opened at the door, with an authority that only the box trusts
}

// EgressRule matches connections and, if it names methods or paths, the requests on them.
type EgressRule struct {
	// a name; "*.name" for all names below it; an address; or "*" for every public name,
	// and under Deny for every host
	Host    string
	Ports   []uint16 // never zero; an empty list means no port under Allow and every port under Deny
	Methods []string // HTTP methods, upper case; empty for any method
	Paths   []string // globs as in rules about URLs, for example "/v1/**"; empty for any path
	Source  Source   // place of the rule in the policy

	compiled *egressMatch // set by Parse; other rules are compiled at each use
}

// PrivateRule lets a connection go to an address that is not public, for example a person's
// own server. With a port, it also allows the connection. If a rule of Allow speaks about
// the same host and port, that rule decides which requests are allowed.
type PrivateRule struct {
	Host Host
	Port uint16 // 0 for every port that Allow lets through
}

// EgressLimits bound what one box may send and receive. Every field must be
// above zero.
type EgressLimits struct {
	Conns int           // connections that are open at the same time
	Rate  float64       // new connections in a second; a burst of twice as many is let through
	Bytes int64         // bytes in both directions together, in the life of the box
	Idle  time.Duration // time after which a silent connection is closed
	Life  time.Duration // longest life of a connection
}

// SecretHeader is a header that the door adds to requests: the box never sees its value.
// Value contains the secret's name as ${secret:NAME}.
type SecretHeader struct {
	Secret  string
	Host    string   // as in EgressRule, but never "*"
	Methods []string // empty for any method except TRACE, whose answer repeats the header
	Paths   []string // empty for any path
	Header  string   // name of the header in its canonical spelling
	Value   string

	compiled *egressMatch
}

// EgressVerdict is the decision about one connection or request.
type EgressVerdict struct {
	Allowed bool
	// for a connection: each request on it must be judged too; if its requests cannot be
	// seen, it must be refused
	Requests bool
	Rule     string // rule that decided, for example "allow api.github.com", or "no rule"
	Reason   string // why it is refused, for the agent; empty if it is allowed
	Source   Source // place in the policy; zero if no rule decided
}

// Connect decides about a connection to a port of a host, before any byte of it is read.
// Deny beats allow. A rule with methods or paths only decides here that the requests must
// be seen.
func (e *Egress) Connect(h Host, port uint16) EgressVerdict {
	if h.IsZero() || port == 0 {
		return EgressVerdict{Rule: noRule, Reason: "it names no host and port"}
	}
	requests := false
	for i := range e.Deny {
		m := e.Deny[i].ready()
		switch {
		case !m.denies(h, port):
		case m.all:
			return EgressVerdict{Rule: m.deny, Reason: "the profile denies it", Source: e.Deny[i].Source}
		default:
			requests = true
		}
	}
	some := -1
	for i := range e.Allow {
		m := e.Allow[i].ready()
		switch {
		case !m.allows(h, port):
		case m.all:
			return EgressVerdict{Allowed: true, Requests: requests, Rule: m.allow, Source: e.Allow[i].Source}
		case some < 0:
			some = i
		}
	}
	switch {
	case some >= 0:
		return EgressVerdict{Allowed: true, Requests: true, Rule: e.Allow[some].ready().allow, Source: e.Allow[some].Source}
	case e.opensPrivate(h, port):
		return EgressVerdict{Allowed: true, Requests: requests, Rule: "allow_private " + h.String()}
	}
	return EgressVerdict{Rule: noRule, Reason: e.why(h, port)}
}

// Request decides about one HTTP request on a connection that Connect allowed. The path is
// that of the request, escaped as it came, without its query.
//
// A path that servers read in different ways satisfies no rule of Allow that names paths,
// and every rule of Deny that names paths.
func (e *Egress) Request(h Host, port uint16, method, path string) EgressVerdict {
	v := e.Connect(h, port)
	if !v.Allowed || !v.Requests {
		return v
	}
	p := readRequestPath(path)
	for i := range e.Deny {
		if m := e.Deny[i].ready(); m.denies(h, port) && m.deniesRequest(method, p) {
			return EgressVerdict{Rule: m.deny, Reason: "the profile denies this request" + p.doubt(), Source: e.Deny[i].Source}
		}
	}
	var others []string
	for i := range e.Allow {
		m := e.Allow[i].ready()
		switch {
		case !m.allows(h, port):
		case m.allowsRequest(method, p):
			return EgressVerdict{Allowed: true, Rule: m.allow, Source: e.Allow[i].Source}
		case len(others) < shownRules:
			others = append(others, m.requests)
		}
	}
	if len(others) == 0 { // only Private allowed the connection
		v.Requests = false
		return v
	}
	return EgressVerdict{Rule: noRule, Reason: "the profile allows only some requests to it, " + strings.Join(others, " or ") + p.doubt()}
}

// Denied reports whether Deny names all connections to a port of a host. It is
// for the addresses of a name that Connect allowed: a denied address is denied
// under every name.
func (e *Egress) Denied(h Host, port uint16) (EgressVerdict, bool) {
	for i := range e.Deny {
		if m := e.Deny[i].ready(); m.all && m.denies(h, port) {
			return EgressVerdict{Rule: m.deny, Reason: "the profile denies it", Source: e.Deny[i].Source}, true
		}
	}
	return EgressVerdict{}, false
}

// AllowsPrivate reports whether the host may be reached on this port although
// its address is not a public one. It says nothing about Deny: Connect does.
func (e *Egress) AllowsPrivate(h Host, port uint16) bool {
	return slices.ContainsFunc(e.Private, func(r PrivateRule) bool {
		return r.Host == h && (r.Port == 0 || r.Port == port)
	})
}

// opensPrivate reports whether Private alone lets a connection through.
func (e *Egress) opensPrivate(h Host, port uint16) bool {
	return slices.Contains(e.Private, PrivateRule{Host: h, Port: port})
}

// Names reports whether some port of the host may be reached. The resolver of a
// box answers only for such hosts.
func (e *Egress) Names(h Host) bool {
	open := func(port uint16) bool {
		_, denied := e.Denied(h, port)
		return !denied
	}
	for i := range e.Allow {
		if m := e.Allow[i].ready(); m.host.allows(h) && slices.ContainsFunc(m.ports, open) {
			return true
		}
	}
	return slices.ContainsFunc(e.Private, func(r PrivateRule) bool { return r.Host == h && r.Port != 0 && open(r.Port) })
}

// Ports returns the ports that connections may go to, on any host, in order.
func (e *Egress) Ports() []uint16 {
	var all []uint16
	for _, r := range e.Allow {
		all = append(all, r.Ports...)
	}
	for _, r := range e.Private {
		if r.Port != 0 {
			all = append(all, r.Port)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Headers returns the headers with secrets that the door adds to a request that Request
// allowed. Of two headers with the same name only the first is added. A path that servers
// read in different ways gets no header that is for some paths only. A header is added only
// if it is for all of the methods: a websocket has two.
func (e *Egress) Headers(h Host, path string, methods ...string) []SecretHeader {
	if len(e.Secrets) == 0 || slices.Contains(methods, "TRACE") {
		return nil
	}
	p := readRequestPath(path)
	var all []SecretHeader
	for i := range e.Secrets {
		s := &e.Secrets[i]
		twice := slices.ContainsFunc(all, func(o SecretHeader) bool { return strings.EqualFold(o.Header, s.Header) })
		m := s.ready()
		refused := slices.ContainsFunc(methods, func(method string) bool { return !m.allowsRequest(method, p) })
		if !twice && m.host.allows(h) && !refused {
			all = append(all, *s)
		}
	}
	return all
}

// HostSecrets returns the headers with secrets that some request to a host may get.
func (e *Egress) HostSecrets(h Host) []SecretHeader {
	var all []SecretHeader
	for i := range e.Secrets {
		if s := &e.Secrets[i]; s.ready().host.allows(h) {
			all = append(all, *s)
		}
	}
	return all
}

// IsZero reports whether nothing may leave.
func (e *Egress) IsZero() bool { return len(e.Allow)+len(e.Private) == 0 }

// noRule is the rule in a verdict if no rule decided.
const noRule = "no rule"

// shownRules bounds the number of allowed alternatives that a reason lists.
const shownRules = 3

// why returns, for the agent, why no rule lets a connection through, and what is allowed
// instead.
func (e *Egress) why(h Host, port uint16) string {
	if e.IsZero() {
		return "the profile lets nothing out"
	}
	var ports []string
	open := func(some ...uint16) {
		for _, p := range some {
			if s := fmt.Sprint(p); len(ports) < shownRules && !slices.Contains(ports, s) {
				ports = append(ports, s)
			}
		}
	}
	address := false
	for i := range e.Allow {
		m := e.Allow[i].ready()
		address = address || m.host.every
		if m.host.allows(h) {
			open(m.ports...)
		}
	}
	for _, r := range e.Private {
		if r.Host == h && r.Port != 0 {
			open(r.Port)
		}
	}
	switch {
	case len(ports) > 0:
		return fmt.Sprintf("the profile lets connections to it through on port %s, not on %d", strings.Join(ports, " or "), port)
	case h.Addr().IsValid() && address:
		return "an address is let through only where a rule names it; use the host's name"
	}
	return "no rule of the profile names it"
}
