package act

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

// do carries out a step after its facts were read again.
func (p *plan) do(ctx context.Context, s Step) (*Outcome, error) {
	t := p.t
	t.mu.Lock()
	commits := t.commits
	t.mu.Unlock()
	out := &Outcome{Tab: t.name}
	err := refusal(ctx, t, p.act(ctx, s, out), true)
	if s.Do != DoClose && s.Do != DoSave && s.Do != DoEval {
		switch {
		case err == nil && s.Unseen && p.facts.inputs():
			t.rest(ctx)
		case err == nil:
			t.settle(ctx, SettleTime)
		}
	}
	p.told(out, commits, err)
	return out, err
}

// told adds the other effects of the step, such as a dialog or a new page, to out. The
// agent reads out unless the step failed.
func (p *plan) told(out *Outcome, commits int, failed error) {
	t, e := p.t, p.e
	if d := t.waiting(); d != nil {
		out.Dialog = d
		out.Stop = fmt.Sprintf("a dialog waits for an answer: %s %s", d.Kind, quoted(d.Text, MaxDialogText))
	}
	t.mu.Lock()
	if t.commits != commits && out.Stop == "" {
		out.Stop = "another document was loaded"
		if goes(p.step.Do) {
			out.Stop = ""
		}
	}
	if t.crashed {
		out.Stop = "the page crashed"
	}
	t.mu.Unlock()
	e.mu.Lock()
	out.Opened, e.opened = e.opened, nil
	out.Downloads, e.files.begun = e.files.begun, nil
	e.mu.Unlock()
	for _, n := range t.takeNotes() {
		out.Line += "; " + n
	}
	if failed == nil && tellFreed(t) {
		out.Line += "; " + wasStopped
	}
	out.Line = e.masks.hide(strings.TrimPrefix(out.Line, "; "))
	now := t
	if o, err := e.tab(out.Tab); err == nil {
		now = o // the step may have gone to another tab
	}
	out.URL = shownURL(e.masks.hide(now.url()))
}

// goes reports whether a step with this verb loads a document.
func goes(v Verb) bool { return v == DoOpen || v == DoBack || v == DoForward || v == DoReload }

// act carries out one step.
func (p *plan) act(ctx context.Context, s Step, out *Outcome) error {
	t := p.t
	name := p.facts.Shown
	if p.aim.n != 0 {
		name = fmt.Sprintf("[%d] %s", p.aim.n, name)
	}
	switch s.Do {
	case DoOpen, DoReload, DoBack, DoForward:
		return p.navigate(ctx, s, out)
	case DoClick:
		out.Line = "clicked " + name
		return hand{t}.click(ctx, p.aim, s.Button)
	case DoHover:
		out.Line = "the mouse is over " + name
		return hand{t}.hover(ctx, p.aim)
	case DoFill:
		text := s.Text
		if s.Secret != "" {
			var err error
			if text, err = t.e.reveal(ctx, s.Secret); err != nil {
				return err
			}
			t.mu.Lock()
			t.secret[p.aim.frame.loader] = originOf(p.aim.frame.url)
			t.mu.Unlock()
		}
		out.Line = "filled " + name
		return hand{t}.fill(ctx, p, text)
	case DoPress:
		out.Line = "pressed " + quoted(s.Text, 40)
		return keyboard{t}.key(ctx, p)
	case DoSelect:
		out.Line = "selected " + quoted(s.Text, MaxName) + " in " + name
		return hand{t}.choose(ctx, p, s.Text)
	case DoCheck:
		return p.check(ctx, s, name, out)
	case DoScroll:
		return p.scroll(ctx, s, out)
	case DoDrag:
		out.Line = "dragged " + name
		return hand{t}.drag(ctx, p)
	case DoUpload:
		out.Line = "gave a file to " + name
		return hand{t}.upload(ctx, p, s)
	case DoSave:
		f, err := t.e.take(ctx, s.Download)
		if err != nil {
			return err
		}
		out.File, out.Line = f, s.Download+" is "+bytesOf(f.Size)
		return nil
	case DoPDF:
		f, err := eye{t}.pdf(ctx)
		if err != nil {
			return err
		}
		out.File, out.Line = f, "the PDF of the page has "+bytesOf(f.Size)
		return nil
	case DoWait:
		return p.wait(ctx, s, out)
	case DoDialog:
		return p.answer(ctx, s, out)
	case DoEval:
		v, err := eye{t}.eval(ctx, s.Text)
		out.Value = v
		return err
	case DoSwitch:
		o, err := t.e.tab(s.Text)
		if err != nil {
			return err
		}
		t.e.mu.Lock()
		t.e.current = o.name
		t.e.mu.Unlock()
		out.Tab, out.Line = o.name, "now in tab "+o.name
		return nil
	case DoClose:
		return p.close(ctx, s, out)
	}
	return fmt.Errorf("no step is called %q", s.Do)
}

// navigate has the tab go to another document.
func (p *plan) navigate(ctx context.Context, s Step, out *Outcome) error {
	t := p.t
	ctx, cancel := context.WithTimeout(ctx, OpenTime)
	defer cancel()
	t.mu.Lock()
	commits, files, asked := t.commits, t.files, t.requests.lastTop()
	t.failure, t.opening, t.openID = "", s.URL, ""
	t.mu.Unlock()
	abandon(t)
	defer func() {
		t.mu.Lock()
		t.opening, t.openID = "", ""
		t.own = t.own || s.Do == DoOpen && t.commits != commits
		t.mu.Unlock()
	}()
	var err error
	opens, reloads := s.Do == DoOpen, s.Do == DoReload
	switch {
	case opens:
		var r page.NavigateResult
		r, err = leaving(ctx, t, begin(t.e.g, t.session(), page.Navigate, page.NavigateParams{URL: s.URL}))
		if err == nil && r.ErrorText != "" && r.ErrorText != "net::ERR_ABORTED" {
			return hand{t}.notLoaded(r.ErrorText)
		}
		if err == nil && r.LoaderID == "" && r.ErrorText == "" {
			out.Line = "now at the place of this page that the address names"
			return nil // the document stays the same
		}
	case reloads:
		_, err = leaving(ctx, t, begin(t.e.g, t.session(), page.Reload, page.ReloadParams{}))
	default:
		_, err = leaving(ctx, t, begin(t.e.g, t.session(), page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: p.entry}))
	}
	if err != nil && !errors.Is(err, errBlocked) && !errors.Is(t.cause(err), errLeft) {
		return t.fault(err, true)
	}
	if t.waiting() != nil {
		out.Line = "a dialog of the page holds it up"
		return nil
	}
	status := 0 // of an answer that is not a page
	ended := func() bool {
		if r := t.requests.lastTop(); r.id != asked.id && (r.status == http.StatusNoContent || r.status == http.StatusResetContent) {
			status = r.status
		}
		return t.dialog != nil || t.failure != "" || t.files != files || status != 0
	}
	unheld(t, func(most time.Duration) bool { // only until the page is left: a script of the next page may run for long
		return t.until(ctx, most, func() bool { return t.commits != commits || ended() }) || ctx.Err() != nil || t.over()
	})
	came := t.until(ctx, OpenTime, func() bool { return t.commits != commits && t.loaded || ended() })
	t.mu.Lock()
	failure, dialog, file := t.failure, t.dialog, t.files != files
	loaded := t.commits != commits
	t.mu.Unlock()
	switch {
	case file && !loaded:
		out.Line = "the address leads to a file, not to a page"
		return nil
	case failure != "" && (!loaded || hand{t}.isError()):
		return hand{t}.notLoaded(failure)
	case status != 0 && !loaded:
		return &Refusal{Reason: ReasonFailed, Message: fmt.Sprintf("the server answered %d and sent no page", status), Next: "look: the tab shows what it showed before", Ran: true}
	case !came && dialog == nil && !loaded:
		return &Refusal{Reason: ReasonTimeout, Message: "the server sent no page in time", Next: "look, or open another page", Ran: true}
	}
	out.Line = "the page is open"
	return nil
}

// isError reports whether the top document is an error page of Chrome.
func (t hand) isError() bool { return strings.HasPrefix(t.url(), "chrome-error:") }

// notLoaded returns a refusal that says why a page was not loaded.
func (t hand) notLoaded(failure string) error {
	t.mu.Lock()
	if strings.HasPrefix(t.failure, "refused: ") {
		failure = t.failure
	}
	t.failure = ""
	t.notes = nil
	t.mu.Unlock()
	r := &Refusal{Reason: ReasonFailed, Message: "the server was not reached (" + cut(plain(strings.TrimPrefix(failure, "net::")), 100) + ")", Next: "check the address, or open another page"}
	switch {
	case strings.HasPrefix(failure, "refused: "):
		r.Reason, r.Message, r.Next = ReasonPolicy, failure, "open a page that the policy allows"
	case strings.Contains(failure, "ERR_CERT"), strings.Contains(failure, "ERR_SSL"):
		r.Message, r.Next = "the server's certificate is not valid ("+cut(plain(failure), 100)+")", "open another page; do not read this one without the check of its certificate"
	}
	if line := t.e.lease.Refused(t.lastAsked()); line != "" && r.Reason == ReasonFailed {
		r.Reason, r.Message, r.Next = ReasonPolicy, t.e.masks.hideReason(line), "open a page that the policy allows"
	}
	return r
}

// lastAsked returns the URL of the tab's document that was requested last.
func (t hand) lastAsked() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests.lastTop().url
}

// check clicks a checkbox if it does not have the wanted state, and checks that it has it
// afterwards.
func (p *plan) check(ctx context.Context, s Step, name string, out *Outcome) error {
	t := p.t
	state := func() (on bool, err error) {
		err = t.run(ctx, p.aim.frame, fmt.Sprintf(`((e) => { if (belljar.is(e, "label") && e.control) e = e.control; return belljar.is(e, "input") ? e.checked : Element.prototype.getAttribute.call(e, "aria-checked") === "true" })(belljar.element(%d))`, p.aim.local), &on)
		return on, err
	}
	want := map[bool]string{true: "on", false: "off"}[s.yes()]
	on, err := state()
	if err != nil {
		return t.fault(err, false)
	}
	if on == s.yes() {
		out.Line = name + " was " + want + " already"
		return nil
	}
	if err := (hand{t}).click(ctx, p.aim, ""); err != nil {
		return err
	}
	t.settle(ctx, time.Second)
	switch on, err = state(); {
	case err == nil && on == s.yes():
		out.Line = name + " is " + want
	case err == nil:
		return &Refusal{Reason: ReasonFailed, Message: name + " is not " + want + " after the click", Next: "look", Ran: true}
	case inputOver(err):
		out.Line = "clicked " + name
	default:
		return t.fault(err, true)
	}
	return nil
}

// turnWheel is input.DispatchMouseEvent with deltas that are sent even if they are zero.
var turnWheel = cdp.Command[wheel, cdp.Empty]{Method: input.DispatchMouseEvent.Method}

type wheel struct {
	Type   string  `json:"type"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	DeltaX float64 `json:"deltaX"`
	DeltaY float64 `json:"deltaY"`
}

// scroll turns the wheel over an element or the page.
func (p *plan) scroll(ctx context.Context, s Step, out *Outcome) error {
	t, aim := p.t, p.aim
	out.Line, aim.looks = "scrolled", true
	if s.Text == "" && aim.n != 0 {
		_, err := hand{t}.reachable(ctx, aim) // reachable scrolls the control into view
		return err
	}
	at := spot{x: windowWidth / 2, y: windowHeight / 2}
	session := t.session()
	if aim.local != 0 {
		var err error
		if at, err = (hand{t}).reachable(ctx, aim); err != nil {
			return err
		}
		session = aim.frame.session
	}
	by := map[string]float64{"up": -600, "down": 600, "top": -1e7, "end": 1e7}[s.Text]
	if s.Text == "" {
		by = 600
	}
	if aim.local == 0 {
		aim.frame, _ = t.frameOf(t.target)
	}
	if err := (hand{t}).takesInput(aim.frame); err != nil {
		return err
	}
	err := send(ctx, t, session, turnWheel, wheel{"mouseWheel", at.x, at.y, 0, by})
	if err != nil && !inputOver(err) {
		return t.fault(err, true)
	}
	return nil
}

// wait waits for a text on the page, or for a time.
func (p *plan) wait(ctx context.Context, s Step, out *Outcome) error {
	t := p.t
	most := time.Duration(s.MS) * time.Millisecond
	if s.MS == 0 {
		most = 10 * time.Second
	}
	end := time.Now().Add(most)
	want, before := strings.ToLower(plain(s.Text)), freed(t)
	for {
		if d := t.waiting(); d != nil {
			out.Line = "a dialog opened"
			return nil
		}
		if want != "" {
			s, err := eye{t}.see(ctx, nil)
			if err == nil {
				for _, l := range s.lines {
					if strings.Contains(strings.ToLower(l.text), want) {
						out.Line = "the text is on the page"
						return nil
					}
				}
			} else if errors.Is(err, errGone) || errors.Is(err, errCrashed) || errors.Is(err, context.DeadlineExceeded) && freed(t) && !before {
				return t.fault(err, false)
			}
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			break
		}
		t.pause(ctx, min(left, 250*time.Millisecond))
	}
	if err := context.Cause(ctx); err != nil {
		return t.fault(err, false)
	}
	if want != "" {
		return &Refusal{Reason: ReasonTimeout, Message: fmt.Sprintf("%s did not appear in %d ms", quoted(s.Text, 60), most.Milliseconds()), Next: "look"}
	}
	out.Line = fmt.Sprintf("waited %d ms", most.Milliseconds())
	return nil
}

// answer answers the dialog that waits.
func (p *plan) answer(ctx context.Context, s Step, out *Outcome) error {
	t := p.t
	t.mu.Lock()
	h := t.dialog
	t.mu.Unlock()
	if h == nil {
		return &Refusal{Reason: ReasonUnknown, Message: "the dialog is no longer open", Next: "look"}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := call(ctx, t.e.g, h.session, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: s.yes(), PromptText: s.Text})
	if err != nil {
		return t.fault(err, true)
	}
	t.until(ctx, time.Second, func() bool { return t.dialog != h })
	out.Line = map[bool]string{true: "accepted the dialog", false: "dismissed the dialog"}[s.yes()]
	return nil
}

// close closes a tab. The page is not asked, so it cannot keep its tab open.
func (p *plan) close(ctx context.Context, s Step, out *Outcome) error {
	t := p.t
	if s.Text != "" {
		o, err := t.e.tab(s.Text)
		if err != nil {
			return err
		}
		t = o
	}
	t.e.mu.Lock()
	only := len(t.e.tabs) == 1
	t.e.mu.Unlock()
	if only {
		if _, err := t.e.newTab(ctx); err != nil {
			return t.fault(err, false)
		}
	}
	if err := (hand{t}).shut(ctx); err != nil {
		return err
	}
	out.Line = "closed tab " + t.name
	t.e.mu.Lock()
	out.Tab = t.e.current
	t.e.mu.Unlock()
	return nil
}

// shut ends a tab.
func (t hand) shut(ctx context.Context) error {
	t.mu.Lock()
	h := t.dialog
	t.mu.Unlock()
	if h != nil {
		begin(t.e.g, h.session, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}).drop()
	}
	// If a tab is closed before it runs, its opener waits forever.
	t.until(ctx, time.Second, func() bool { return t.runs })
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := call(ctx, t.e.g, "", target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(t.target)})
	t.e.dropTab(t.tab)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		if _, ok := errors.AsType[*protocolError](err); !ok {
			return t.fault(err, true)
		}
	}
	return nil
}
