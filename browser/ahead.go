package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// aheadNodes is how many elements a page may have to be read by a look ahead:
// where it turns out that its scripts are at work still, that was in vain.
const aheadNodes = 5000

// ahead is a look at a page that is asked for as soon as its document is there.
// The page answers when it has loaded and settled, and nobody has to hear of the
// one to ask for the other. Of its own it knows what changed its tree but not
// what its scripts asked of the network, so an answer holds only if that is
// quiet, too.
type ahead struct {
	loader string // of the document
	world  pending[page.CreateIsolatedWorldResult]
	look   pending[runtime.EvaluateResult]
}

// lookAhead begins a look at the document that is there now, if there is none.
func (t *tab) lookAhead(r Request) {
	if r.Until != UntilSettled {
		return
	}
	t.mu.Lock()
	loader, there := t.loader, t.committed
	t.mu.Unlock()
	if !there || loader == t.ahead.loader {
		return
	}
	t.ahead.drop()
	t.ahead.loader = loader
	t.ahead.world = t.enter()
}

// enter goes on in the world of the document.
func (a *ahead) enter(ctx context.Context, t *tab, r Request, m message) {
	world, err := a.world.read(m)
	a.world = pending[page.CreateIsolatedWorldResult]{}
	if err != nil {
		return // the ordinary look will find the same, or another document
	}
	o := settleOptions{
		Selector: r.Selector, Quiet: ms(quietTime), Quick: ms(quickTime), Bare: ms(bareTime),
		Least: ms(r.Wait), Most: ms(max(mostSettle, r.Wait)), Load: true,
	}
	if by, ok := ctx.Deadline(); ok && r.Selector != "" {
		o.Most = ms(time.Until(by))
	}
	a.look = t.run(world.ExecutionContextID, settling(ctx, r, o, aheadNodes))
}

// take is the look, once.
func (a *ahead) take() pending[runtime.EvaluateResult] {
	look := a.look
	a.look = pending[runtime.EvaluateResult]{}
	return look
}

// drop gives the look up.
func (a *ahead) drop() {
	a.world.drop()
	a.look.drop()
	*a = ahead{loader: a.loader}
}
