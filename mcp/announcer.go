package mcp

import (
	"sync"
	"time"
)

// Clients list the tools again whenever they are notified, and models read the list again.
// These limits bound that cost for an upstream that changes its tools all the time.
const (
	announceAfter  = time.Second // changes within this time are announced together
	announceMost   = 6           // announcements within announceWithin
	announceWithin = time.Minute // period of announceMost
)

// announcer notifies clients of changes of a list, at least announceAfter after the first
// change. It is safe for concurrent use.
type announcer struct {
	announce func()
	enter    func() error // keeps the server from ending until leave is called; an error if the server ends
	leave    func()

	mu      sync.Mutex
	stopped bool        // guarded by mu
	timer   *time.Timer // guarded by mu: of the next announcement; nil if none is planned
	sent    []time.Time // guarded by mu: times of the last announceMost announcements, the oldest first
}

// changed records a change. It does not wait.
func (a *announcer) changed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil || a.stopped {
		return
	}
	wait := announceAfter
	if len(a.sent) == announceMost {
		wait = max(wait, announceWithin-time.Since(a.sent[0]))
	}
	a.timer = time.AfterFunc(wait, a.send)
}

// send makes an announcement; the timer calls it.
func (a *announcer) send() {
	a.mu.Lock()
	a.timer = nil
	if len(a.sent) == announceMost {
		a.sent = a.sent[1:]
	}
	a.sent = append(a.sent, time.Now())
	a.mu.Unlock()
	if a.enter() != nil {
		return // the server ends, and its clients no longer list tools
	}
	defer a.leave()
	a.announce()
}

// stop cancels the next announcement and all later ones. It does not wait for an
// announcement that is being made; Shutdown does.
func (a *announcer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
