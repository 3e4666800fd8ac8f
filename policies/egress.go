package policies

import (
	"slices"
	"time"
)

// Egress says what may leave a box. The zero Egress is nothing: no name, no
// address, no byte. It never changes; its methods are safe for concurrent use.
type Egress struct {
	Allow     []EgressRule   // what may be reached; nothing else can be
	Deny      []EgressRule   // what may not, whatever Allow says
	Private   []PrivateRule  // what may be reached although its address is not a public one
	Limits    EgressLimits   // each above zero where Allow is not empty
	Secrets   []SecretHeader // what the door adds to requests
	Intercept bool           // TLS is opened at the door, with an authority that only the box trusts
}

// EgressRule matches connections and, where it names methods or paths, the
// requests on them.
type EgressRule struct {
	Host    string   // a name, "*.name" for all names below it, an address, or "*" for every name
	Ports   []uint16 // none of them zero; the ports of net where the rule names none
	Methods []string // of HTTP, upper case; empty for any
	Paths   []string // globs as in rules about URLs, "/v1/**"; empty for any
	Source  Source   // where the policy says so
}

// PrivateRule lets a connection go to an address that is not public: a
// person's own server.
type PrivateRule struct {
	Host Host
	Port uint16 // 0 for every port that Allow lets through
}

// EgressLimits bound what one box may send and receive. Every field must be
// above zero.
type EgressLimits struct {
	Conns int           // open at once
	Rate  float64       // new ones in a second; a burst of twice as many is let through
	Bytes int64         // both ways together, in the life of the box
	Idle  time.Duration // after which a silent connection is closed
	Life  time.Duration // longest life of a connection
}

// SecretHeader is a header that the door adds to requests: the box never sees
// its value. Value holds the secret's name as ${secret:NAME}.
type SecretHeader struct {
	Secret  string
	Host    string   // as in EgressRule, but never "*"
	Methods []string // empty for any
	Paths   []string // empty for any
	Header  string
	Value   string
}

// Secret says where the operator keeps a secret. Exactly one field is set. The
// value is read by whoever needs it; a policy only knows the place.
type Secret struct {
	Env     string   // variable of belljar's own environment
	File    string   // absolute path on the host
	Command []string // program on the host that prints it
}

// EgressVerdict is the answer about one connection or request.
type EgressVerdict struct {
	Allowed  bool
	Requests bool   // of a connection: each request on it must be judged too, so the door has to see them
	Rule     string // what decided, as "allow api.github.com" or "no rule"
	Reason   string // why not, for the agent; empty where it is allowed
	Source   Source // where the policy says so; zero where no rule spoke
}

// Connect decides about a connection to a port of a host, before any byte of
// it is read.
func (e *Egress) Connect(h Host, port uint16) EgressVerdict {
	return EgressVerdict{Rule: "no rule", Reason: "no rule of the profile names it"}
}

// Request decides about one HTTP request on a connection that Connect allowed.
// The path is the request's, escaped as it came, without its query.
func (e *Egress) Request(h Host, port uint16, method, path string) EgressVerdict {
	return e.Connect(h, port)
}

// AllowsPrivate reports whether the host may be reached on this port although
// its address is not a public one.
func (e *Egress) AllowsPrivate(h Host, port uint16) bool {
	return slices.ContainsFunc(e.Private, func(r PrivateRule) bool {
		return r.Host == h && (r.Port == 0 || r.Port == port)
	})
}

// IsZero reports whether nothing may leave.
func (e *Egress) IsZero() bool { return len(e.Allow) == 0 }
