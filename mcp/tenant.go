package mcp

import (
	"maps"
	"sync"

	"belljar.dev/mcp/wire"
)

// TenantLimits bound the requests of one tenant. Each is above zero.
type TenantLimits struct {
	Rate     float64 // requests per second, after Burst
	Burst    int     // requests of one burst, before Rate applies
	InFlight int     // requests that run at the same time
	Sessions int     // open sessions over HTTP
	Streams  int     // open streams over HTTP
}

// doorOf returns the admission of a new session. All sessions of a tenant share one if the
// tenant has its own limits.
func (st *sessionTable) doorOf(tenant string) *admission {
	limits, shared := st.cfg.limitsOf(tenant)
	if !shared {
		return newAdmission(limits, &st.cfg.Shared.hall)
	}
	return st.cfg.Shared.door(tenant, limits)
}

// limitsOf returns the limits of a tenant's sessions. shared reports whether the sessions
// have these limits together.
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

// reload applies the present limits of all tenants.
func (st *sessionTable) reload() {
	shared := st.cfg.Shared
	shared.mu.Lock()
	doors := maps.Clone(shared.doors)
	shared.mu.Unlock()
	for tenant, door := range doors {
		limits, own := st.cfg.limitsOf(tenant)
		if own {
			door.set(limits)
			continue
		}
		// The tenant has no limits of its own any more. Its open sessions keep the shared
		// admission; a later session gets its own.
		shared.mu.Lock()
		delete(shared.doors, tenant)
		shared.mu.Unlock()
	}
}

// allBodies and tenantBodies bound the bytes of all messages in flight from HTTP clients,
// as multiples of Limits.QueueBytes. allBodies holds for a server without tenants,
// tenantBodies for each tenant.
const (
	allBodies    = 8
	tenantBodies = 2
)

// inFlight counts the bytes of messages in flight from HTTP clients.
type inFlight struct {
	cfg *Config

	mu    sync.Mutex
	bytes map[string]int // guarded by mu: bytes by tenant
}

func newInFlight(cfg *Config) *inFlight { return &inFlight{cfg: cfg, bytes: make(map[string]int)} }

// hold reserves n bytes for a message of a tenant, or releases -n. It reports false if
// there is no room.
func (f *inFlight) hold(tenant string, n int) bool {
	most := f.cfg.Limits.QueueBytes * allBodies
	if f.cfg.tenanted() {
		most = f.cfg.Limits.QueueBytes * tenantBodies
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > 0 && f.bytes[tenant]+n > most {
		return false
	}
	if f.bytes[tenant] += n; f.bytes[tenant] == 0 {
		delete(f.bytes, tenant)
	}
	return true
}

// room reserves n bytes for a message, or releases them if n is below zero.
type room func(n int) bool

// of returns the room of a session.
func (f *inFlight) of(session *Session) room {
	return func(n int) bool { return f.hold(session.tenant, n) }
}

func (r room) take(m *wire.Message) bool { return r == nil || r(len(m.Raw)) }

func (r room) release(m *wire.Message) {
	if r != nil {
		r(-len(m.Raw))
	}
}

// bytesInFlight returns the error for a message for which hold has no room.
func bytesInFlight() *wire.Error {
	return wire.OverLimit("bytes_in_flight", queueRetry, "your messages in flight are too large in total; try again after one has been answered")
}
