package peer

import (
	"encoding/json"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// mostCancelled is how many cancelled requests are remembered by their ids.
const mostCancelled = 1024

// Stats counts what a connection had to do without since it was opened.
type Stats struct {
	Bad       int    // messages that could not be used, and the noise before the first
	WrongID   int    // answers with an id that was never given, taken for the only open call
	Unasked   int    // answers to no open call, which were dropped
	Late      int    // answers to calls that were cancelled before
	Dropped   int    // notifications that were lost: too many, too fast or too large
	Merged    int    // notifications of a changed list that found one like them waiting
	Refused   int    // requests of the server that were refused
	Subscribe string // why the subscription to changes of lists has ended or failed; empty while it is open
	Last      string // the beginning of the latest message that could not be used, without control characters
}

// heard is what a connection remembers of the messages that it got.
type heard struct {
	any   bool // there was a message
	count int  // messages that could be used
	noise int  // bytes before the first message
	bad   int  // in a row
	blank int  // in a row
}

// good notes a message that could be used; Conn.mu is held.
func (h *heard) good() {
	h.any, h.bad, h.blank = true, 0, 0
	h.count++
}

// table holds what is open between the two sides: calls in one direction, requests of the
// server in the other.
type table struct {
	mu        sync.Mutex
	err       error              // guarded by mu: why the connection is over
	last      int64              // guarded by mu: newest id
	open      map[int64]*call    // guarded by mu
	streams   int                // guarded by mu: those in open that are subscriptions
	cancelled map[int64]struct{} // guarded by mu: cancelled requests, whose answers may still come
	forgotten bool               // guarded by mu: ids of cancelled requests were dropped, since they were more than mostCancelled
	asked     map[string]*asked  // guarded by mu: requests of the server, by their ids
	heard     heard              // guarded by mu
	logs      logs               // guarded by mu: those that belong to no single call
	stats     Stats              // guarded by mu
}

// Stats returns what the connection had to do without until now.
func (t *table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Err returns why the connection is over, and nil while it is not.
func (t *table) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// take takes a call out of the open ones. It reports false if it is not one of them any
// more: somebody else ends it then.
func (t *table) take(cl *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[cl.id] != cl {
		return false
	}
	t.remove(cl)
	return true
}

// remove takes a call out of the open ones; mu is held.
func (t *table) remove(cl *call) {
	delete(t.open, cl.id)
	if cl.stream {
		t.streams--
	}
	t.withdraw(cl.owner)
}

// forget takes a call back without a word to the server.
func (t *table) forget(cl *call) {
	if t.take(cl) && cl.stop != nil {
		cl.stop()
	}
}

// hold notes how to end what the transport does for a call. It reports false if the call is
// over.
func (t *table) hold(cl *call, stop func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[cl.id] != cl {
		return false
	}
	cl.stop = stop
	return true
}

// isOpen reports whether a call waits for its answer.
func (t *table) isOpen(cl *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[cl.id] == cl
}

// finish ends a call from outside its goroutine, if it is open.
func (t *table) finish(cl *call, result json.RawMessage, err error) {
	if t.take(cl) {
		cl.result, cl.err = result, err
		cl.end()
	}
}

// left is how long a call whose time is over may still take, since requests of the server
// waited for their answers meanwhile.
func (t *table) left(cl *call) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.asked {
		if a.owner == cl.owner {
			return cl.timeout
		}
	}
	if cl.activity.since.IsZero() {
		return 0
	}
	return cl.timeout - time.Since(cl.activity.since)
}

// claim takes the call that an answer is for out of the open ones. It is nil where there is
// no such call, or where it is not certain which one it is; late says that the call was
// cancelled before. mu is held.
func (t *table) claim(m *wire.Message, from *call) (_ *call, late bool) {
	id, ok := number(m.ID)
	cl := t.open[id]
	_, late = t.cancelled[id]
	switch {
	case ok && cl != nil && (from == nil || from == cl):
		t.remove(cl)
		return cl, false
	case ok && late:
		delete(t.cancelled, id)
		t.stats.Late++
		return nil, true
	case ok && 0 < id && id <= t.last: // answered before, or by the wrong stream
		return nil, false
	}
	// An id that was never given. Some servers answer with one of their own, such as 0.
	if cl = t.only(m, from); cl == nil {
		return nil, false
	}
	t.stats.WrongID++
	t.remove(cl)
	return cl, false
}

// only is the one call that an answer with a wrong id can be for; nil if there are several.
// A request that was cancelled may still be answered, so it counts as open. mu is held.
func (t *table) only(m *wire.Message, from *call) *call {
	if m.ID == nil && m.Failure == nil {
		return nil // JSON-RPC has answers without an id, but only for errors
	}
	if from != nil {
		if t.open[from.id] == from && !from.stream {
			return from
		}
		return nil
	}
	if t.forgotten || len(t.cancelled) > 0 {
		return nil
	}
	var found *call
	for _, cl := range t.open {
		switch {
		case cl.stream:
		case cl.proof != "" && wire.Member(m.Result, cl.proof) != nil:
			return cl // during the handshake two are open, and their results differ
		case found != nil:
			return nil
		default:
			found = cl
		}
	}
	return found
}

// ownerOf is whose call a message of the server belongs to: that of from, or of all open
// calls if it is the same; mu is held.
func (t *table) ownerOf(from *call) (owner string, known bool) {
	if from != nil && !from.stream {
		return from.owner, true
	}
	for _, cl := range t.open {
		switch {
		case cl.stream:
		case !known:
			owner, known = cl.owner, true
		case cl.owner != owner:
			return "", false
		}
	}
	return owner, known
}

// withdraw ends the requests that belong to an owner who has no open call any more; mu is
// held.
func (t *table) withdraw(owner string) {
	if len(t.asked) == 0 {
		return
	}
	for _, cl := range t.open {
		if cl.owner == owner && !cl.stream {
			return
		}
	}
	for _, a := range t.asked {
		if a.owner == owner && !a.alone {
			a.cancel(errCallOver)
		}
	}
}

// logs reports whether one more log message may pass now. Those of the only open call have
