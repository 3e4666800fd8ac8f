package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// aheadNodes is the largest number of elements of a page that a look ahead reads out. If
// the scripts of the page still run afterwards, that work was in vain.
const aheadNodes = 5000

// ahead is a look at a page that the page itself begins. Each document gets the
// script before it loads, and runs it once it has loaded, so no round trip is needed
// to start it. The script sees changes of the document's tree, but not the network
// requests of its scripts, so its answer counts only if the network is quiet, too.
type ahead struct {
	loader string // loader of the document that the look is at
	world  pending[page.CreateIsolatedWorldResult]
	look   pending[runtime.EvaluateResult]
}

// greet sends the first command that a call sends to a page: to look at each new document,
// or only to give a sign of life. The answer may be dropped.
func (v *visit) greet(ctx context.Context, r Request) (answer <-chan message, drop func()) {
	if r.Until != UntilSettled {
		sign := v.sign()
		return sign.answer, sign.drop
	}
	o := settleOptions{
		Selector: r.Selector, Quiet: ms(quietTime), Quick: ms(quickTime), Bare: ms(bareTime),
		Least: ms(r.Wait), Most: ms(max(mostSettle, r.Wait)), Load: true,
	}
	if by, ok := ctx.Deadline(); ok && r.Selector != "" {
		o.Most = ms(time.Until(by))
	}
	told := begin(v.ch.conn, v.session, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "if (self === top) belljar.look = " + settling(ctx, r, o, aheadNodes), WorldName: world,
	})
	return told.answer, told.drop
}

// lookAhead requests the result of the look at the present document.
func (v *visit) lookAhead(r Request) {
	if r.Until != UntilSettled {
		return
	}
	v.mu.Lock()
	loader, there := v.loader, v.committed
	v.mu.Unlock()
	if !there || loader == v.ahead.loader {
		return
	}
	v.ahead.drop()
	v.ahead.loader = loader
	v.ahead.world = v.enter()
}

// enter requests the look in the world of the document. The look is null if the document
// loaded before it got the script.
func (a *ahead) enter(t *tab, m message) {
	world, err := a.world.read(m)
	a.world = pending[page.CreateIsolatedWorldResult]{}
	if err != nil {
		return // the ordinary look will find the same error, or another document
	}
	a.look = t.run(world.ExecutionContextID, "globalThis.belljar?.look ?? null")
}

// takeLook returns the look, once. It drops the look of a document without a load event,
// which would never end.
func (v *visit) takeLook() pending[runtime.EvaluateResult] {
	v.mu.Lock()
	stopped := v.stopped
	v.mu.Unlock()
	if stopped {
		v.ahead.drop()
	}
	look := v.ahead.look
	v.ahead.look = pending[runtime.EvaluateResult]{}
	return look
}

// drop gives up the look.
func (a *ahead) drop() {
	a.world.drop()
	a.look.drop()
	*a = ahead{loader: a.loader}
}
