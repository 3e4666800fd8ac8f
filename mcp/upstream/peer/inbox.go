package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
)

// mostQueued is how many bytes of notifications wait for their handler.
const mostQueued = 4 << 20

// Notification is a notification of the server.
type Notification struct {
	Method string
	Params json.RawMessage // an object, or nil
	// Owner is whose calls are open, if all that are open have the same owner, or whose call
	// the notification came with; empty where that is not certain.
	Owner string
	// Session is whose calls were open when a log message came, if all were of the same session.
	Session string
	Shared  bool // calls of several sessions were open when a log message came
	Lost    int  // log messages that were left out before this one: too fast or too large
}

// inbox holds the notifications that wait for their handler.
type inbox struct {
	most int
	more chan struct{} // has a token if items is not empty

	mu      sync.Mutex
	items   []Notification // guarded by mu
	bytes   int            // guarded by mu: of their params
	changes int            // guarded by mu: notifications that a list has changed, until now
}

// add queues a notification. dropped says that the queue was full; merged that one like it
// waits already, which says the same.
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
	n.Params = bytes.Clone(n.Params) // they must not keep their message, whose other bytes are not counted
	b.items = append(b.items, n)
	b.bytes += size
	select {
	case b.more <- struct{}{}:
	default:
	}
	return false, false
}

// changed returns how many notifications of a changed list have come.
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
		b.items = nil // one flood must not hold its memory for ever
		return n, false
	}
	n = b.items[0]
	b.items[0] = Notification{}
	b.items = b.items[1:]
	b.bytes -= len(n.Method) + len(n.Params)
	return n, true
}

// deliver hands the notifications over, one after the other, until ctx ends.
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
