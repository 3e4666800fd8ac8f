package act

import (
	"fmt"
	"time"

	"github.com/chromedp/cdproto/page"
)

// An alert is written down if it is among the first maxAlerts dialogs of a document. Any
// other dialog waits for the agent if it is among the first maxAsked, and if no other
// dialog waits. All other dialogs are counted and dismissed, except those of beforeunload,
// which are accepted.
const maxAlerts, maxAsked = 5, 20

// dialogOpens handles a dialog that the page opens. An alert is closed immediately and
// written down. Another dialog waits for the agent, until DialogTime has passed.
func (t ear) dialogOpens(session string, v dialogEvent) {
	text := cut(escaped(t.e.masks.hide(clip(v.Message, 64<<10))), MaxDialogText)
	answer := func(accept bool) func() {
		return func() {
			begin(t.e.g, session, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: accept}).drop()
		}
	}
	t.change(func() {
		switch {
		case v.Type == "alert":
			if t.alerts++; t.alerts <= maxAlerts {
				t.note(fmt.Sprintf("alert: %s", quoted(text, MaxDialogText)))
			}
			t.e.errand(answer(true))
		case t.alerts >= maxAsked || t.dialog != nil:
			t.alerts++
			t.e.errand(answer(v.Type == "beforeunload"))
		default:
			t.alerts++
			h := &held{Dialog: Dialog{Kind: v.Type, Text: text}, session: session, before: v.Type == "beforeunload"}
			h.timer = time.AfterFunc(DialogTime, func() { t.e.errand(answer(false)) })
			t.dialog = h
			forgetQuestions(t.tab) // the page answers once the dialog is answered
			t.block()
		}
	})
}

// dialogCloses notes that the dialog was answered. t.mu is held.
func (t ear) dialogCloses() {
	if t.dialog != nil && t.dialog.timer != nil {
		t.dialog.timer.Stop()
	}
	if t.dialog != nil && !t.crashed {
		t.blocked = make(chan struct{})
	}
	t.dialog = nil
}
