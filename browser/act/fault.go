package act

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// fault returns an error of Chrome or of a script as a refusal.
func (t *tab) fault(err error, ran bool) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	r := &Refusal{Reason: ReasonFailed, Message: "a command to the page failed", Next: "look again", Ran: ran, Err: err}
	switch {
	case errors.Is(err, errGone):
		r.Reason, r.Message, r.Next = ReasonCrashed, "the browser died", "look: that starts a new browser; no step is repeated"
	case errors.Is(err, errCrashed), t.isCrashed():
		r.Reason, r.Message, r.Next = ReasonCrashed, "the page crashed", "open it again, or open another page; no step is repeated"
	case errors.Is(err, errBlocked):
		if d := t.waiting(); d != nil {
			held := d.held()
			held.Ran = ran
			return held
		}
		r.Reason, r.Message = ReasonDialog, "a dialog of the page interrupted the call"
	case errors.Is(err, errLeft):
		r.Reason, r.Message = ReasonStale, "the tab has gone to another page"
	case errors.Is(err, context.DeadlineExceeded):
		r.Reason, r.Message, r.Next = ReasonTimeout, "the page did not answer in time", "look again, or open another page"
	case errors.Is(err, context.Canceled):
		// The seat stays open. A seat that was closed is reported by why.
		r.Reason, r.Message, r.Next = ReasonTimeout, "the call was cancelled", "call again"
	}
	return r
}

// refusal returns err as a refusal. If the page did not answer in time, awake first checks
// whether the page hangs, and the refusal says whether a script was stopped.
func refusal(ctx context.Context, t *tab, err error, ran bool) error {
	late := errors.Is(err, context.DeadlineExceeded)
	if late {
		awake(ctx, t, t.session())
	}
	err = t.fault(err, ran)
	if r, ok := errors.AsType[*Refusal](err); ok && late && tellFreed(t) {
		r.Message += ", and " + wasStopped
	}
	return err
}

func (t *tab) isCrashed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.crashed
}

// facing returns a URL in the form that facts contain: without its fragment and without
// secrets.
func (t *tab) facing(u string) string {
	u, _, _ = strings.Cut(u, "#")
	return t.e.masks.hide(u)
}

// unknown returns the refusal of a number that the tab does not know. t.mu is held.
func (t *tab) unknown(n int) error {
	if n > 0 && n <= t.refs.last {
		return &Refusal{Reason: ReasonStale, Message: fmt.Sprintf("[%d] belongs to a page that the tab has left", n), Next: "look again"}
	}
	return &Refusal{Reason: ReasonUnknown, Message: fmt.Sprintf("[%d] was never shown in tab %s", n, t.name), Next: "look, and use a number that the look shows"}
}

// viewTop returns the id of the top frame of a session with Chrome.
func (t *tab) viewTop(session string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.views[session]; v != nil {
		return v.top
	}
	return ""
}

// held returns the refusal of any other step while a dialog waits.
func (d *Dialog) held() *Refusal {
	return &Refusal{
		Reason: ReasonDialog, Message: fmt.Sprintf("a dialog waits for an answer: %s %s", cut(plain(d.Kind), 20), quoted(d.Text, MaxDialogText)),
		Next: "answer it with the step dialog",
	}
}
