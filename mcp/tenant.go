package mcp

import "maps"

// TenantLimits bound the requests of one tenant. Each is above zero.
type TenantLimits struct {
	Rate     float64 // in a second, after Burst
	Burst    int     // at once before the rate counts
	InFlight int     // that run at once
}

// doorOf is the admission of a new session: one that all sessions of its tenant
// share, if the tenant has limits of its own.
func (st *sessionTable) doorOf(tenant string) *admission {
	limits, shared := st.cfg.limitsOf(tenant)
	if !shared {
		return newAdmission(limits)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	door := st.doors[tenant]
	if door == nil {
		door = newAdmission(limits)
		st.doors[tenant] = door
	}
	return door
}

// limitsOf are the limits of a tenant's sessions; shared says that they hold
// for all of them together.
func (c *Config) limitsOf(tenant string) (_ Limits, shared bool) {
	l := c.Limits
	if c.Auth == nil {
		return l, false
	}
	own, ok := c.Auth.Limits(tenant)
	if !ok {
		return l, false
	}
	l.Rate, l.Burst, l.Running = own.Rate, own.Burst, own.InFlight
	return l.withDefaults(), true
}

// reload gives tenants the limits that they have now.
func (st *sessionTable) reload() {
	st.mu.Lock()
	doors := maps.Clone(st.doors)
	st.mu.Unlock()
	for tenant, door := range doors {
		limits, shared := st.cfg.limitsOf(tenant)
		if shared {
			door.set(limits)
			continue
		}
		// Sessions that are open keep it; later ones get one of their own.
		st.mu.Lock()
		delete(st.doors, tenant)
		st.mu.Unlock()
	}
}

// Reloaded is to be called after the answers of Gate or Auth have changed. Where the
// set of tools that is hidden from a tenant is another one now, its clients are
// notified to list the tools again. Tenants get their new limits, and the streams of
// callers who would not be let in any more end.
func (s *Server) Reloaded() {
	s.web.callers.recheck()
	s.sessions.reload()
	s.tools.relist()
}
