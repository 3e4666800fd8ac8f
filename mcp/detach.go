package mcp

import "context"

// detachKey is where the context of a request has the channel of WithDetach.
type detachKey struct{}

// WithDetach returns the context of a request that goes on without its caller once ch is
// closed: then the end of the context does not cancel its call, and a command that runs goes
// to the background, where the caller finds it. It is for a worker whose front is gone: the
// front's client may still want the answer.
func WithDetach(ctx context.Context, ch <-chan struct{}) context.Context {
	return context.WithValue(ctx, detachKey{}, ch)
}

// detachedIn returns the channel of WithDetach; nil for none.
func detachedIn(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(detachKey{}).(<-chan struct{})
	return ch
}

// outliving returns a context for a call, which ends as ctx does as long as the call has its
// caller. Release it with done.
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

// deferredKey is where the context of a call holds its *deferred.
type deferredKey struct{}

// deferredIn returns the deferred call of a context; nil for a call that is not deferred.
func deferredIn(ctx context.Context) *deferred {
	d, _ := ctx.Value(deferredKey{}).(*deferred)
	return d
}

// told reports whether the client has the handle. Then the request itself must get
// no further message.
func (d *deferred) told() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.id != ""
}
