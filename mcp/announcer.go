package mcp

import (
	"sync"
	"time"
)

// Clients list the tools again whenever they are notified, and models read the list again. An
// upstream that changes its tools all the time must cost neither more than this.
const (
	announceAfter  = time.Second // changes within it are announced as one
	announceMost   = 6           // announcements
	announceWithin = time.Minute // in this time
)

// announcer notifies clients of changes of a list, some time after the first of them. It is
// safe for concurrent use.
type announcer struct {
	announce func()
	enter    func() error // keeps the server from ending until leave; an error if it ends
	leave    func()

	mu      sync.Mutex
	stopped bool        // guarded by mu
	timer   *time.Timer // guarded by mu: of the next announcement; nil for none
	sent    []time.Time // guarded by mu: when the last announceMost were made, the oldest first
}

// changed notes a change. It does not wait.
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
		return // the server ends, and its clients list nothing any more
	}
	defer a.leave()
	a.announce()
}

// stop cancels the announcement that waits, and all later ones. Shutdown waits for one that is being made.
func (a *announcer) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
