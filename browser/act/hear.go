package act

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// These types contain only the parts of Chrome's events that are read. The types of cdproto
// have ten times as many fields, and a page can make thousands of events.

type frameEvent struct {
	Frame struct {
		ID       string `json:"id"`
		ParentID string `json:"parentId"`
		LoaderID string `json:"loaderId"`
		URL      string `json:"url"`
		Fragment string `json:"urlFragment"`
	} `json:"frame"`
	FrameID       string `json:"frameId"`
	ParentFrameID string `json:"parentFrameId"`
	URL           string `json:"url"`
	Reason        string `json:"reason"`
	Disposition   string `json:"disposition"`
}

type attachEvent struct {
	SessionID  string `json:"sessionId"`
	TargetInfo struct {
		TargetID      string `json:"targetId"`
		Type          string `json:"type"`
		OpenerID      string `json:"openerId"`
		URL           string `json:"url"`
		ReachesOpener bool   `json:"canAccessOpener"`
	} `json:"targetInfo"`
	Waiting bool `json:"waitingForDebugger"`
}

type pausedEvent struct {
	RequestID string `json:"requestId"`
	NetworkID string `json:"networkId"`
	FrameID   string `json:"frameId"`
	Request   struct {
		URL     string `json:"url"`
		Method  string `json:"method"`
		Headers struct {
			Document string `json:"Upgrade-Insecure-Requests"`
		} `json:"headers"`
	} `json:"request"`
	Challenge struct {
		Source string `json:"source"`
		Origin string `json:"origin"`
	} `json:"authChallenge"`
}

type requestEvent struct {
	RequestID string `json:"requestId"`
	LoaderID  string `json:"loaderId"`
	FrameID   string `json:"frameId"`
	Type      string `json:"type"`
	Request   struct {
		URL    string `json:"url"`
		Method string `json:"method"`
	} `json:"request"`
	Response struct {
		Status int `json:"status"`
	} `json:"response"`
	ErrorText string `json:"errorText"`
}

type contextEvent struct {
	Context struct {
		ID       int64  `json:"id"`
		UniqueID string `json:"uniqueId"`
		Name     string `json:"name"`
		Aux      struct {
			FrameID   string `json:"frameId"`
			IsDefault bool   `json:"isDefault"`
		} `json:"auxData"`
	} `json:"context"`
}

type dialogEvent struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// hearing calls take with an event, if the event can be decoded.
func hearing[E any](params []byte, take func(E)) {
	var e E
	if jsonv2.Unmarshal(params, &e, jsonOptions) == nil {
		take(e)
	}
}

// hear handles the events of the browser itself. It must not block.
func (e *engine) hear(method string, params []byte) {
	switch method {
	case cdpbrowser.DownloadWillBegin.Method:
		hearing(params, e.fileBegins)
	case cdpbrowser.DownloadProgress.Method:
		hearing(params, e.fileGoesOn)
	case target.AttachedToTarget.Method:
		hearing(params, e.appears)
	case target.DetachedFromTarget.Method:
		hearing(params, e.detached)
	}
}

// appears handles the session of a new page: a page that was requested, or a window that a
// page opened. Both wait. The session of a tab to which chromedp has attached needs
// nothing.
func (e *engine) appears(v attachEvent) {
	e.mu.Lock()
	if slices.ContainsFunc(e.tabs, func(t *tab) bool { return t.target == v.TargetInfo.TargetID }) {
		e.mu.Unlock()
		return
	}
	ours := v.TargetInfo.OpenerID == "" && e.creating > 0 && len(e.fresh) < 2*MaxTabs
	if ours {
		e.fresh[v.TargetInfo.TargetID] = v
	}
	e.mu.Unlock()
	if !ours {
		e.window(v)
		return
	}
	select {
	case e.came <- struct{}{}:
	default:
	}
}

// window handles a window that a page opened.
func (e *engine) window(v attachEvent) {
	e.mu.Lock()
	var opener *tab
	for _, t := range e.tabs {
		if v.TargetInfo.OpenerID != "" && t.target == v.TargetInfo.OpenerID {
			opener = t
		}
	}
	full := len(e.tabs) >= MaxTabs
	// A window may hide which page opened it. It then counts as a window of the current
	// tab.
	for _, t := range e.tabs {
		if opener == nil && v.TargetInfo.OpenerID == "" && t.name == e.current {
			opener = t
		}
	}
	e.front = nil // the window comes to the front, even if it is closed
	e.mu.Unlock()
	if full || opener == nil {
		closeUnwanted(e, v)
		if opener != nil {
			opener.change(func() { opener.note(fmt.Sprintf("a window was closed immediately, since %d tabs are open", MaxTabs)) })
		}
		return
	}
	w := e.addTab(v.TargetInfo.TargetID, opener.name)
	e.mu.Lock()
	if len(e.opened) < maxNotes {
		e.opened = append(e.opened, w.name)
	}
	e.mu.Unlock()
	e.ready(func(ctx context.Context) {
		if err := w.equip(ctx, v.SessionID, w.target, true); err != nil {
			discard(w)
		}
	})
	opener.change(func() {})
}

// closeUnwanted closes a window immediately. If the window can reach its opener, the opener
// may wait in the same process until the window runs, and a window that is closed before
// never runs. So the window runs first, and its requests are held before that, so that none
// of them is sent. A window that cannot reach its opener has a process of its own, and
// nobody waits for it to run. It is closed without the command that holds its requests,
// because Chrome would answer that command only once the window runs.
func closeUnwanted(e *engine, v attachEvent) {
	shut := func() {
		begin(e.g, "", target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(v.TargetInfo.TargetID)}).drop()
	}
	if !v.TargetInfo.ReachesOpener {
		e.errand(shut)
		return
	}
	e.ready(func(ctx context.Context) {
		if _, err := call(ctx, e.g, v.SessionID, fetch.Enable, fetch.EnableParams{}); err == nil {
			_, _ = call(ctx, e.g, v.SessionID, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		}
		shut()
	})
}

// hear handles the events of a session of the tab. It must not block.
func (t ear) hear(session, method string, params []byte) {
	switch method {
	case page.FrameNavigated.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				t.navigated(session, v.Frame.ID, v.Frame.ParentID, v.Frame.LoaderID, clipURL(v.Frame.URL+v.Frame.Fragment))
			})
		})
	case page.NavigatedWithinDocument.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				if f := t.frames[v.FrameID]; f != nil {
					f.url = clipURL(v.URL)
				}
			})
		})
	case page.FrameAttached.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				if t.frames[v.FrameID] == nil && len(t.frames) < maxKnownFrames {
					t.frames[v.FrameID] = &frame{id: v.FrameID, parent: v.ParentFrameID, session: session, url: "about:blank"}
				}
			})
		})
	case page.FrameDetached.Method:
		hearing(params, func(v frameEvent) {
			if v.Reason != "swap" {
				t.change(func() { t.gone(v.FrameID) })
			}
		})
	case page.FrameRequestedNavigation.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				t.leaving = time.Now()
				if f := t.frames[v.FrameID]; f != nil && v.Disposition == "currentTab" {
					f.navigations++
				}
			})
		})
	case page.FrameStartedLoading.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				if f := t.frames[v.FrameID]; f != nil {
					f.begun = f.navigations
				}
			})
		})
	case page.FrameStoppedLoading.Method:
		hearing(params, func(v frameEvent) {
			t.change(func() {
				if f := t.frames[v.FrameID]; f != nil {
					f.over = f.begun
				}
			})
		})
	case page.DomContentEventFired.Method:
		t.change(func() {
			if v := t.views[session]; v != nil && v.top == t.target {
				t.loaded = true
			}
		})
	case target.AttachedToTarget.Method:
		hearing(params, func(v attachEvent) { t.attached(session, v) })
	case target.DetachedFromTarget.Method:
		hearing(params, t.e.detached)
	case fetch.RequestPaused.Method:
		hearing(params, func(v pausedEvent) { t.paused(session, v) })
	case fetch.AuthRequired.Method:
		hearing(params, func(v pausedEvent) { t.challenged(session, v) })
	case page.JavascriptDialogOpening.Method:
		hearing(params, func(v dialogEvent) { t.dialogOpens(session, v) })
	case page.JavascriptDialogClosed.Method:
		t.change(t.dialogCloses)
	case page.FileChooserOpened.Method:
		t.change(func() { t.note("the page asked for a file; give it one with: upload") })
	case "Inspector.targetCrashed":
		t.change(func() {
			if v := t.views[session]; v != nil && v.top == t.target {
				t.crashed = true
				t.block()
			} else if v != nil {
				t.gone(v.top)
				t.note("a frame crashed")
			}
		})
	case network.RequestWillBeSent.Method:
		hearing(params, t.began)
	case network.ResponseReceived.Method:
		hearing(params, t.answered)
	case network.LoadingFinished.Method, network.LoadingFailed.Method:
		hearing(params, t.ended)
	case runtime.ConsoleAPICalled.Method:
		hearing(params, t.logged)
	case runtime.ExecutionContextCreated.Method:
		hearing(params, func(v contextEvent) {
			t.change(func() {
				switch f := t.frames[v.Context.Aux.FrameID]; {
				case f == nil || f.session != session:
				case v.Context.Aux.IsDefault:
					f.main = runtime.ExecutionContextID(v.Context.ID)
				case v.Context.Name == readingWorld:
					f.reading = v.Context.UniqueID
				}
			})
		})
	case runtime.ExceptionThrown.Method:
		hearing(params, t.threw)
	}
}

// lost counts an event of a session of the tab that was dropped, since too many came. It must not
// block.
func (t ear) lost(session, method string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	switch method {
	case runtime.ConsoleAPICalled.Method: // this may be an error, but only its method is known
	case runtime.ExceptionThrown.Method:
		t.errors++
	case network.RequestWillBeSent.Method:
		t.requests.skipped++
		return
	default:
		return
	}
	t.console.skipped++
	if v == nil {
		return
	}
	now := time.Now()
	v.flood.drop(now)
	if v.flood.goesOn(now) {
		t.slowDown(v)
	}
}

// slowDown slows down the page of a session for slowTime, unless it is slowed down already.
// t.mu is held.
func (t ear) slowDown(v *view) {
	if v.flood.slowing || t.e.ctx.Err() != nil {
		return
	}
	v.flood.slowing = true
	t.e.wg.Go(func() {
		t.throttle(t.e.ctx, v.session) // returns when the session ends
		t.mu.Lock()
		defer t.mu.Unlock()
		v.flood.slowing, v.flood.level = false, 0
	})
}

// throttle makes Chrome run the scripts of a session slower for slowTime. The time begins
// when Chrome has answered; by then all events before the answer have arrived. A script
// that keeps flooding until then without a pause is stopped like a script that hangs.
func (t ear) throttle(ctx context.Context, session string) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	g := t.e.g
	set := func(rate float64) pending[cdp.Empty] {
		return begin(g, session, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: rate})
	}
	slower, began := set(slowRate), time.Now()
	work, stopped := t.e.cpu(), false
	for !slower.came(ctx, nil, awakeTick) {
		now, spent := time.Now(), t.e.cpu()-work
		if !stopped && t.flooding(session, now) && (spent >= hungWork || now.Sub(began) >= stopTime) {
			stopped = true
			terminate(g, session)
		}
	}
	_, err := slower.wait(ctx)
	if err == nil {
		t.change(func() { t.freed = t.freed || stopped })
		rest := time.NewTimer(slowTime)
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
	}
	if !errors.Is(err, errSessionEnded) { // the session may still be slowed down
		_, _ = set(1).wait(ctx)
	}
}

// attached handles a new session: a frame of another site, or a worker. All of them wait.
func (t ear) attached(parent string, v attachEvent) {
	e := t.e
	switch v.TargetInfo.Type {
	case "iframe":
		e.ready(func(ctx context.Context) {
			t.mu.Lock()
			n := len(t.views)
			t.mu.Unlock()
			if n >= MaxFrames {
				return // the frame never runs
			}
			t.change(func() {
				if f := t.frames[v.TargetInfo.TargetID]; f != nil {
					f.session = v.SessionID
				}
			})
			if err := t.equip(ctx, v.SessionID, v.TargetInfo.TargetID, v.Waiting); err != nil && e.log != nil {
				e.log("prepare frame", err)
			}
		})
	default:
		// A worker has no document, and its requests go through the egress door.
		e.errand(func() {
			begin(e.g, v.SessionID, runtime.RunIfWaitingForDebugger, cdp.Empty{}).drop()
			if v.TargetInfo.Type == "service_worker" {
				return // a service worker that is left immediately never starts
			}
			begin(e.g, parent, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(v.SessionID)}).drop()
		})
	}
}

// detached handles the end of a session.
func (e *engine) detached(v attachEvent) {
	e.mu.Lock()
	t := e.bySess[v.SessionID]
	delete(e.bySess, v.SessionID)
	if t == nil {
		e.front = nil // this may be the session of a window that was closed, and not of chromedp
	}
	e.mu.Unlock()
	defer e.g.leave(v.SessionID) // last: leave makes open questions fail, and that is not an answer of the page
	if t == nil {
		return
	}
	t.mu.Lock()
	w := t.views[v.SessionID]
	delete(t.views, v.SessionID)
	if w != nil && w.top != t.target {
		if f := t.frames[w.top]; f != nil && f.session == v.SessionID {
			t.gone(w.top)
		}
	}
	t.mu.Unlock()
	if w != nil && w.top == t.target {
		e.dropTab(t)
		return
	}
	t.change(func() {})
}

// paused handles a request for a document that Chrome has paused. Another goroutine decides
// about it, since that may take long.
func (t ear) paused(session string, v pausedEvent) {
	e := t.e
	refuse := func() { // the request is aborted, so that the page stays where it is
		begin(e.g, session, fetch.FailRequest, fetch.FailRequestParams{RequestID: fetch.RequestID(v.RequestID), ErrorReason: network.ErrorReasonAborted}).drop()
	}
	job := func() {
		if err := t.judge(v); err != nil {
			line := "refused: " + shownURL(e.masks.hide(v.Request.URL)) + ": " + cut(plain(e.masks.hideReason(err.Error())), 300)
			t.change(func() {
				t.note(line)
				t.leaving = time.Time{}
				if v.FrameID == t.target {
					t.failure = line
				}
			})
			refuse()
			return
		}
		if v.FrameID == t.target {
			t.change(func() { t.method = v.Request.Method })
		}
		begin(e.g, session, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: fetch.RequestID(v.RequestID)}).drop()
	}
	select {
	case e.judged <- job:
	default:
		e.errand(refuse)
	}
}

// judge returns an error if a document must not be loaded.
func (t ear) judge(v pausedEvent) error {
	u, err := url.Parse(v.Request.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("only http and https addresses are opened")
	}
	t.mu.Lock()
	from := ""
	if f := t.frames[v.FrameID]; f != nil {
		from = f.url
	}
	leaves := t.opens(v)
	t.mu.Unlock()
	if sites := t.sites(); t.e.opts.OneSite && !leaves && len(sites) > 0 && !slices.Contains(sites, originOf(v.Request.URL)) {
		return fmt.Errorf("a secret was typed in this tab, so the tab stays on %s until a step opens another page in it", sites[0])
	}
	if t.e.opts.Judge == nil {
		return fmt.Errorf("nothing may be opened in this seat")
	}
	ctx, cancel := context.WithTimeout(t.e.ctx, 5*time.Second)
	defer cancel()
	return t.e.opts.Judge(ctx, Navigation{URL: v.Request.URL, Method: v.Request.Method, From: from, Frame: v.FrameID != t.target, File: v.isFile()})
}

// isFile reports whether the answer to a request is saved as a file and not shown, whatever
// it contains. Chrome does not count such a request as a network request of the page, and a
// page cannot set the header Upgrade-Insecure-Requests.
func (v pausedEvent) isFile() bool { return v.NetworkID == "" && v.Request.Headers.Document == "" }

// challenged answers a server that asks for a user and a password. Nobody is asked.
func (t ear) challenged(session string, v pausedEvent) {
	t.e.errand(func() {
		begin(t.e.g, session, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
			RequestID: fetch.RequestID(v.RequestID), AuthChallengeResponse: &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth},
		}).drop()
	})
	t.change(func() {
		t.note("the server " + shownURL(v.Challenge.Origin) + " asked for a user and a password; the request was cancelled")
	})
}
