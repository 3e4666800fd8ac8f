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

// Refused logins are recorded one by one while there are few. If a client sends bad tokens
// without end, one record is written each second, with the number of the others.
const (
	refusalsPerSecond = 1
	refusalBurst      = 100
)

// login authenticates clients over HTTP, and records the refused ones.
type login struct {
	*auth.Authenticator
	server  *Server      // server, for its logs, which are opened later
	tickets *mcp.Tickets // tickets of web pages, which log in at one place and connect to it
	linked  bool         // whether this is a worker of a fleet, whose fronts authenticate the clients

	mu     sync.Mutex
	few    *rate.Limiter
	missed int // guarded by mu: refusals since the last one that was recorded
}

// authenticate returns the identity that a token belongs to, and records a refusal.
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

// Holds reports whether a caller would still be let in now. In a worker it only reports
// whether the policy still names the tenant, because the front itself checks the caller
// again.
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
