package mcp

import (
	"maps"
	"sync"

	"belljar.dev/mcp/wire"
)

// TenantLimits bound the requests of one tenant. Each is above zero.
type TenantLimits struct {
	Rate     float64 // in a second, after Burst
	Burst    int     // at once before the rate counts
	InFlight int     // that run at once
	Sessions int     // over HTTP, open at once
	Streams  int     // over HTTP, open at once
}

// doorOf is the admission of a new session: one that all sessions of its tenant
// share, if the tenant has limits of its own.
func (st *sessionTable) doorOf(tenant string) *admission {
	limits, shared := st.cfg.limitsOf(tenant)
	if !shared {
		return newAdmission(limits, &st.cfg.Shared.hall)
	}
	return st.cfg.Shared.door(tenant, limits)
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
		// Sessions that are open keep it; later ones get one of their own.
		shared.mu.Lock()
		delete(shared.doors, tenant)
		shared.mu.Unlock()
	}
}

// allBodies and tenantBodies bound the bytes of all messages in flight from HTTP
// clients. Their unit is one session's bound. They hold for the whole server, or, if it
// has tenants, for each of them.
const (
	allBodies    = 8
	tenantBodies = 2
)

// inFlight counts the bytes of messages in flight from HTTP clients.
type inFlight struct {
	cfg *Config

	mu    sync.Mutex
	bytes map[string]int // guarded by mu: by tenant
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

// room reserves bytes for a message, or releases them where n is below zero.
type room func(n int) bool

// of is the room of a session.
func (f *inFlight) of(session *Session) room {
	return func(n int) bool { return f.hold(session.tenant, n) }
}

func (r room) take(m *wire.Message) bool { return r == nil || r(len(m.Raw)) }

func (r room) release(m *wire.Message) {
	if r != nil {
		r(-len(m.Raw))
	}
}

// bytesInFlight is the error of a message for which hold has no room.
func bytesInFlight() *wire.Error {
	return wire.OverLimit("bytes_in_flight", queueRetry, "your messages in flight are too large together; try again when one was answered")
}
