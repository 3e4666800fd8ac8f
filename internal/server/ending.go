package server

import (
	"os"

	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/policies/audit"
)

// end ends sessions of a place, and says so in the log and the audit log.
func (o *operations) end(p *place, chosen func(mcp.SessionInfo) bool, by, note string) (ended []control.Session) {
	for _, s := range p.mcp.End(chosen, note) {
		s.ID = control.ShortID(s.ID)
		ended = append(ended, control.Session{Server: os.Getpid(), SessionInfo: s})
		o.log.Info("a session was ended, with its box and its background tasks", "session", s.ID, "tenant", s.Tenant, "client", s.Client, "by", by)
		r := audit.Session{Event: "ended", Tenant: s.Tenant, Principal: s.Principal, Session: s.ID, By: by, Reason: note}
		r.Client.Name, r.Client.Version = s.Client, s.Version
		o.audit.append(r)
	}
	return ended
}

// The causes that end sessions, besides operators.
const (
	byPolicy = "the policy" // the policy does not name what they need any more
	byToken  = "the token"  // the token does not hold any more
)

// operations are what an operator does with the sessions and background tasks of all places.
func (ps *places) operations() *operations {
	return &operations{ps, ps.server.audit, ps.server.Log}
}
