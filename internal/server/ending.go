package server

import (
	"os"

	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/policies/audit"
)

// end ends the chosen sessions of a place, and records this in the log and the audit log.
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

// The causes other than operators that end sessions.
const (
	byPolicy = "the policy" // the policy no longer names what the session needs
	byToken  = "the token"  // the token is no longer valid
)

// operations returns the actions of an operator on the sessions and background tasks of all
// places.
func (ps *places) operations() *operations {
	return &operations{ps, ps.server.audit, ps.server.Log}
}
