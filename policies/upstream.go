package policies

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// The upstreams are other people's MCP servers, whose tools belljar offers as its own after
// a policy has decided about each call. Files in the same form as those of other clients
// name the servers; the policy says what each server may do.

// Pin says which definitions of a server's tools are used without a new question to a
// person. The zero value is the strictest one.
type Pin int

// The pins, the strictest first.
const (
	PinStrict Pin = iota // only definitions that were imported
	PinAsk               // definitions that a person agreed to
	PinTofu              // the first definitions of the server; a person is asked about changes
	PinOff               // all definitions of the server
)

var pins = []string{PinStrict: "strict", PinAsk: "ask", PinTofu: "tofu", PinOff: "off"}

// String returns the pin as policies spell it.
func (p Pin) String() string { return wordOf(pins, int(p)) }

// Share says whose calls one running server serves; a server never serves two tenants.
// The zero value is the strictest one.
type Share int

// The shares, the strictest first.
const (
	ShareSession   Share = iota // calls of one session
	SharePrincipal              // calls of one principal of a tenant
	ShareTenant                 // calls of one tenant
)

var shares = []string{ShareSession: "session", SharePrincipal: "principal", ShareTenant: "tenant"}

// String returns the share as policies spell it.
func (s Share) String() string { return wordOf(shares, int(s)) }

// SecretPlace says where a secret is put. The zero value is the strictest one.
type SecretPlace int

// The places.
const (
	SecretAtDoor SecretPlace = iota // into requests that have left the box
	SecretInEnv                     // into the environment of the server, which can read it
)

var secretPlaces = []string{SecretAtDoor: "door", SecretInEnv: "env"}

// String returns the place as policies spell it.
func (s SecretPlace) String() string { return wordOf(secretPlaces, int(s)) }

// UpstreamTimeouts bound how long a server may take. Every field must be above zero.
type UpstreamTimeouts struct {
	Handshake time.Duration // from the start of the server to the end of its handshake
	Install   time.Duration // time for a launcher that fetches the server
	Call      time.Duration // time of one call
	Idle      time.Duration // time without a call, after which the server is stopped
}

// The times of a server for which the policy states none, and how long a list waits.
const (
	DefaultUpstreamHandshake = 30 * time.Second
	DefaultUpstreamInstall   = 2 * time.Minute
	DefaultUpstreamCall      = 2 * time.Minute
	DefaultUpstreamIdle      = 10 * time.Minute
	DefaultUpstreamWait      = 2 * time.Second
)

// The limits of a server's box for which the policy states none. They are small, because
// each principal can have a server of its own.
const (
	DefaultUpstreamMemory = 512 << 20 // bytes
	DefaultUpstreamPids   = 128       // processes and threads
	DefaultUpstreamCPU    = 1.0       // CPUs' worth of time
)

// upstreamLife is the longest life of a server's process. A server ends when it is idle,
// not after the time of a background job.
const upstreamLife = 30 * 24 * time.Hour

// publicRegistries are the hosts from which launchers fetch servers if the policy does not
// name others.
var publicRegistries = []string{"registry.npmjs.org", "pypi.org", "files.pythonhosted.org"}

// Upstream is what a policy says about one server.
type Upstream struct {
	Name     string
	Pin      Pin
	Share    Share
	Eager    bool // the server is started when a session begins, not at its first use
	Keep     bool // the server is not stopped when it is idle
	Timeouts UpstreamTimeouts
	// Secrets are the secrets that the server's entry may name as ${secret:NAME}, and the
	// place of each.
	Secrets map[string]SecretPlace
	Limit   RateLimit // limit of the server's calls by one tenant
	// Unguarded skips approvals and hooks for calls of the server. Denials stay.
	Unguarded bool
	Search    bool // the server's tools are found by a search, and not listed
	Sampling  bool // the server may ask the model of the client whose call runs
	Roots     bool // the server can list the directories of its box
	// AllowTools and DenyTools are patterns of the server's own names of its tools. If
	// AllowTools is empty, all tools are allowed; DenyTools win.
	AllowTools, DenyTools []string

	facts []toolFacts
}

// upstream is an Upstream with the profiles of its boxes.
type upstream struct {
	Upstream

	run     profileGrant // the box of the server
	install profileGrant // the box in which a launcher fetches the server
}

// upstreams is what a policy says about all servers.
type upstreams struct {
	from    []string
	wait    time.Duration
	base    upstream // for servers that the policy does not name
	servers map[string]upstream
}

// usualUpstreams returns the upstreams of a policy that says nothing about them.
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

// upstreamProfile returns the grant for the box of a server without a profile: the system's
// directories and small limits. It has no workspace and no network.
func upstreamProfile() profileGrant {
	g := profileGrant{system: true, reading: defaultReading()}
	profileLimits.usual(&g.limits)
	g.limits.Memory, g.limits.Pids, g.limits.CPU = DefaultUpstreamMemory, DefaultUpstreamPids, DefaultUpstreamCPU
	return g
}

// of returns what the policy says about a server. An entry that is not trusted gets no
// secrets, the box of a server without a profile, and the stricter value of each key that
// trusts the server: its author may have used the name of a server to which the operator
// gives more.
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

// Upstreams is what a policy says about other people's MCP servers.
type Upstreams struct{ p *Policy }

// Upstreams returns what the policy says about other people's MCP servers.
func (p *Policy) Upstreams() Upstreams { return Upstreams{p} }

// From returns the files that name the servers, in the order of the policy. A relative name
// in the policy is below the directory of the policy.
func (u Upstreams) From() []string {
	all := slices.Clone(u.p.upstreams.from)
	for i, name := range all {
		if !path.IsAbs(name) {
			all[i] = path.Join(path.Dir(u.p.name), name)
		}
	}
	return all
}

// Wait returns how long a list waits for servers that are starting.
func (u Upstreams) Wait() time.Duration { return u.p.upstreams.wait }

// Names returns the names of the servers in the policy, in order.
func (u Upstreams) Names() []string { return names(u.p.upstreams.servers) }

// Of returns what the policy says about a server, whether it names the server or not.
// trusted says that no box can write the file of the server's entry.
func (u Upstreams) Of(name string, trusted bool) Upstream {
	one := u.p.upstreams.of(name, trusted).Upstream
	one.Secrets = maps.Clone(one.Secrets)
	one.AllowTools, one.DenyTools = slices.Clone(one.AllowTools), slices.Clone(one.DenyTools)
	return one
}

// Mounts returns the mounts of the boxes of all servers that the policy names, and of the
// other servers.
func (u Upstreams) Mounts() []Mount {
	all := slices.Clone(u.p.upstreams.base.run.mounts)
	for _, name := range names(u.p.upstreams.servers) {
		all = append(all, u.p.upstreams.servers[name].run.mounts...)
	}
	return all
}

// Fingerprint returns a text that changes when the box of a server must be made anew
// because of what the policy says about the server. The hosts that the box may reach are
// not part of it, since they change for boxes that are open (Policy.Regrant).
func (u Upstreams) Fingerprint(name string, trusted bool) string {
	g := u.p.upstreams.of(name, trusted).run
	opened := g.egress != nil && g.egress.Intercept
	g.egress = nil
	return fmt.Sprintf("%+v %v", g, opened)
}

// UpstreamBox says which box of a server is meant.
type UpstreamBox struct {
	Server  string // name of the server
	Trusted bool   // no box can write the file of the server's entry
	Install bool   // the box is for a launcher that fetches the server
	// Cache is a directory of the host for files that launchers fetch, which the box sees
	// at UpstreamCache. It is empty if there is no such directory. It can be written if
	// Install or Scratch is set.
	Cache   string
	Scratch bool // Cache is a copy that is deleted with the box
	// Layer says that the box writes to a layer over Cache, which ends with the box. Cache
	// itself stays as it is.
	Layer bool
}

// UpstreamCache is the directory in the box of a server for files that launchers fetched.
const UpstreamCache = "/var/cache/upstream"

// OfUpstream returns the server's box that the grant is for, or zero if it is not for such
// a box.
func (g Grant) OfUpstream() UpstreamBox { return g.upstream }

// MayUse returns an error if a call with the grant must not be served by a server whose box
// was opened with the grant box: the server works for another tenant, or may do something
// that a layer forbids the call. Servers are shared, so a server is not made anew for a
// session that may do less.
func (g Grant) MayUse(box Grant) error {
	switch {
	case g.IsZero():
		return errors.New("the call has no grant")
	case box.upstream.Server == "" || g.tenant != box.tenant:
		return errors.New("the server works for another tenant")
	case g.clip.readOnly && (box.access > AccessRead || slices.ContainsFunc(box.mounts, func(m Mount) bool { return m.Writable && m.Target != UpstreamCache })):
		return fmt.Errorf("this session must not write, and the server %s can", box.upstream.Server)
	case g.clip.offline && box.network != NetworkNone:
		return fmt.Errorf("nothing may leave this session's boxes, and the server %s has a network", box.upstream.Server)
	}
	return nil
}
