package act

import (
	"context"
	"errors"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
)

// send sends input and waits until the page has taken it, a dialog has opened, or the page
// was left.
func send[P any](ctx context.Context, t *tab, session string, cmd cdp.Command[P, cdp.Empty], params P) error {
	return took(ctx, t, begin(t.e.g, session, cmd, params))
}

// took waits until the page has taken input.
func took(ctx context.Context, t *tab, sent pending[cdp.Empty]) error {
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// A window that was opening may have hidden the page, and a hidden page takes no input.
	front := func() { begin(t.e.g, t.session(), page.BringToFront, cdp.Empty{}).drop() }
	_, err := answerOf(within, t, sent, front)
	return t.cause(err)
}

// takesInput refuses a step if its input would no longer reach the document of a frame,
// because a dialog waits or the document was left. It is called before the first input of
// the step: a later error may be an effect of the input.
func (t hand) takesInput(f frame) error {
	select {
	case <-t.stop():
		return t.fault(t.cause(errBlocked), false)
	default:
	}
	if f.leftIn(t.tab) {
		return t.fault(errLeft, false)
	}
	return nil
}

// leftIn reports whether the document of the frame was left in its tab.
func (f frame) leftIn(t *tab) bool {
	now, ok := t.frameOf(f.id)
	return !ok || now.loader != f.loader
}

// inputOver reports whether input has ended with a dialog or another document. The outcome of the
// step says which. A *Refusal comes before any input was sent.
func inputOver(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	return !refused && (errors.Is(err, errBlocked) || errors.Is(err, errLeft))
}
