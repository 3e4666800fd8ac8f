package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// KeptSession is what brings the session of an HTTP client back.
type KeptSession struct {
	ID         string
	Tenant     string
	Principal  string
	Revision   string          // that its handshake agreed on
	Initialize json.RawMessage // the params of its initialize: what the client is and can
}

// SessionBook keeps sessions of HTTP clients beyond the end of a server: many clients never
// begin another one. Its methods are safe for concurrent use.
type SessionBook interface {
	// Keep keeps a session, or notes that one that is kept was used.
	Keep(ctx context.Context, s KeptSession) error
	// Find returns a session that is kept, and false if there is none of that id, or it was
	// not used for long.
	Find(ctx context.Context, id string) (KeptSession, bool, error)
	// Forget removes a session that has ended for good.
	Forget(ctx context.Context, id string) error
}

const (
	// maxKept is how many bytes the params of an initialize may have, so that its session
	// is kept.
	maxKept = 16 << 10
	// keptEvery is how often it is noted that a session is used.
	keptEvery = time.Minute
	// keptPatience is how long the book may take.
	keptPatience = 5 * time.Second
)

// keep keeps a session whose handshake is over, and notes now and then that it is used.
func (ws *webSessions) keep(ctx context.Context, s *webSession, initialize json.RawMessage) {
	book := ws.server.cfg.Kept
	now := time.Now()
	if s.kept.ID == "" && initialize != nil {
		revision, _ := s.guard.agreement()
		s.kept = KeptSession{ID: s.id, Tenant: s.tenant, Principal: s.principal, Revision: revision, Initialize: initialize}
	}
	last := s.keptAt.Load()
	if book == nil || s.kept.ID == "" || len(s.kept.Initialize) > maxKept || now.UnixNano()-last < int64(keptEvery) || !s.keptAt.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptPatience)
	defer cancel()
	if err := book.Keep(ctx, s.kept); err != nil {
		ws.server.cfg.Log.Error("a session would not outlive the server", "session", s.id, "err", err)
	}
}

// forget removes a session that does not come back.
func (ws *webSessions) forget(ctx context.Context, id string) {
	book := ws.server.cfg.Kept
	if book == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptPatience)
	defer cancel()
	if err := book.Forget(ctx, id); err != nil {
		ws.server.cfg.Log.Error("a session that was ended may come back", "session", id, "err", err)
	}
}

// resume opens a session that is kept, for its owner. It is in use; the caller must pass it
// to leave.
func (ws *webSessions) resume(ctx context.Context, id string) (*webSession, *wire.Error) {
	caller := ws.server.cfg.callerOf(ctx).owner()
	kept, found, err := ws.server.cfg.Kept.Find(ctx, id)
	if err != nil {
		ws.server.cfg.Log.Error("a session cannot be looked up", "session", id, "err", err)
		return nil, wire.OverLimit("sessions", queueRetry, "the session cannot be looked up now")
	}
	params := new(sdk.InitializeParams)
	if !found || (owner{kept.Tenant, kept.Principal}) != caller || !slices.Contains(wire.LegacyRevisions, kept.Revision) || json.Unmarshal(kept.Initialize, params) != nil {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		return nil, ws.noSession(id, caller)
	}
	name := ""
	if params.ClientInfo != nil {
		name = params.ClientInfo.Name
	}
	p, bad := ws.takePlace(ctx, name)
	if bad != nil {
		return nil, bad
	}
	session, err := ws.open(ctx, id, p, &sdk.ServerSessionState{
		InitializeParams: params, InitializedParams: &sdk.InitializedParams{}, NegotiatedProtocolVersion: kept.Revision,
	})
	if err != nil {
		return nil, wire.OverLimit("shutdown", queueRetry, "%v", err)
	}
	session.kept = kept
	session.keptAt.Store(time.Now().UnixNano())
	session.meet(params)
	ws.server.cfg.Log.Info("a session of an HTTP client goes on", "session", id, "tenant", kept.Tenant, "client", name)
	return session, nil
}

// meet notes what a client says of itself.
func (s *Session) meet(p *sdk.InitializeParams) {
	if p == nil || p.ClientInfo == nil {
		return
	}
	s.setClient(p.ClientInfo.Name, p.ClientInfo.Version)
	s.structured.Store(p.Capabilities != nil && declaresStructure(p.Capabilities.Experimental))
}

// Resumed reports whether the session was begun at an earlier server, or before it was idle
// for long: what its calls had made outside of files is gone.
func (s *Session) Resumed() bool { return s.resumed }
