package mcp

import "sync"

// Shared contains the quotas that the servers of one process count together, so that a
// tenant has its quotas once in total and not once in each place: the requests, sessions
// and open streams of each tenant, and the running requests of all tenants. It is safe for
// concurrent use.
type Shared struct {
	hall hall

	mu    sync.Mutex
	doors map[string]*admission // guarded by mu: admissions of tenants that have their own limits
	taken map[taking]int        // guarded by mu: number of each quota that a tenant uses
}

// taking is the key for a tenant's use of a quota.
type taking struct{ quota, tenant string }

// The quotas that are counted by name. Errors and the policy use the same names.
const (
	quotaSessions = "sessions"
	quotaStreams  = "streams"
)

// DefaultAtOnce is how many requests of all tenants run at the same time, if NewShared gets
// zero.
const DefaultAtOnce = 1024

// NewShared returns a Shared that lets atOnce requests run at the same time; zero stands
// for DefaultAtOnce.
func NewShared(atOnce int) *Shared {
	return &Shared{hall: hall{most: orElse(atOnce, DefaultAtOnce)}, doors: make(map[string]*admission), taken: make(map[taking]int)}
}

// take adds one to a tenant's use of a quota. It returns false if the tenant uses most
// already.
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

// giveBack subtracts what take has added.
func (s *Shared) giveBack(quota, tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := taking{quota, tenant}
	if s.taken[key]--; s.taken[key] == 0 {
		delete(s.taken, key)
	}
}

// door returns the admission of a tenant that has its own limits.
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

// TenantUsage is what the clients of a tenant use at present.
type TenantUsage struct {
	Sessions int `json:"sessions"` // number of sessions over HTTP
	Streams  int `json:"streams"`
	Running  int `json:"in_flight"` // number of running requests
	Waiting  int `json:"waiting"`   // number of requests that wait for their turn
}

// Used returns what the clients of a tenant use at present.
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

// tenantSessions returns how many sessions over HTTP a tenant may have open at the same
// time.
func (c *Config) tenantSessions(tenant string) int {
	if own, named := c.tenantLimits(tenant); named {
		return orElse(own.Sessions, c.Limits.TenantSessions)
	}
	return c.Limits.TenantSessions
}

// tenantLimits returns the limits of a tenant. named reports whether the tenant has its own
// limits.
func (c *Config) tenantLimits(tenant string) (l TenantLimits, named bool) {
	if !c.tenanted() {
		return l, false
	}
	return c.Auth.Limits(tenant)
}
