package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"
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
