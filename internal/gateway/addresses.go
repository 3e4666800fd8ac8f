package gateway

import (
	"slices"
	"sync"

	"belljar.dev/mcp"
)

// askedAddress is an address that the person at a client was asked to open.
type askedAddress struct {
	session  *mcp.Session
	question string // the ID that the client has of it
}

// askedAddresses are the addresses of one server that clients were asked to open, by the IDs that the
// server gave them. The oldest one goes where there are too many.
type askedAddresses struct {
	mu    sync.Mutex
	order []string                // guarded by mu: the keys of of, the oldest first
	of    map[string]askedAddress // guarded by mu
}

// put notes an address; an empty ID is that of none.
func (o *askedAddresses) put(id string, one askedAddress) {
	if id == "" || len(id) > addressBytes {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = make(map[string]askedAddress)
	}
	if _, known := o.of[id]; !known {
		if len(o.order) == askedAddressesMost {
			delete(o.of, o.order[0])
			o.order = slices.Delete(o.order, 0, 1)
		}
		o.order = append(o.order, id)
	}
	o.of[id] = one
}

// done notifies the client that was asked that the server says an address is done with. It tells
// nobody of an address that nobody was asked about.
func (o *askedAddresses) done(id string) {
	o.mu.Lock()
	one, known := o.of[id]
	if known {
		delete(o.of, id)
		o.order = slices.DeleteFunc(o.order, func(other string) bool { return other == id })
	}
	o.mu.Unlock()
	if known {
		mcp.AddressDone(one.session, one.question)
	}
}
