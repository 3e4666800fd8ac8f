package server

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/time/rate"

	"belljar.dev/internal/auth"
	"belljar.dev/mcp"
	"belljar.dev/policies/audit"
)

// Refused logins are recorded one by one as long as they are few. A client that sends bad
// tokens without end writes one record a second, which counts the others.
const (
	refusalsPerSecond = 1
	refusalBurst      = 100
)

// login finds out who clients over HTTP are, and records what it refuses.
type login struct {
	*auth.Authenticator
	server  *Server      // for its logs, which are opened later
	tickets *mcp.Tickets // of pages, which log in at one place and connect to it
	linked  bool         // this is a worker of a fleet, whose fronts find out who the clients are

	mu     sync.Mutex
	few    *rate.Limiter
	missed int // guarded by mu: refusals since the last one that was recorded
}

// authenticate returns whose token it is, and records a refusal.
func (l *login) authenticate(ctx context.Context, token string) (mcp.Identity, error) {
	id, err := l.Authenticator.Authenticate(ctx, token)
	if m := l.server.monitor; m != nil {
		m.meters.login(err)
	}
	if refusal, ok := errors.AsType[*auth.Refusal](err); ok {
		l.refused(refusal)
	}
	return id, err
}

// Holds reports whether a caller would be let in now. A front checks again itself what it
// has found out about a caller; here it only counts that the policy still names the tenant.
func (l *login) Holds(caller mcp.Identity) bool {
	if l.linked {
		_, named := l.server.gate.now.Load().Tenant(caller.Tenant)
		return named
	}
	return l.Authenticator.Holds(caller)
}

func (l *login) refused(r *auth.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.few.Allow() {
		l.missed++
		return
	}
	l.server.Log.Warn("a client was not let in", "reason", string(r.Reason), "whose", r.Whose, "detail", r.Detail, "more", l.missed)
	l.server.audit.append(audit.Login{Event: "refused", Principal: r.Whose, Reason: string(r.Reason), Detail: r.Detail, Count: l.missed})
	l.missed = 0
}
