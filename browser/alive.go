package browser

import (
	"context"
	"errors"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// signPatience is how long a page that was made for a call may take to answer the
// first thing that is asked of it, and to become the document that has come. An
// empty page does either in a millisecond, and a machine full of others' work
// stretches that to some tenths of a second; the rest is for a renderer that
// starts only now. What takes longer is stopped, or waits for memory.
const signPatience = 3 * time.Second

// errHung is the cause where a page gave no sign of life.
var errHung = errors.New("the page does not answer")

// sign makes the renderer answer something that costs it nothing. It is sent before
// the requests of a call, which does not wait for its answer.
func (t *tab) sign() pending[runtime.EvaluateResult] {
	return begin(t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
}

// soon is ctx for what an empty page does at once.
func (t *tab) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.trusted {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, signPatience, errHung)
}

// hung is when what has not happened of that shows that the page hangs.
func (t *tab) hung() <-chan time.Time {
	if t.trusted {
		return nil
	}
	return time.After(signPatience)
}

// ready is a page that waits for a call, or nil. What died while it waited is
// closed.
func (p *Pool) ready(ctx context.Context, ch *chrome) *tab {
	for {
		p.mu.Lock()
		n := len(ch.ready)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		t := ch.ready[n-1]
		ch.ready = ch.ready[:n-1]
		p.mu.Unlock()
		if t.cause(nil) == nil {
			return t
		}
		p.wg.Go(func() { ch.dispose(context.WithoutCancel(ctx), t) })
	}
}

// distrust is what happens when a page gave no sign of life: its Chrome gets no more
// calls, since the pages and renderers that it keeps for them may be no better.
func (p *Pool) distrust(ch *chrome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Hung++
	p.cfg.Log.Warn("page does not answer", "box", ch.box.ID())
	if !ch.retired {
		p.stats.Recycled++
	}
	p.retire(ch)
}
