package browser

import (
	"context"
	"errors"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// signPatience is how long a page that was made for a call may take to answer the first
// thing that is asked of it, and to become the document that has come. An empty page
// does either in a millisecond, and a machine full of others' work stretches that to
// some tenths of a second; the rest is for a renderer that starts only now. A page that
// takes longer was stopped, or waits for memory.
const signPatience = 3 * time.Second

// errHung is the cause where a page gave no sign of life.
var errHung = errors.New("the page does not answer")

// sign makes the renderer answer something that costs it nothing. It is sent before
// the requests of a call, which does not wait for its answer.
func (t *tab) sign() pending[runtime.EvaluateResult] {
	return begin(t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
}

// soon returns ctx with a deadline for what an empty page does at once.
func (t *tab) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.trusted {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, signPatience, errHung)
}

// hung returns a channel that delivers when a page hangs that has not done by then what
// an empty page does at once; nil for a page that may take its time.
func (t *tab) hung() <-chan time.Time {
	if t.trusted {
		return nil
	}
	return time.After(signPatience)
}
