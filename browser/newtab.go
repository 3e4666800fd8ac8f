package browser

import (
	"context"
	"errors"
	"fmt"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

// newTab makes a browser context and a page in it, and makes Chrome report what happens in
// the page. All of that can be done before there is a call.
func newTab(ctx context.Context, ch *chrome) (_ *tab, err error) {
	c := ch.conn
	made, err := call(ctx, c, "", target.CreateBrowserContext, target.CreateBrowserContextParams{DisposeOnDetach: new(true)})
	if err != nil {
		return nil, fmt.Errorf("make browser context: %w", err)
	}
	t := &tab{ch: ch, context: made.BrowserContextID, state: state{changed: make(chan struct{}, 1), traffic: traffic{requests: map[string]request{}}}}
	defer func() {
		if err != nil {
			errand(ch, "", target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: t.context})
		}
	}()
	deny := begin(c, "", browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: t.context, EventsEnabled: new(true),
	})
	opened, err := call(ctx, c, "", target.CreateTarget, target.CreateTargetParams{
		URL: "about:blank", BrowserContextID: t.context, Width: windowWidth, Height: windowHeight,
	})
	if err != nil {
		return nil, fmt.Errorf("open page: %w", err)
	}
	t.target, t.frame = opened.TargetID, cdp.FrameID(opened.TargetID)
	attached, err := call(ctx, c, "", target.AttachToTarget, target.AttachToTargetParams{TargetID: t.target, Flatten: new(true)})
	if err != nil {
		return nil, fmt.Errorf("attach to page: %w", err)
	}
	t.session = string(attached.SessionID)
	c.listen(t.session, t.hear)
	ch.mu.Lock()
	ch.tabs[string(t.frame)] = t
	ch.mu.Unlock()
	defer func() {
		if err != nil {
			c.listen(t.session, nil)
			ch.mu.Lock()
			delete(ch.tabs, string(t.frame))
			ch.mu.Unlock()
		}
	}()
	// All commands are sent before the first answer, and every answer is awaited: a command
	// that is not acknowledged when the page moves to another process is lost.
	pageOn := begin(c, t.session, page.Enable, page.EnableParams{})
	netOn := begin(c, t.session, network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(1)), MaxResourceBufferSize: new(int64(1))})
	crashOn := begin(c, t.session, inspector.Enable, cdp.Empty{})
	popups := begin(c, t.session, target.SetAutoAttach, target.SetAutoAttachParams{
		// Not WaitForDebuggerOnStart, which makes workers wait as well, whatever
		// the filter says.
		AutoAttach: true, Flatten: new(true), Filter: target.Filter{{Type: "page"}, {Exclude: true}},
	})
	watch := begin(c, t.session, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: ourScript(), WorldName: world,
	})
	_, e1 := deny.wait(ctx)
	_, e2 := pageOn.wait(ctx)
	_, e3 := netOn.wait(ctx)
	_, e4 := crashOn.wait(ctx)
	_, e5 := popups.wait(ctx)
	_, e6 := watch.wait(ctx)
	if err = errors.Join(e1, e2, e3, e4, e5, e6); err != nil {
		return nil, fmt.Errorf("prepare page: %w", err)
	}
	return t, nil
}

// warm makes the renderer of a page do, once, what takes longest the first time: find
// fonts, lay out, draw, and run our scripts. The page that this needs is removed again.
func (t *tab) warm(ctx context.Context) error {
	return t.evaluate(ctx, ourScript()+warmScript+"("+argument(settleOptions{Most: 20, By: by(ctx)})+")", nil)
}
