package gateway

import (
	"slices"
	"sync"

	"belljar.dev/mcp"
)

// askedAddress is an address that the person at a client was asked to open.
type askedAddress struct {
	session  *mcp.Session
	question string // id of the question for the client
}

// askedAddresses are the addresses of one server that clients were asked to open, by the
// ids that the server gave them. If there are too many, the oldest one is removed.
type askedAddresses struct {
	mu    sync.Mutex
	order []string                // guarded by mu: keys of of, the oldest first
	of    map[string]askedAddress // guarded by mu: addresses by id
}

// put records an address. An empty id is ignored.
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

// done notifies the client that was asked that the server is done with an address. An
// address that no client was asked about is ignored.
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
