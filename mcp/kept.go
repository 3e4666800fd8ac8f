package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"
)

// KeptSession is the data with which the session of an HTTP client is restored.
type KeptSession struct {
	ID            string
	Tenant        string
	Principal     string
	Revision      string          // revision that its handshake agreed on
	Initialize    json.RawMessage // params of its initialize, which describe the client and its capabilities
	Level         string          // level that the client set for log messages; empty if it set none
	Subscriptions []string        // URIs of the resources that the client watches
}

// SessionBook keeps sessions of HTTP clients beyond the end of a server, because many
// clients never begin another session. Its methods are safe for concurrent use.
type SessionBook interface {
	// Keep stores a session, or records that a kept session was used.
	Keep(ctx context.Context, s KeptSession) error
	// Find returns the kept session with the id. It returns false if the id is unknown, or
	// if the session has not been used for a long time.
	Find(ctx context.Context, id string) (KeptSession, bool, error)
	// Forget removes a session that has ended for good.
	Forget(ctx context.Context, id string) error
}

const (
	// maxKept is the largest size, in bytes, of an initialize's params if its session is to
	// be kept. It is also how many bytes of a session's subscriptions are kept.
	maxKept = 16 << 10
	// keptEvery is how often the book records that a session is used.
	keptEvery = time.Minute
	// keptPatience is the longest time that an operation of the book may take.
	keptPatience = 5 * time.Second
)

// keeper is what the book knows about one session. A channel and not a mutex guards it,
// because it stays locked while the book writes to the disk.
type keeper struct {
	turn       chan struct{}   // locks the other fields: a goroutine may use them between its send and its receive
	initialize json.RawMessage // params of its initialize; nil if the session is not kept
	over       bool            // the session was forgotten
	at         atomic.Int64    // time of the last Keep, in Unix nanoseconds; zero to call Keep at the next answer
}

func newKeeper() *keeper { return &keeper{turn: make(chan struct{}, 1)} }

// begun stores the initialize that begins a session. The session is kept from its next
// message on. So a client that begins sessions and does not use them costs the book
// nothing.
func (k *keeper) begun(initialize json.RawMessage) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if len(initialize) <= maxKept {
		k.initialize = slices.Clone(initialize) // a copy, without the rest of the body
	}
}

// changed makes the session's next answer store the session in the book.
func (ws *webSessions) changed(session *Session) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s := ws.byID[session.id]; s != nil {
		s.keeper.at.Store(0)
	}
}

// forget removes a session that must not be restored.
func (ws *webSessions) forget(ctx context.Context, s *webSession) {
	book := ws.server.cfg.Kept
	if book == nil {
		return
	}
	s.keeper.turn <- struct{}{} // waits for keptPatience at most
	defer func() { <-s.keeper.turn }()
	s.keeper.over = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptPatience)
	defer cancel()
	if err := book.Forget(ctx, s.id); err != nil {
		ws.server.cfg.Log.Error("an ended session may be resumed, since it could not be removed from the store", "session", s.id, "err", err)
	}
}
