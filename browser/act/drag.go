package act

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// drag drags one element to another through chromedp, which implements the drags of HTML5.
func (t hand) drag(ctx context.Context, p *plan) error {
	from, err := t.reachable(ctx, p.aim)
	if err != nil {
		return err
	}
	to, err := t.reachable(ctx, p.to)
	if err != nil {
		return err
	}
	if from, err = t.reachable(ctx, p.aim); err != nil { // scrolling to the other element may have moved this one
		return err
	}
	session := p.aim.frame.session
	if t.viewTop(session) != t.target {
		return &Refusal{Reason: ReasonArgument, Message: "an element in a frame of another site cannot be dragged", Next: "use its buttons or keys"}
	}
	watched, done := t.watch(ctx, session)
	defer done()
	ended := func(err error) error {
		if err == nil || watched.Err() == nil || ctx.Err() != nil {
			return err
		}
		if err = context.Cause(watched); errors.Is(err, context.DeadlineExceeded) {
			awake(ctx, t.tab, session) // the page then answers the commands below
		}
		return err
	}
	guest, leave, err := t.e.guest(watched, t.target)
	if err != nil {
		return t.fault(ended(err), false)
	}
	defer leave()
	became, err := guard(t).during(ctx, p.aim, grip{}, func(touched) error {
		return ended(chromedp.Do(guest, chromedp.DragAndDropXY(from.x, from.y, to.x, to.y)))
	})
	if err != nil {
		// A drag that is not cancelled would take all input of the mouse. The button is
		// released outside the page.
		begin(t.e.g, session, input.DispatchDragEvent, input.DispatchDragEventParams{Type: input.DispatchDragEventTypeDragCancel, X: to.x, Y: to.y, Data: &input.DragData{Items: []*input.DragDataItem{}, DragOperationsMask: 1}}).drop()
		begin(t.e.g, session, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: -1, Y: -1, Button: input.MouseButtonLeft, ClickCount: 1}).drop()
	}
	missed := ""
	if became.Hits == 0 && became.Misses > 0 {
		missed = t.nameOf(p.aim) + missedElement
	}
	if over, err := guard(t).endOf(became, err, missed, "look again"); over {
		return err
	}
	if became.Hits == 0 {
		return &Refusal{Reason: ReasonNotReady, Message: "the drag did not reach " + t.nameOf(p.aim), Next: "look again", Ran: true}
	}
	return nil
}

// watch returns a context that ends with the cause DeadlineExceeded after twice answerTime,
// or if the page of a session does not answer a question within answerTime. It ends with
// the cause errBlocked if a dialog opens or the page crashes. The caller must call done,
// which waits for the goroutine.
func (t hand) watch(ctx context.Context, session string) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	stop := t.stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(askTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if q := ask(t.tab, session); !q.came(ctx, stop, answerTime) {
					end(context.DeadlineExceeded)
					return
				}
			case <-stop:
				end(errBlocked)
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		end(nil)
		wg.Wait()
	}
}
