package act

import (
	"context"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// attacher hands chromedp the Chrome that a seat owns. It starts and ends nothing.
type attacher struct{ g *governor }

// Allocate is of chromedp's Allocator.
func (a attacher) Allocate(ctx context.Context, opts ...chromedp.BrowserOption) (*chromedp.Browser, error) {
	return chromedp.NewBrowserTransport(ctx, a.g, opts...)
}

// Wait is of chromedp's Allocator.
func (attacher) Wait() {}

// Attaches tells chromedp that the browser runs already.
func (attacher) Attaches() bool { return true }

// guest is a context in which chromedp drives a page, with a session of its own. The
// caller ends it by done.
func (e *engine) guest(ctx context.Context, page string) (_ context.Context, done func(), err error) {
	ctx, stop := chromedp.NewAllocatorContext(ctx, attacher{e.g})
	quiet := func(string, ...any) {}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithTargetID(target.ID(page)), chromedp.WithDetachOnCancel(),
		chromedp.WithLogf(quiet), chromedp.WithErrorf(quiet), chromedp.WithDebugf(quiet))
	done = func() {
		cancel()
		stop()
		e.g.forgetGuests()
	}
	if err := chromedp.Do(ctx); err != nil {
		done()
		return nil, nil, err
	}
	return ctx, done, nil
}

// forgetGuests drops what is left for chromedp.
func (g *governor) forgetGuests() {
	g.mu.Lock()
	clear(g.guests)
	g.mu.Unlock()
	for {
		select {
		case <-g.guest:
		default:
			return
		}
	}
}
