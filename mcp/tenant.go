package mcp

import (
	"context"
	"maps"
	"net/http"
	"strings"
)

// Tenants tells the HTTP handler which tenant a client belongs to. Its answers may change
// while the server runs; then Server.Reloaded must be called. It is called from many
// goroutines.
type Tenants interface {
	// Named reports whether there are tenants at all. If not, clients need no
	// token, and their calls belong to Config.Tenant.
	Named() bool
	// Bearer returns the tenant that a token belongs to. Its time must not depend on how
	// much of a token is right.
	Bearer(token string) (tenant string, known bool)
	// Limits returns what all sessions of a tenant may send together; false says
	// that each session has the server's own limits.
	Limits(tenant string) (TenantLimits, bool)
}

// TenantLimits bound the requests of one tenant. Each is above zero.
type TenantLimits struct {
	Rate     float64 // in a second, after Burst
	Burst    int     // at once before the rate counts
	InFlight int     // that run at once
}

// tenantKey is where the context of an HTTP request holds its tenant.
type tenantKey struct{}

// tenantOf is the tenant of a request.
func (c *Config) tenantOf(ctx context.Context) string {
	if tenant, ok := ctx.Value(tenantKey{}).(string); ok {
		return tenant
	}
	return c.Tenant
}

// tenanted reports whether there are tenants. Then each has its own share of the
// limits.
func (c *Config) tenanted() bool { return c.Tenants != nil && c.Tenants.Named() }

// login finds the tenant of a request. Where it has none, the answer has been
// sent, and ok is false.
func (w *web) login(rw http.ResponseWriter, r *http.Request) (_ *http.Request, ok bool) {
	t := w.server.cfg.Tenants
	if !w.server.cfg.tenanted() {
		return r, true
	}
	challenge := `Bearer realm="belljar"`
	why := "this server serves tenants that it knows by a token: send it as Authorization: Bearer TOKEN"
	// One header of the form "Bearer TOKEN", the scheme in any case (RFC 6750,
	// 2.1; RFC 9110, 11.1).
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		scheme, token, _ := strings.Cut(values[0], " ")
		token = strings.TrimSpace(token)
		if len(values) == 1 && strings.EqualFold(scheme, "Bearer") && token != "" {
			if tenant, known := t.Bearer(token); known {
				return r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant)), true
			}
		}
		challenge += `, error="invalid_token"`
		why = "the token in the Authorization header belongs to no tenant of this server; ask its operator for one"
	}
	rw.Header().Set("WWW-Authenticate", challenge)
	http.Error(rw, why, http.StatusUnauthorized)
	return nil, false
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
	if c.Tenants == nil {
		return l, false
	}
	own, ok := c.Tenants.Limits(tenant)
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

// Reloaded is to be called after the Gate or the Tenants have changed. Where the
// set of tools that is hidden from a tenant is another one now, its clients are
// notified to list the tools again. Tenants get their new limits.
func (s *Server) Reloaded() {
	s.sessions.reload()
	s.tools.relist()
}
