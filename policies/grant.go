package policies

import (
	"fmt"
	"maps"
	"slices"
)

// Access says what a box may do with its workspace. The zero value is the closed
// one.
type Access int

// The accesses, from the closed one up.
const (
	AccessNone    Access = iota // no workspace is mounted
	AccessRead                  // mounted read-only
	AccessOverlay               // what is written lands in a layer of its own, beside the workspace
	AccessWrite                 // mounted read-write
)

// String is the access as policies spell it.
func (a Access) String() string {
	switch a {
	case AccessRead:
		return "ro"
	case AccessOverlay:
		return "overlay"
	case AccessWrite:
		return "rw"
	case AccessNone:
	}
	return "none"
}

// Network says what may leave a box. The zero value is nothing.
type Network int

// The networks, from the closed one up.
const (
	NetworkNone Network = iota // a loopback interface of its own only
	NetworkDoor                // the egress door besides: what the Egress of the grant lets through
)

// PortRange is a range of ports of a box that may be published on the host's
// loopback, from First to Last.
type PortRange struct{ First, Last uint16 }

// Mount is one host directory or file that a box sees besides its system
// directories and its workspace.
type Mount struct {
	Source   string // absolute path on the host
	Target   string // absolute path in the box
	Writable bool
}

// Storage says what holds what a box writes outside its workspace: /tmp,
// /dev/shm, /run and its home. The zero value is memory.
type Storage int

// The storages.
const (
	StorageMemory Storage = iota // a tmpfs, which counts as the box's memory
	StorageDisk                  // an area of a disk, held by a quota
)

// Protect says which paths of a writable workspace a box cannot write. The zero
// value is the default set: files that the host runs by itself, for example
// those in .git/hooks.
type Protect struct {
	Off  bool     // not even the default set
	Also []string // further paths, relative to the workspace, in order
}

func (p Protect) equal(other Protect) bool {
	return p.Off == other.Off && slices.Equal(p.Also, other.Also)
}

// Totals bound all boxes of one tenant together, above the Limits of each.
// Every field must be above zero.
type Totals struct {
	Memory int64   // bytes, with what the boxes store in memory
	Pids   int64   // processes and threads
	CPU    float64 // CPUs' worth of time
	Boxes  int     // boxes open at once
}

// Limit names a bound that a host may or may not be able to enforce; profiles
// list them under require.
type Limit string

// The limits that depend on what the host offers.
const (
	LimitMemory Limit = "memory"
	LimitPids   Limit = "pids"
	LimitCPU    Limit = "cpu"
	LimitIO     Limit = "io"
	LimitDisk   Limit = "disk"
)

// Grant is all that one call may use. Only a Policy makes one that allows
// anything: the zero Grant is refused by every room that takes a Grant.
// A Grant is immutable; its methods return copies and are safe for concurrent
// use.
type Grant struct {
	tenant  string
	profile string
	access  Access
	system  bool
	mounts  []Mount
	network Network
	egress  *Egress // nil for nothing
	publish []PortRange
	image   string
	storage Storage
	protect Protect
	limits  Limits
	totals  Totals
	env     map[string]string
	require []Limit
	clip    clip // what layers took away
	audited bool
	exec    ExecMode
	reading Reading
	browser Browser

	// The policy, the layers and the call that decide about the programs that its
	// commands start and about the URLs that its pages lead to.
	policy   *Policy
	below    []*Layer // of the session
	call     *Facts   // without its parts
	approved bool     // by a person
	asked    string   // the profile that the call asked for by name; may be empty

	browserBox bool // the grant is for the box that a browser runs in
	nests      bool // that browser makes namespaces of its own
}

// IsZero reports whether the grant allows nothing.
func (g Grant) IsZero() bool { return g.profile == "" }

// Tenant is whose work the grant is for.
func (g Grant) Tenant() string { return g.tenant }

// Profile is the name of the profile the grant was made from.
func (g Grant) Profile() string { return g.profile }

// Workspace is what the box may do with the workspace.
func (g Grant) Workspace() Access { return g.access }

// Narrow returns the grant with the same or less access to the workspace. It
// refuses more access than the grant has.
func (g Grant) Narrow(to Access) (Grant, error) {
	if to > g.access {
		return Grant{}, fmt.Errorf("profile %q gives the workspace as %q, and %q would be wider", g.profile, g.access, to)
	}
	g.access = to
	return g, nil
}

// AuditRequired reports whether a call must not run if its decision cannot be
// written to the audit log.
func (g Grant) AuditRequired() bool { return g.audited }

// System reports whether the host's system directories (/usr, /bin, /lib and
// the like) are visible, read-only.
func (g Grant) System() bool { return g.system }

// Mounts are the further host paths the box sees.
func (g Grant) Mounts() []Mount { return slices.Clone(g.mounts) }

// Network is what may leave the box.
func (g Grant) Network() Network { return g.network }

// Egress is what the door lets through, never nil. It is shared and must not
// be changed.
func (g Grant) Egress() *Egress {
	if g.egress == nil {
		return &Egress{}
	}
	return g.egress
}

// Publish are the ports of the box that a person may open on the host.
func (g Grant) Publish() []PortRange { return slices.Clone(g.publish) }

// Image is the name of the image that is the box's root file system; empty for
// a root of its own.
func (g Grant) Image() string { return g.image }

// Storage is what holds what the box writes outside its workspace.
func (g Grant) Storage() Storage { return g.storage }

// Protect is what of a writable workspace the box cannot write.
func (g Grant) Protect() Protect {
	return Protect{Off: g.protect.Off, Also: slices.Clone(g.protect.Also)}
}

// Limits are the bounds of the box and of each command.
func (g Grant) Limits() Limits { return g.limits }

// Totals are the bounds of all boxes of the grant's tenant together.
func (g Grant) Totals() Totals { return g.totals }

// Env is the environment the profile adds to every command.
func (g Grant) Env() map[string]string { return maps.Clone(g.env) }

// Require are the limits that the host must be able to enforce.
func (g Grant) Require() []Limit { return slices.Clone(g.require) }

// Covers reports whether a box opened under g can serve a call granted other:
// the same tenant, files, image, network and environment, and no limit above
// g's. A box outlives a call, so a later grant may narrow and never widen it.
// Protected paths must be the same: with less protection the call could not
// write what it was granted, with more it could write what it was not.
//
// What the door lets through and what may be published is not compared where
// both grants are of one profile: it changes under boxes that are open
// (Policy.Regrant), and is the same for all calls of the profile. Two profiles
// with a door never share a box, whatever they say: the one could reach what
// only the other may. Whether TLS is opened must be the same, since a box gets
// the authority it trusts when it is made.
func (g Grant) Covers(other Grant) bool {
	return !g.IsZero() && !other.IsZero() &&
		g.tenant == other.tenant && g.access == other.access && g.system == other.system &&
		g.image == other.image && slices.Equal(g.mounts, other.mounts) && g.sameNetwork(other) &&
		g.storage == other.storage && g.browserBox == other.browserBox && g.nests == other.nests && g.sameExec(other) && g.protect.equal(other.protect) &&
		maps.Equal(g.env, other.env) && other.limits.within(g.limits)
}

// sameExec is the part of Covers about the programs that commands start: a box
// either reports them or does not, for its whole life, and the questions about
// them are asked for one profile.
func (g Grant) sameExec(other Grant) bool {
	return g.exec == other.exec && (g.exec != ExecEnforce || g.profile == other.profile)
}

// sameNetwork is the part of Covers that is about the network.
func (g Grant) sameNetwork(other Grant) bool {
	switch {
	case g.network != other.network || g.Egress().Intercept != other.Egress().Intercept:
		return false
	case g.profile == other.profile:
		return true
	}
	return g.network == NetworkNone && slices.Equal(g.publish, other.publish)
}

// Regrant is what the tenant and the profile of an earlier grant have under
// this policy: for boxes that are open when a policy takes the place of
// another. What a box keeps as it was made with stays in it; its egress and
// what it may publish are to become those of the new grant. False says that
// this policy has no such profile for the tenant: nothing may leave such a box
// any more.
func (p *Policy) Regrant(g Grant) (Grant, bool) {
	_, ok := p.profiles[g.profile]
	own := p.tenants[g.tenant]
	if !ok || g.IsZero() || !p.serves(g.tenant) || own != nil && !own.may(g.profile) {
		return Grant{}, false
	}
	now := p.grant(g.profile, g.tenant).clipped(g.clip)
	if g.browserBox {
		offline := g.network == NetworkNone && now.network != NetworkNone
		var err error
		if now, err = now.ForBrowser(BrowserBox{Nested: g.nests, Offline: offline}); err != nil {
			return Grant{}, false // no browser any more
		}
	}
	return now, true
}
