package browser

import (
	"context"
	"errors"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// signPatience is how long a page that was made for a call may take to answer the first
// command, and to become the document that has arrived. An empty page needs a millisecond
// for each, and some tenths of a second on a busy machine; the rest is for a renderer that
// starts only now. A page that takes longer was stopped, or waits for memory.
const signPatience = 3 * time.Second

// errHung is the error of a page that gave no sign of life.
var errHung = errors.New("the page does not answer")

// sign makes the renderer answer a command that costs it nothing. It is sent before the
// commands of a call, which does not wait for its answer.
func (t *tab) sign() pending[runtime.EvaluateResult] {
	return begin(t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "0", Silent: new(true)})
}

// soon returns ctx with a deadline for work that an empty page does immediately.
func (t *tab) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.trusted {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, signPatience, errHung)
}

// hung returns a channel that delivers after signPatience. A page hangs if it has not done
// by then what an empty page does immediately. The channel is nil for a page that may take
// longer.
func (t *tab) hung() <-chan time.Time {
	if t.trusted {
		return nil
	}
	return time.After(signPatience)
}
