package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// inbox contains the messages that the sdk has not read yet. It has no limit of its own:
// the guard limits what it pushes.
type inbox struct {
	mu      sync.Mutex
	arrived sync.Cond         // uses mu; signals that waiting or closed has changed
	waiting []jsonrpc.Message // guarded by mu
	closed  bool              // guarded by mu: Read returns io.EOF
}

func newInbox() *inbox {
	in := &inbox{}
	in.arrived.L = &in.mu
	return in
}

// push queues a message for Read. After Close, it drops the message.
func (in *inbox) push(m jsonrpc.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	in.waiting = append(in.waiting, m)
	in.arrived.Signal()
}

// Read returns the next message for the sdk, or io.EOF after Close. It ignores its
// context: Close unblocks it.
func (in *inbox) Read(context.Context) (jsonrpc.Message, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.waiting) == 0 && !in.closed {
		in.arrived.Wait()
	}
	if in.closed {
		return nil, io.EOF
	}
	m := in.waiting[0]
	in.waiting[0] = nil
	in.waiting = in.waiting[1:]
	return m, nil
}

// Close drops the waiting messages. After that, Read returns io.EOF, and the sdk cancels
// what still runs. Close may be called twice.
func (in *inbox) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.waiting = nil
	in.arrived.Broadcast()
	return nil
}
