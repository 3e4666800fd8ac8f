package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// KeptSession is what brings the session of an HTTP client back.
type KeptSession struct {
	ID            string
	Tenant        string
	Principal     string
	Revision      string          // that its handshake agreed on
	Initialize    json.RawMessage // the params of its initialize: what the client is and can
	Level         string          // that it set for log messages; empty for none
	Subscriptions []string        // URIs of the resources that it watches
}

// SessionBook keeps sessions of HTTP clients beyond the end of a server: many clients never
// begin another one. Its methods are safe for concurrent use.
type SessionBook interface {
	// Keep keeps a session, or notes that one that is kept was used.
	Keep(ctx context.Context, s KeptSession) error
	// Find returns the kept session with that id. It returns false if the id is unknown, and
	// if the session was not used for long.
	Find(ctx context.Context, id string) (KeptSession, bool, error)
	// Forget removes a session that has ended for good.
	Forget(ctx context.Context, id string) error
}

const (
	// maxKept is how many bytes the params of an initialize may have, so that its session
	// is kept, and how many bytes of its subscriptions are kept.
	maxKept = 16 << 10
	// keptEvery is how often it is noted that a session is used.
	keptEvery = time.Minute
	// keptPatience is how long the book may take.
	keptPatience = 5 * time.Second
)

// keeper is what the book knows of one session. It is a channel and not a mutex that guards
// it, since it is held while the book writes to the disk.
type keeper struct {
	turn       chan struct{}   // the goroutine that has sent to it may use the other fields
	initialize json.RawMessage // the params of its initialize; nil if it is not kept
	over       bool            // it was forgotten
	at         atomic.Int64    // when the book last heard of the session, in Unix nanoseconds; zero to tell it at once
}

func newKeeper() *keeper { return &keeper{turn: make(chan struct{}, 1)} }

// begun notes the initialize that begins a session. The session is kept from the next
// message on: a client that begins sessions and uses none costs the book nothing.
func (k *keeper) begun(initialize json.RawMessage) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if len(initialize) <= maxKept {
		k.initialize = slices.Clone(initialize) // without the rest of its body
	}
}

// keep keeps a session whose handshake is over, and notes now and then that it is used.
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
		ws.server.cfg.Log.Error("a session would not outlive the server", "session", s.id, "err", err)
	}
}

// changed has the book told at the session's next answer what there is to keep.
func (ws *webSessions) changed(session *Session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s := ws.byID[session.id]; s != nil {
		s.keeper.at.Store(0)
	}
}

// forget removes a session that does not come back.
func (ws *webSessions) forget(ctx context.Context, s *webSession) {
	book := ws.server.cfg.Kept
	if book == nil {
		return
	}
	s.keeper.turn <- struct{}{} // for keptPatience at most
	defer func() { <-s.keeper.turn }()
	s.keeper.over = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptPatience)
	defer cancel()
	if err := book.Forget(ctx, s.id); err != nil {
		ws.server.cfg.Log.Error("a session that was ended may come back", "session", s.id, "err", err)
	}
}

// resume opens a session that is kept, for its owner. It is in use; the caller must pass it
// to leave.
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
	ws.server.cfg.Log.Info("a session of an HTTP client goes on", "session", id, "tenant", kept.Tenant, "client", name)
	return session, nil
}

// subscribeAgain has the sdk subscribe to a resource, as the client did before.
func subscribeAgain(g *guard, uri string) {
	params, err := json.Marshal(map[string]string{"uri": uri})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++ // no entry has it, so the answer goes nowhere
	id, bad := jsonrpc.MakeID(float64(g.last))
	if err == nil && bad == nil {
		g.push(&jsonrpc.Request{ID: id, Method: "resources/subscribe", Params: params})
	}
}

// meet notes what a client says of itself.
func (s *Session) meet(p *sdk.InitializeParams) {
	if p == nil || p.ClientInfo == nil {
		return
	}
	s.setClient(p.ClientInfo.Name, p.ClientInfo.Version)
	s.structured.Store(p.Capabilities != nil && declaresStructure(p.Capabilities.Experimental))
}

// setLogLevel notes the level that a client set for log messages.
func (s *Session) setLogLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn.level = level
}

func (s *Session) logLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.level
}

// Resumed reports whether the session was begun at an earlier server, or before it was idle
// for long: what its calls had made outside of files is gone.
func (s *Session) Resumed() bool { return s.resumed }
