package policies

import (
	"fmt"
	"maps"
	"slices"
)

// Grant is all that one call may use. Only a Policy makes a Grant that allows anything:
// every room that takes a Grant refuses the zero Grant. A Grant is immutable; its methods
// return copies and are safe for concurrent use.
type Grant struct {
	profileGrant
	judging

	tenant string
	totals Totals
	clip   clip // what layers took away

	browserBox bool  // the grant is for the box that a browser runs in
	nests      bool  // that browser makes namespaces of its own
	downloads  int64 // size in bytes of BrowserDownloads

	upstream UpstreamBox // the upstream server for whose box the grant is; zero if it is not for such a box
}

// Tenant returns the tenant whose work the grant is for.
func (g Grant) Tenant() string { return g.tenant }

// Totals returns the bounds of all boxes of the grant's tenant together.
func (g Grant) Totals() Totals { return g.totals }

// ReadOnly reports whether a layer has taken away that anything of the host can be written.
func (g Grant) ReadOnly() bool { return g.clip.readOnly }

// Narrow returns the grant with the same or less access to the workspace. It fails if to is
// more access than the grant has.
func (g Grant) Narrow(to Access) (Grant, error) {
	if to > g.access {
		return Grant{}, fmt.Errorf("profile %q gives the workspace as %q, and %q would be wider", g.profile, g.access, to)
	}
	g.access = to
	return g, nil
}

// Covers reports whether a box opened under g can serve a call granted other: the same
// tenant, files, storage, image, network and environment, the same view of programs, and no
// limit above g's. A box outlives a call, so a later grant may narrow and never widen it.
// Protected paths must be the same: with less protection in other, the call could not write
// what it may write; with more, it could write what it may not.
//
// If both grants are of one profile, the hosts that the door lets through and the ports
// that may be published are not compared: they change for boxes that are open
// (Policy.Regrant), and are the same for all calls of the profile, except under a layer
// that lets nothing out. Two profiles with a door never share a box, whatever they say: one
// of them could reach what only the other may reach. Whether TLS is opened must be the same,
// since a box gets the authority that it trusts when it is made.
func (g Grant) Covers(other Grant) bool {
	return !g.IsZero() && !other.IsZero() && g.tenant == other.tenant &&
		g.browserBox == other.browserBox && g.nests == other.nests && g.downloads == other.downloads && g.upstream == other.upstream &&
		(g.clip.offline == other.clip.offline || len(g.publish)+len(other.publish) == 0) && g.covers(other.profileGrant)
}

// SameCall reports whether DecideExec returns the same decisions for both grants.
func (g Grant) SameCall(other Grant) bool {
	return g.policy == other.policy && g.call == other.call && g.approved == other.approved && slices.Equal(g.below, other.below) &&
		g.system == other.system && slices.Equal(g.mounts, other.mounts)
}

// judgedBy returns the grant of a policy's decision about a call. The same policy
// later decides about each program that the call starts and about each URL that
// its pages lead to.
func (g Grant) judgedBy(p *Policy, f Facts) Grant {
	if !g.IsZero() {
		g.asked = f.Profile
		f.Command, f.Env, f.Values, f.Paths, f.Hosts, f.URLs, f.Exec, f.Profile = "", nil, nil, nil, nil, nil, nil, g.profile
		g.acts, f.Acts = f.Acts, nil
		f.Stdin, f.Scene = "", nil
		g.policy, g.call = p, &f
	}
	return g
}

// judgedUnder returns the grant under one more layer.
func (g Grant) judgedUnder(l *Layer) Grant {
	if !g.IsZero() {
		g.below = append(slices.Clip(g.below), l)
	}
	return g
}

// judging contains what decides about the programs that the commands of a call start and
// about the URLs that its pages lead to: the policy, the layers and the call.
type judging struct {
	policy   *Policy
	below    []*Layer // layers of the session
	call     *Facts   // the call without its parts; it asks for the profile that it got
	approved bool     // a person has approved the call
	asked    string   // the profile that the call asked for by name; may be empty
	acts     []Act    // acts of the call
}

// profileGrant is what a profile gives to a call.
type profileGrant struct {
	profile string // name of the profile
	access  Access
	system  bool
	mounts  []Mount
	network Network
	egress  *Egress // nil if nothing may leave
	publish []PortRange
	image   string
	storage Storage
	protect Protect
	limits  Limits
	env     map[string]string
	require []Limit
	audited bool
	exec    ExecMode
	reading Reading
	browser browsing
}

// IsZero reports whether the grant allows nothing.
func (g profileGrant) IsZero() bool { return g.profile == "" }

// Profile returns the name of the profile that the grant was made from.
func (g profileGrant) Profile() string { return g.profile }

// Workspace returns what the box may do with the workspace.
func (g profileGrant) Workspace() Access { return g.access }

// System reports whether the host's system directories (/usr, /bin, /lib and
// the like) are visible, read-only.
func (g profileGrant) System() bool { return g.system }

// Mounts returns the further host paths that the box sees.
func (g profileGrant) Mounts() []Mount { return slices.Clone(g.mounts) }

// Network returns what may leave the box.
func (g profileGrant) Network() Network { return g.network }

// Egress returns what the door lets through, never nil. The value is shared and must not be
// changed.
func (g profileGrant) Egress() *Egress {
	if g.egress == nil {
		return &Egress{}
	}
	return g.egress
}

// Publish returns the ports of the box that a person may open on the host.
func (g profileGrant) Publish() []PortRange { return slices.Clone(g.publish) }

// Image returns the name of the image that is the box's root file system. It is empty for a
// root without an image.
func (g profileGrant) Image() string { return g.image }

// Storage returns where the files are stored that the box writes outside its workspace.
func (g profileGrant) Storage() Storage { return g.storage }

// Protect returns which part of a writable workspace the box cannot write.
func (g profileGrant) Protect() Protect {
	return Protect{Off: g.protect.Off, Also: slices.Clone(g.protect.Also)}
}

// Limits returns the bounds of the box and of each command.
func (g profileGrant) Limits() Limits { return g.limits }

// Env returns the environment that the profile adds to every command.
func (g profileGrant) Env() map[string]string { return maps.Clone(g.env) }

// Require returns the limits that the host must be able to enforce.
func (g profileGrant) Require() []Limit { return slices.Clone(g.require) }

// AuditRequired reports whether a call must not run if its decision cannot be
// written to the audit log.
func (g profileGrant) AuditRequired() bool { return g.audited }

// Exec returns what is done about the programs that the box's commands start.
func (g profileGrant) Exec() ExecMode { return g.exec }

// covers does the part of Covers that is about what profiles give.
func (g profileGrant) covers(other profileGrant) bool {
	return g.access == other.access && g.system == other.system && g.image == other.image &&
		slices.Equal(g.mounts, other.mounts) && g.sameNetwork(other) && g.storage == other.storage && g.sameExec(other) &&
		g.protect.equal(other.protect) && maps.Equal(g.env, other.env) && other.limits.within(g.limits.BoxLimits)
}

// sameExec does the part of Covers about the programs that commands start: a box either
// reports them or does not, for its whole life, and each question about them is asked for
// one profile.
func (g profileGrant) sameExec(other profileGrant) bool {
	return g.exec == other.exec && (g.exec != ExecEnforce || g.profile == other.profile)
}

// sameNetwork does the part of Covers that is about the network.
func (g profileGrant) sameNetwork(other profileGrant) bool {
	switch {
	case g.network != other.network || g.Egress().Intercept != other.Egress().Intercept:
		return false
	case g.profile == other.profile:
		return true
	}
	return g.network == NetworkNone && slices.Equal(g.publish, other.publish)
}
