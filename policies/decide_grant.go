package policies

import (
	"fmt"
	"slices"
)

// grant returns what a profile gives to a tenant, without what the tenant's layers take
// away.
func (p *Policy) grant(profile, tenantName string) Grant {
	g := Grant{tenant: tenantName, totals: p.totals, profileGrant: p.profiles[profile]}
	if t, ok := p.tenants[tenantName]; ok {
		g.totals = t.Totals
	}
	for _, l := range p.layersOf(tenantName) {
		g = g.clipped(l.clip)
	}
	return g
}

// Grant returns the grant of the box of an upstream server for a tenant. See
// Grant.ForBrowser for the grant of a browser's box. The box has no workspace and no
// network unless the policy says so. The grant is not made from the grant of a call: a
// server may be started before there is a call, and continues to work after it. Grant fails
// if the policy does not serve the tenant. For a box in which a server is installed, it
// also fails if nothing may be installed.
func (u Upstreams) Grant(tenantName string, b UpstreamBox) (Grant, error) {
	p := u.p
	if b.Server == "" || !p.serves(tenantName) {
		return Grant{}, fmt.Errorf("start the server %q: the policy has no tenant %q for it", b.Server, tenantName)
	}
	of := p.upstreams.of(b.Server, b.Trusted)
	g := Grant{tenant: tenantName, totals: p.totals, profileGrant: of.run, upstream: b}
	if b.Install {
		if g.profileGrant = of.install; g.network == NetworkNone {
			return Grant{}, fmt.Errorf("install the server %q: the policy lets nothing be installed (install of upstreams has the mode none)", b.Server)
		}
	}
	g.profile = "upstream:" + b.Server // not the name of a profile: a call cannot ask for it
	// The rules about an agent's commands are not meant for the programs of a server.
	g.exec, g.browser, g.publish, g.audited = ExecOff, browsing{}, nil, false
	if t, ok := p.tenants[tenantName]; ok {
		g.totals = t.Totals
	}
	for _, l := range p.layersOf(tenantName) {
		g = g.clipped(l.clip)
	}
	g.limits.Background = upstreamLife
	if b.Cache != "" {
		g.mounts = append(slices.Clip(g.mounts), Mount{Source: b.Cache, Target: UpstreamCache, Writable: b.Install || b.Scratch || b.Layer})
	}
	return g, nil
}

// Clipped returns a grant without what the layer takes away. A nil layer takes nothing.
func (l *Layer) Clipped(g Grant) Grant {
	if l == nil {
		return g
	}
	return g.clipped(l.clip)
}

// clipped returns the grant without what a layer takes away. The grant remembers
// the clip, so that a policy that is read later cannot give it back to a box that
// is open (Policy.Regrant).
func (g Grant) clipped(c clip) Grant {
	if g.IsZero() || c == (clip{}) {
		return g
	}
	g.clip = g.clip.and(c)
	if c.readOnly {
		g.access = min(g.access, AccessRead)
		g.mounts = slices.Clone(g.mounts)
		for i := range g.mounts {
			g.mounts[i].Writable = false
		}
	}
	if c.offline {
		g.network, g.egress, g.publish = NetworkNone, nil, nil
	}
	g.limits = g.limits.least(c.limits)
	return g
}

// Regrant returns the grant that the tenant and the profile of an earlier grant have under
// this policy. It is for boxes that are open when a policy takes the place of another. The
// parts of a grant with which a box was made stay; the egress and the published ports of
// the box must become those of the new grant. Regrant returns false if this policy has no
// such profile for the tenant: then nothing may leave the box any more.
func (p *Policy) Regrant(g Grant) (Grant, bool) {
	if g.upstream.Server != "" {
		now, err := p.Upstreams().Grant(g.tenant, g.upstream)
		return now.clipped(g.clip), err == nil
	}
	_, ok := p.profiles[g.profile]
	own := p.tenants[g.tenant]
	if !ok || g.IsZero() || !p.serves(g.tenant) || own != nil && !own.may(g.profile) {
		return Grant{}, false
	}
	now := p.grant(g.profile, g.tenant).clipped(g.clip)
	if g.browserBox {
		offline := g.network == NetworkNone && now.network != NetworkNone
		var err error
		if now, err = now.ForBrowser(BrowserBox{Nested: g.nests, Offline: offline, Downloads: g.downloads}); err != nil {
			return Grant{}, false // the profile has no such browser any more
		}
	}
	return now, true
}
