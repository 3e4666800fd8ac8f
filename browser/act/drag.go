package act

import (
	"context"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// drag drags an element to another by chromedp, which knows the drags of HTML5.
func (t hand) drag(ctx context.Context, p *plan) error {
	from, err := t.reachable(ctx, p.aim)
	if err != nil {
		return err
	}
	to, err := t.reachable(ctx, p.to)
	if err != nil {
		return err
	}
	if from, err = t.reachable(ctx, p.aim); err != nil { // the other may have scrolled it
		return err
	}
	if t.viewTop(p.aim.frame.session) != t.target {
		return &Refusal{Reason: ReasonArgument, Message: "what is in a frame of another site is not dragged", Next: "use its buttons or keys"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	defer cancel()
	guest, done, err := t.e.guest(ctx, t.target)
	if err != nil {
		return t.fault(err, false)
	}
	defer done()
	became, err := guard(t).during(ctx, p.aim, grip{}, func(touched) error {
		return chromedp.Do(guest, chromedp.DragAndDropXY(from.x, from.y, to.x, to.y))
	})
	if err != nil { // the button does not stay down, and is let go where nothing is
		begin(t.e.g, p.aim.frame.session, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, X: -1, Y: -1, Button: input.MouseButtonLeft, ClickCount: 1}).drop()
	}
	missed := ""
	if became.Hits == 0 && became.Misses > 0 {
		missed = t.nameOf(p.aim) + missedElement
	}
	_, err = guard(t).endOf(became, err, missed, "look again")
	return err
}
