package mcp

import "context"

// detachKey is the key of WithDetach's channel in the context of a request.
type detachKey struct{}

// WithDetach returns a context for a request that continues without its caller after ch is
// closed. From then on, the end of the context does not cancel the call, and a running
// command moves to the background, where the caller finds it. A worker uses this when its
// front is gone, because the front's client may still want the answer.
func WithDetach(ctx context.Context, ch <-chan struct{}) context.Context {
	return context.WithValue(ctx, detachKey{}, ch)
}

// detachedIn returns the channel of WithDetach; nil if the context does not contain it.
func detachedIn(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(detachKey{}).(<-chan struct{})
	return ch
}

// outliving returns a context for a call. As long as the call has its caller, this context
// ends when ctx ends. Call done to release it.
func outliving(ctx context.Context) (_ context.Context, done func()) {
	detached := detachedIn(ctx)
	if detached == nil {
		return ctx, func() {}
	}
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-detached:
		default:
			cancel(context.Cause(ctx))
		}
	})
	return out, func() {
		stop()
		cancel(context.Canceled)
	}
}

// deferredKey is the key of the *deferred in the context of a call.
type deferredKey struct{}

// deferredIn returns the deferred call of a context; nil for a call that is not deferred.
func deferredIn(ctx context.Context) *deferred {
	d, _ := ctx.Value(deferredKey{}).(*deferred)
	return d
}

// told reports whether the client has the handle. In this case, no further message may be
// sent for the request itself.
func (d *deferred) told() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id != ""
}
