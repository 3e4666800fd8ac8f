package peer

import (
	"encoding/json"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// mostCancelled is how many ids of cancelled requests are kept.
const mostCancelled = 1024

// Stats counts the messages that a connection could not use or had to drop since it was
// opened.
type Stats struct {
	Bad       int    // messages that could not be used, including the noise before the first message
	WrongID   int    // answers with an id that was never given, which were accepted for the only open call
	Unasked   int    // answers to no open call, which were dropped
	Late      int    // answers to calls that were cancelled before
	Dropped   int    // notifications that were dropped: too many, too fast or too large
	Merged    int    // notifications of a changed list that arrived while an equal one waited
	Refused   int    // requests of the server that were refused
	Subscribe string // why the subscription to changes of lists has ended or failed; empty while it is open
	Last      string // beginning of the latest message that could not be used, without control characters
}

// heard contains counts of the messages that a connection got.
type heard struct {
	any   bool // a message has arrived
	count int  // messages that could be used
	noise int  // bytes before the first message
	bad   int  // consecutive messages that could not be used
	blank int  // consecutive empty lines
}

// good counts a message that could be used; the caller holds Conn.mu.
func (h *heard) good() {
	h.any, h.bad, h.blank = true, 0, 0
	h.count++
}

// table contains the open requests of both sides: the client's calls, and the server's
// requests.
type table struct {
	mu        sync.Mutex
	err       error              // guarded by mu: why the connection is over; nil while it is open
	last      int64              // guarded by mu: newest id
	open      map[int64]*call    // guarded by mu
	streams   int                // guarded by mu: number of subscriptions in open
	cancelled map[int64]struct{} // guarded by mu: cancelled requests, whose answers may still come
	// guarded by mu: ids of cancelled requests were dropped, because there were
	// mostCancelled of them
	forgotten bool
	asked     map[string]*asked // guarded by mu: requests of the server, by their ids
	heard     heard             // guarded by mu
	logs      logs              // guarded by mu: log messages that belong to no single call
	stats     Stats             // guarded by mu
}

// Stats returns the counts since the connection was opened.
func (t *table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Err returns why the connection is over; nil while it is open.
func (t *table) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// take removes a call from the open calls. It returns false if the call was already
// removed: another goroutine then ends the call.
func (t *table) take(cl *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[cl.id] != cl {
		return false
	}
	t.remove(cl)
	return true
}

// remove removes a call from the open calls; the caller holds mu.
func (t *table) remove(cl *call) {
	delete(t.open, cl.id)
	if cl.stream {
		t.streams--
	}
	t.withdraw(cl.owner)
}

// forget removes a call without notifying the server.
func (t *table) forget(cl *call) {
	if t.take(cl) && cl.stop != nil {
		cl.stop()
	}
}

// hold stores the function that ends the transport's work for a call. It returns false if
// the call is over.
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

// finish ends a call from outside its goroutine, if the call is open.
func (t *table) finish(cl *call, result json.RawMessage, err error) {
	if t.take(cl) {
		cl.result, cl.err = result, err
		cl.end()
	}
}

// left returns how long a call may still take after its timeout, because requests of the
// server had to wait for their answers.
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

// claim removes the call that an answer is for from the open calls. It returns nil if there
// is no such call, or if it is not certain which call it is. late reports that the call was
// cancelled before. The caller holds mu.
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
	case ok && 0 < id && id <= t.last: // the call was answered before, or the answer came on the wrong stream
		return nil, false
	}
	// The id was never given. Some servers answer with an id of their own, such as 0.
	if cl = t.only(m, from); cl == nil {
		return nil, false
	}
	t.stats.WrongID++
	t.remove(cl)
	return cl, false
}

// only returns the one call that an answer with a wrong id can be for; nil if there are
// several. A cancelled request may still be answered, so it counts as open. The caller
// holds mu.
func (t *table) only(m *wire.Message, from *call) *call {
	if m.ID == nil && m.Failure == nil {
		return nil // in JSON-RPC only errors may have no id
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
			return cl // during the handshake two requests are open, and their results differ
		case found != nil:
			return nil
		default:
			found = cl
		}
	}
	return found
}

// ownerOf returns the owner of the call that a message of the server belongs to: the owner
// of from, or of all open calls if they have the same owner. The caller holds mu.
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

// withdraw ends the server's requests for an owner who has no open call any more; the
// caller holds mu.
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
