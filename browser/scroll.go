package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// Content that loads when it is looked at is looked at: a page that shows signs
// of it (js/lazy.js) is scrolled, and stops being scrolled when nothing comes of
// that. Any other page costs no frame.

// Bounds of scrolling, besides Request.Scrolls.
const (
	scrollTime   = 2500 * time.Millisecond
	scrollHeight = 100_000                // CSS pixels
	scrollSettle = 600 * time.Millisecond // after each step
	listenTime   = 60 * time.Millisecond  // for listeners that do not act at once
	observeTime  = 150 * time.Millisecond // for observers that set a timer first
)

// lazy is what js/lazy.js says of a page.
type lazy string

const (
	lazyParts lazy = "parts"
	lazyEnd   lazy = "end"
	lazyTall  lazy = "tall"
)

// scrolled is what js/scroll.js tells.
type scrolled struct {
	Changed bool    `json:"changed"`
	End     bool    `json:"end"`
	Height  float64 `json:"height"`
}

// scrollOptions are those of js/scroll.js.
type scrollOptions struct {
	To    string  `json:"to"`
	Wait  float64 `json:"wait"`  // milliseconds
	Drawn bool    `json:"drawn"` // what the page has become is drawn first
}

// unroll scrolls a page for what loads when it is looked at, and back.
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
			v.note("the page loads more the further it is scrolled; it was scrolled %d times, and there may be more of it", steps)
		})
	}
	if came || kind == lazyParts {
		v.early = nil // a source that an image was given does not change the tree
	}
	return v.evaluate(ctx, scrollScript+"("+argument(scrollOptions{To: "top"})+")", nil)
}

// listens reports whether scripts of the page listen to its being scrolled. The
// page's own world is asked, since no other sees its listeners; what a page could
// make it say is worth a few frames.
func (t *tab) listens(ctx context.Context) bool {
	answer, err := call(ctx, t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: `[window, document].some((n) => n.onscroll || getEventListeners(n).scroll)`, IncludeCommandLineAPI: new(true), ReturnByValue: new(true), Silent: new(true),
	})
	return err == nil && answer.ExceptionDetails == nil && answer.Result != nil && string(answer.Result.Value) == "true"
}
