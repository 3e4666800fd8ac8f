package policies

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// The upstreams are other people's MCP servers, whose tools belljar offers as its own
// after a policy has decided about each call. Which servers there are is said in files of
// the form that other clients have; the policy says what may become of each.

// Pin says what is done about the tools of a server that nobody has seen before. The
// zero value is the strictest one.
type Pin int

// The pins, the strictest first.
const (
	PinStrict Pin = iota // only what was imported
	PinAsk               // what a person agreed to
	PinTofu              // what the server said at first; a person is asked about changes
	PinOff               // whatever the server says
)

var pins = []string{PinStrict: "strict", PinAsk: "ask", PinTofu: "tofu", PinOff: "off"}

// String is the pin as policies spell it.
func (p Pin) String() string { return pins[p] }

// Share says whose calls one running server serves; a server never serves two tenants.
// The zero value is the strictest one.
type Share int

// The shares, the strictest first.
const (
	ShareSession   Share = iota // those of one session
	SharePrincipal              // those of one principal of a tenant
	ShareTenant                 // those of a tenant
)

var shares = []string{ShareSession: "session", SharePrincipal: "principal", ShareTenant: "tenant"}

// String is the share as policies spell it.
func (s Share) String() string { return shares[s] }

// SecretPlace says where a secret is put. The zero value is the strictest one.
type SecretPlace int

// The places.
const (
	SecretAtDoor SecretPlace = iota // into requests that have left the box
	SecretInEnv                     // into the environment of the server, which can read it
)

var secretPlaces = []string{SecretAtDoor: "door", SecretInEnv: "env"}

// String is the place as policies spell it.
func (s SecretPlace) String() string { return secretPlaces[s] }

// UpstreamTimeouts bound how long a server may take. Every field must be above zero.
type UpstreamTimeouts struct {
	Handshake time.Duration // from the start of the server to the end of its handshake
	Install   time.Duration // of a launcher that fetches the server
	Call      time.Duration // of one call
	Idle      time.Duration // without a call, after which the server is stopped
}

// The times of a server for which the policy names none, and how long a list waits.
const (
	DefaultUpstreamHandshake = 30 * time.Second
	DefaultUpstreamInstall   = 2 * time.Minute
	DefaultUpstreamCall      = 2 * time.Minute
	DefaultUpstreamIdle      = 10 * time.Minute
	DefaultUpstreamWait      = 2 * time.Second
)

// The limits of a server's box for which the policy names none: a server of its own for
// each principal has to be small.
const (
	DefaultUpstreamMemory = 512 << 20 // bytes
	DefaultUpstreamPids   = 128       // processes and threads
	DefaultUpstreamCPU    = 1.0       // CPUs' worth of time
)

// upstreamLife is the longest life of a server's process. It ends when it is idle, and
// not with the time of a background job.
const upstreamLife = 30 * 24 * time.Hour

// publicRegistries are the hosts from which launchers fetch servers, where the policy
// does not say.
var publicRegistries = []string{"registry.npmjs.org", "pypi.org", "files.pythonhosted.org"}

// Upstream is what a policy says of one server.
type Upstream struct {
	Name     string
	Pin      Pin
	Share    Share
	Eager    bool // it is started when a session begins, and not at its first use
	Keep     bool // it is not stopped when it is idle
	Timeouts UpstreamTimeouts
	// Secrets are those that the server's entry may name as ${secret:NAME}, and the place
	// of each.
	Secrets map[string]SecretPlace
	Limit   RateLimit // of its calls by one tenant
	// Unguarded skips approvals and hooks for its calls. Denials stay.
	Unguarded bool
	Search    bool // its tools are found by a search, and not listed
	Sampling  bool // it may ask the model of the client whose call runs
	Roots     bool // it learns which directories its box has
	// AllowTools and DenyTools are patterns of the server's own names of its tools. No
	// AllowTools is all of them; DenyTools win.
	AllowTools, DenyTools []string

	facts []toolFacts
}

// upstream is an Upstream with the boxes that it gets.
type upstream struct {
	Upstream

	run     profileGrant // the box of the server
	install profileGrant // the box in which a launcher fetches the server
}

// upstreams is what a policy says of all servers.
type upstreams struct {
	from    []string
	wait    time.Duration
	base    upstream // of servers that the policy does not name
	servers map[string]upstream
}

// usualUpstreams are those of a policy that says nothing of them.
func usualUpstreams() upstreams {
	base := upstream{
		Upstream: Upstream{Pin: PinTofu, Share: SharePrincipal},
		run:      upstreamProfile(), install: upstreamProfile(),
	}
	upstreamTimeouts.usual(&base.Timeouts)
	base.install.network, base.install.egress = NetworkDoor, &Egress{}
	netLimits.usual(&base.install.egress.Limits)
	for _, host := range publicRegistries {
		base.install.egress.Allow = append(base.install.egress.Allow, EgressRule{Host: host, Ports: []uint16{443}})
	}
	return upstreams{wait: DefaultUpstreamWait, base: base}
}

// upstreamProfile is what the box of a server is without a profile: the system's
// directories and small limits. It has no workspace and no network.
func upstreamProfile() profileGrant {
	g := profileGrant{system: true, reading: defaultReading()}
	profileLimits.usual(&g.limits)
	g.limits.Memory, g.limits.Pids, g.limits.CPU = DefaultUpstreamMemory, DefaultUpstreamPids, DefaultUpstreamCPU
	return g
}

// of is what holds for a server. An entry that is not trusted has no secrets and the box
// that a server has without a profile: its author may have taken the name of a server to
// which the operator gives more.
func (u *upstreams) of(name string, trusted bool) upstream {
	one, ok := u.servers[name]
	if !ok {
		one = u.base
	}
	one.Name = name
	if !trusted {
		one.run, one.Secrets = upstreamProfile(), nil
		if one.install.network != NetworkNone {
			one.install = u.base.install
		}
		if e := one.install.egress; e != nil {
			bare := *e
			bare.Secrets = nil
			one.install.egress = &bare
		}
		one.Pin, one.Eager, one.Keep, one.Unguarded = min(one.Pin, PinAsk), false, false, false
		one.Sampling, one.Roots = false, false
	}
	return one
}

// Upstreams is what a policy says of other people's MCP servers.
type Upstreams struct{ p *Policy }

// Upstreams returns what the policy says of other people's MCP servers.
func (p *Policy) Upstreams() Upstreams { return Upstreams{p} }

// From are the files that say which servers there are, in the order of the policy. A
// name that the policy has as a relative one is below the directory of the policy.
func (u Upstreams) From() []string {
	all := slices.Clone(u.p.upstreams.from)
	for i, name := range all {
		if !path.IsAbs(name) {
			all[i] = path.Join(path.Dir(u.p.name), name)
		}
	}
	return all
}

// Wait is how long a list waits for servers that are starting.
func (u Upstreams) Wait() time.Duration { return u.p.upstreams.wait }

// Names are the servers that the policy names, in order.
func (u Upstreams) Names() []string { return names(u.p.upstreams.servers) }

// Of is what the policy says of a server, whether it names it or not. trusted says that
// no box can write the file of the server's entry.
func (u Upstreams) Of(name string, trusted bool) Upstream {
	one := u.p.upstreams.of(name, trusted).Upstream
	one.Secrets = maps.Clone(one.Secrets)
	one.AllowTools, one.DenyTools = slices.Clone(one.AllowTools), slices.Clone(one.DenyTools)
	return one
}

// Mounts are those of the boxes of all servers that the policy names, and of the others.
func (u Upstreams) Mounts() []Mount {
	all := slices.Clone(u.p.upstreams.base.run.mounts)
	for _, name := range names(u.p.upstreams.servers) {
		all = append(all, u.p.upstreams.servers[name].run.mounts...)
	}
	return all
}

// Fingerprint is another text as soon as the box of a server has to be made anew for what the
// policy says of it. The hosts that the box may reach are not in it, since they change in
// boxes that are open (Policy.Regrant).
func (u Upstreams) Fingerprint(name string, trusted bool) string {
	g := u.p.upstreams.of(name, trusted).run
	opened := g.egress != nil && g.egress.Intercept
	g.egress = nil
	return fmt.Sprintf("%+v %v", g, opened)
}

// UpstreamBox says which box of a server is meant.
type UpstreamBox struct {
	Server  string // its name
	Trusted bool   // no box can write the file of its entry
	Install bool   // a launcher fetches the server in it
	// Cache is a directory of the host for what launchers fetch, which the box sees at
	// UpstreamCache; empty for none. It can be written if Install or Scratch is set.
	Cache   string
	Scratch bool // Cache is a copy that is thrown away with the box
	// Layer says that the box writes to a layer over Cache, which ends with the box. Cache
	// itself stays as it is.
	Layer bool
}

// UpstreamCache is the directory in the box of a server for files that launchers fetched.
const UpstreamCache = "/var/cache/upstream"

// OfUpstream is the server's box that the grant is for; zero if it is for none.
func (g Grant) OfUpstream() UpstreamBox { return g.upstream }

// MayUse returns an error if a call with the grant must not be served by a server whose
// box was opened with the grant box: the server works for another tenant, or has what a
// layer takes from the call. A server is shared, so that it is not made anew for a
// session that may do less.
func (g Grant) MayUse(box Grant) error {
	switch {
	case g.IsZero():
		return errors.New("the call has no grant")
	case box.upstream.Server == "" || g.tenant != box.tenant:
		return errors.New("the server works for somebody else")
	case g.clip.readOnly && (box.access > AccessRead || slices.ContainsFunc(box.mounts, func(m Mount) bool { return m.Writable && m.Target != UpstreamCache })):
		return fmt.Errorf("this session must not write, and the server %s can", box.upstream.Server)
	case g.clip.offline && box.network != NetworkNone:
		return fmt.Errorf("nothing may leave this session's boxes, and the server %s has a network", box.upstream.Server)
	}
	return nil
}
