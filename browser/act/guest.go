package act

import (
	"context"
	"maps"
	"slices"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// attacher gives chromedp the Chrome that a seat owns. It starts and ends nothing.
type attacher struct{ wire *transport }

// Allocate implements chromedp's Allocator.
func (a attacher) Allocate(ctx context.Context, opts ...chromedp.BrowserOption) (*chromedp.Browser, error) {
	return chromedp.NewBrowserTransport(ctx, a.wire, opts...)
}

// Wait implements chromedp's Allocator.
func (attacher) Wait() {}

// Attaches reports to chromedp that the browser runs already.
func (attacher) Attaches() bool { return true }

// transport is the governor as chromedp's Transport, for one context of chromedp.
type transport struct {
	*governor
	closed chan struct{} // closed by Close
}

// Close implements chromedp's Transport. chromedp calls it when it has stopped writing. The
// seat owns the pipe, so the pipe stays open.
func (t *transport) Close() error {
	close(t.closed)
	return nil
}

// guest returns a context in which chromedp drives a page, with a session of its own. page
// is the id of its target. The caller must call done, which waits until chromedp neither
// reads nor writes.
func (e *engine) guest(ctx context.Context, page string) (_ context.Context, done func(), err error) {
	wire := &transport{e.g, make(chan struct{})}
	ctx, stop := chromedp.NewAllocatorContext(ctx, attacher{wire})
	quiet := func(string, ...any) {}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithTargetID(target.ID(page)), chromedp.WithDetachOnCancel(),
		chromedp.WithLogf(quiet), chromedp.WithErrorf(quiet), chromedp.WithDebugf(quiet))
	done = func() {
		cancel()
		stop()
		if c := chromedp.FromContext(ctx); c.Browser != nil {
			<-c.Browser.LostConnection
			<-wire.closed
		}
		e.g.forgetGuests()
	}
	if err := chromedp.Do(ctx); err != nil { // attaches to the page
		done()
		return nil, nil, err
	}
	return ctx, done, nil
}

// forgetGuests ends the sessions of chromedp, and drops the messages that it has not read.
// chromedp itself detaches from a session when its context has ended, but may have stopped
// writing by then.
func (g *governor) forgetGuests() {
	g.mu.Lock()
	left := slices.Collect(maps.Keys(g.guests))
	clear(g.guests)
	g.mu.Unlock()
	for _, s := range left {
		begin(g, "", target.DetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(s)}).drop()
	}
	for {
		select {
		case <-g.unread:
		default:
			return
		}
	}
}
