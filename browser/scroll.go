package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// Some content loads only when it becomes visible. A page that shows signs of such content
// (js/lazy.js) is scrolled, until scrolling loads nothing new. Any other page is not drawn
// for this.

// Bounds of scrolling, in addition to Request.Scrolls.
const (
	scrollTime   = 2500 * time.Millisecond
	scrollHeight = 100_000                // CSS pixels
	scrollSettle = 600 * time.Millisecond // longest wait after each step
	listenTime   = 60 * time.Millisecond  // time for listeners that do not act immediately
	observeTime  = 150 * time.Millisecond // time for observers that set a timer first
)

// lazy is what js/lazy.js returns for a page.
type lazy string

const (
	lazyParts lazy = "parts"
	lazyEnd   lazy = "end"
	lazyTall  lazy = "tall"
)

// scrolled is what js/scroll.js returns.
type scrolled struct {
	Changed bool    `json:"changed"`
	End     bool    `json:"end"`
	Height  float64 `json:"height"`
}

// scrollOptions are the options of js/scroll.js.
type scrollOptions struct {
	To    string  `json:"to"`
	Wait  float64 `json:"wait"`  // in milliseconds
	Drawn bool    `json:"drawn"` // whether the changes of the page are drawn first
}

// unroll scrolls a page to load the content that loads when it becomes visible, and scrolls
// back.
func (v *visit) unroll(ctx context.Context, r Request, kind lazy) error {
	o := scrollOptions{To: "end"}
	switch kind {
	case lazyEnd:
		o.Wait = ms(observeTime)
	case lazyParts:
		o.To = "screen"
	case lazyTall:
		if !v.listens(ctx) {
			return nil
		}
		o.Wait = ms(listenTime)
	default:
		return nil
	}
	until := time.Now().Add(scrollTime)
	came, more := false, true
	steps := 0
	for ; more && steps < r.Scrolls && time.Now().Before(until); steps++ {
		var s scrolled
		o.Drawn = came
		if err := v.evaluate(ctx, scrollScript+"("+argument(o)+")", &s); err != nil {
			return err
		}
		busy, _, err := v.network()
		if err != nil {
			return err
		}
		if s.Changed || busy {
			came = true
			now := time.Now()
			if _, err := v.quiet(ctx, Request{Until: UntilSettled}, true, now, now.Add(scrollSettle)); err != nil {
				return err
			}
		}
		more = (s.Changed || busy || !s.End) && s.Height < scrollHeight
	}
	if more && came {
		v.change(func() {
			v.note("the page loads more text each time it is scrolled; it was scrolled %d times, and more text may follow", steps)
		})
	}
	if came || kind == lazyParts {
		v.early = nil // the tree does not change if an image gets another source
	}
	return v.evaluate(ctx, scrollScript+"("+argument(scrollOptions{To: "top"})+")", nil)
}

// listens reports whether scripts of the page listen to scroll events. It asks the page's
// own world, since no other world sees its listeners. A wrong answer of the page costs only
// a few frames.
func (t *tab) listens(ctx context.Context) bool {
	answer, err := call(ctx, t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: `[window, document].some((n) => n.onscroll || getEventListeners(n).scroll)`, IncludeCommandLineAPI: new(true), ReturnByValue: new(true), Silent: new(true),
	})
	return err == nil && answer.ExceptionDetails == nil && answer.Result != nil && string(answer.Result.Value) == "true"
}
