package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// keep stores a session whose handshake is complete, and records from time to time that it
// is used.
func (ws *webSessions) keep(ctx context.Context, s *webSession) {
	k, book, now := s.keeper, ws.server.cfg.Kept, time.Now()
	last := k.at.Load()
	if book == nil || now.UnixNano()-last < int64(keptEvery) {
		return
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return
	}
	if k.initialize == nil || k.over || !k.at.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	revision, agreed := s.guard.agreement()
	if !agreed || revision == "" {
		k.at.Store(0)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptPatience)
	defer cancel()
	err := book.Keep(ctx, KeptSession{
		ID: s.id, Tenant: s.tenant, Principal: s.principal, Revision: revision, Initialize: k.initialize,
		Level: s.logLevel(), Subscriptions: ws.server.subscriptions.of(s.Session),
	})
	if err != nil {
		ws.server.cfg.Log.Error("a session could not be stored, and would end with the server", "session", s.id, "err", err)
	}
}

// resume opens a session that is kept, for its owner. The session is then in use; the
// caller must pass it to leave.
func (ws *webSessions) resume(ctx context.Context, id string) (*webSession, *wire.Error) {
	caller := ws.server.cfg.callerOf(ctx).owner()
	if bad := ws.count(ctx); bad != nil {
		return nil, bad
	}
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
		name = policies.Clip(params.ClientInfo.Name, maxClientName)
	}
	p, bad := ws.takePlace(ctx, name)
	if bad != nil {
		return nil, bad
	}
	session, err := ws.open(ctx, id, p, &sdk.ServerSessionState{
		InitializeParams: params, InitializedParams: &sdk.InitializedParams{}, NegotiatedProtocolVersion: kept.Revision,
		LogLevel: sdk.LoggingLevel(kept.Level), //nolint:staticcheck // legacy clients set it
	})
	if err != nil {
		return nil, wire.OverLimit("shutdown", queueRetry, "%v", err)
	}
	session.keeper.initialize = kept.Initialize
	session.keeper.at.Store(time.Now().UnixNano())
	session.meet(params)
	session.setLogLevel(kept.Level)
	for _, uri := range kept.Subscriptions {
		subscribeAgain(session.guard, uri)
	}
	ws.server.cfg.Log.Info("a session of an HTTP client was resumed", "session", id, "tenant", kept.Tenant, "client", name)
	return session, nil
}

// subscribeAgain makes the sdk subscribe to a resource to which the client was subscribed.
func subscribeAgain(g *guard, uri string) {
	params, err := json.Marshal(map[string]string{"uri": uri})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++ // no entry has this id, so the answer is dropped
	id, bad := jsonrpc.MakeID(float64(g.last))
	if err == nil && bad == nil {
		g.push(&jsonrpc.Request{ID: id, Method: "resources/subscribe", Params: params})
	}
}
