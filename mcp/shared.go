package mcp

import "sync"

// Shared is what the servers of one process count together, so that a tenant has its
// quotas once, and not once in each place: the requests, sessions and open streams of each
// tenant, and the requests that run in all. It is safe for concurrent use.
type Shared struct {
	hall hall

	mu    sync.Mutex
	doors map[string]*admission // guarded by mu: of tenants with limits of their own
	taken map[taking]int        // guarded by mu
}

// taking is the key of what a tenant has taken of a quota.
type taking struct{ quota, tenant string }

// The quotas that are counted by name. Errors and the policy use the same names.
const (
	quotaSessions = "sessions"
	quotaStreams  = "streams"
)

// DefaultAtOnce is how many requests run at once in all, where NewShared is not told.
const DefaultAtOnce = 1024

// NewShared returns what several servers share that let atOnce requests run at the same time;
// zero stands for DefaultAtOnce.
func NewShared(atOnce int) *Shared {
	return &Shared{hall: hall{most: orElse(atOnce, DefaultAtOnce)}, doors: make(map[string]*admission), taken: make(map[taking]int)}
}

// take takes one of a quota for a tenant, unless it has as many as it may.
func (s *Shared) take(quota, tenant string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := taking{quota, tenant}
	if s.taken[key] >= most {
		return false
	}
	s.taken[key]++
	return true
}

// giveBack gives back what take has taken.
func (s *Shared) giveBack(quota, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := taking{quota, tenant}
	if s.taken[key]--; s.taken[key] == 0 {
		delete(s.taken, key)
	}
}

// door is the admission of a tenant that has limits of its own.
func (s *Shared) door(tenant string, l Limits) *admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	door := s.doors[tenant]
	if door == nil {
		door = newAdmission(l, &s.hall)
		s.doors[tenant] = door
	}
	return door
}

// TenantUsage is what the clients of a tenant use now.
type TenantUsage struct {
	Sessions int `json:"sessions"` // over HTTP
	Streams  int `json:"streams"`
	Running  int `json:"in_flight"` // requests that run
	Waiting  int `json:"waiting"`   // requests that wait for their turn
}

// Used returns what the clients of a tenant use.
func (s *Shared) Used(tenant string) TenantUsage {
	s.mu.Lock()
	u := TenantUsage{Sessions: s.taken[taking{quotaSessions, tenant}], Streams: s.taken[taking{quotaStreams, tenant}]}
	door := s.doors[tenant]
	s.mu.Unlock()
	if door != nil {
		u.Running, u.Waiting = door.busy()
	}
	return u
}

// tenantSessions is how many sessions over HTTP a tenant may have open at once.
func (c *Config) tenantSessions(tenant string) int {
	if own, named := c.tenantLimits(tenant); named {
		return orElse(own.Sessions, c.Limits.TenantSessions)
	}
	return c.Limits.TenantSessions
}

// tenantLimits are the limits of a tenant; named says that it has its own.
func (c *Config) tenantLimits(tenant string) (l TenantLimits, named bool) {
	if !c.tenanted() {
		return l, false
	}
	return c.Auth.Limits(tenant)
}
