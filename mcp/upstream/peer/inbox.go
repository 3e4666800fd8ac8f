package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
)

// mostQueued is how many bytes of notifications may wait for their handler.
const mostQueued = 4 << 20

// Notification is a notification of the server.
type Notification struct {
	Method string
	Params json.RawMessage // an object, or nil
	// Owner is the owner of the call in whose response the notification came, or of all
	// open calls if they have the same owner; empty if that is not certain.
	Owner string
	// Session is the session of all calls that were open when a log message came; empty if
	// they had several sessions.
	Session string
	Shared  bool // calls of several sessions were open when a log message came
	Lost    int  // number of log messages before this one that were dropped: too many or too large
}

// inbox contains the notifications that wait for their handler.
type inbox struct {
	most int
	more chan struct{} // has a token if items is not empty

	mu      sync.Mutex
	items   []Notification // guarded by mu
	bytes   int            // guarded by mu: total bytes of the items
	changes int            // guarded by mu: number of notifications of a changed list since the start
}

// add queues a notification. dropped reports that the queue was full. merged reports that
// an equal notification of a changed list waits already.
func (b *inbox) add(n Notification) (dropped, merged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasSuffix(n.Method, "/list_changed") {
		b.changes++
		for _, old := range b.items {
			if old.Method == n.Method {
				return false, true
			}
		}
	}
	size := len(n.Method) + len(n.Params)
	if len(b.items) >= b.most || b.bytes+size > mostQueued {
		return true, false
	}
	n.Params = bytes.Clone(n.Params) // a copy, so that the params do not keep the whole message in memory
	b.items = append(b.items, n)
	b.bytes += size
	select {
	case b.more <- struct{}{}:
	default:
	}
	return false, false
}

// changed returns how many notifications of a changed list have arrived.
func (b *inbox) changed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// take returns the oldest notification, if there is one.
func (b *inbox) take() (n Notification, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		b.items = nil // so that the memory of a flood is released
		return n, false
	}
	n = b.items[0]
	b.items[0] = Notification{}
	b.items = b.items[1:]
	b.bytes -= len(n.Method) + len(n.Params)
	return n, true
}

// deliver passes the notifications to a function, one after the other, until ctx ends.
func (b *inbox) deliver(ctx context.Context, to func(Notification)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.more:
		}
		for ctx.Err() == nil {
			n, ok := b.take()
			if !ok {
				break
			}
			to(n)
		}
	}
}
