package mcp

import "context"

// direct is a request that may be answered without the go-sdk.
type direct struct {
	server *Server
	guard  *guard
	entry  *entry
}

// cancellable returns the context of the request, which ends when its client cancels it.
func (d direct) cancellable(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.guard.mu.Lock()
	d.entry.cancel = cancel
	if d.entry.silent { // the client cancelled the request before the context was made
		cancel(context.Canceled)
	}
	d.guard.mu.Unlock()
	return ctx, cancel
}

// run runs answer in a goroutine. answer calls cancel, which ends the context of the request.
func (d direct) run(cancel context.CancelCauseFunc, answer func()) {
	if begun := d.guard.calls.run(answer); !begun {
		cancel(context.Canceled) // the session has ended, and abandon releases the turn
	}
}
