package policies

import "slices"

// grant is what the profile of a name gives to a tenant: with less wherever a
// layer takes from it.
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

// clipped returns the grant without what a layer takes away. The grant remembers
// the clip, so that a policy that is read later cannot give it back to a box that
// is open (Policy.Regrant).
func (g Grant) clipped(c clip) Grant {
	if g.IsZero() {
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
