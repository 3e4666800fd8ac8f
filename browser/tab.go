package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

// Bounds of what is kept of one page.
const (
	maxRequests  = 2048 // that are under way
	maxRedirects = 32
	maxNotes     = 32
	maxNote      = 200 // bytes
	maxRefused   = 32
	maxURL       = 2048
	maxHeader    = 64
)

// The window of a page, in CSS pixels.
const windowWidth, windowHeight = 1280, 800

// world is the name of the isolated world that our scripts run in: a page sees
// neither them nor what they change of the language.
const world = "belljar"

// tab is one page in a context of its own, for one call.
type tab struct {
	ch      *chrome
	context cdp.BrowserContextID
	target  target.ID
	frame   cdp.FrameID
	session string
	changed chan struct{} // something below changed; room for one
	headers map[string]string
	origin  string // that headers are for
	trusted bool   // it may take its time: a page before it was given up

	mu        sync.Mutex
	crashed   bool
	detached  bool
	loader    string
	committed bool // a document is there
	dom       bool
	loaded    bool
	loadedAt  time.Time
	stopped   bool      // without a load event
	leaving   bool      // the page is on its way to another
	leaveBy   time.Time // until when that is waited for
	requests  map[string]request
	counted   int       // of requests that a page is not settled with
	lastNet   time.Time // when one of them began or ended
	active    bool      // scripts of the page asked for more
	doc       document
	failure   string // Chrome's error of the document
	astray    string // Chrome's error of where the page led to by itself
	download  string // what it would have been called
	redirects []Redirect
	notes     []string
	noted     int
	refused   []Refused

	ahead ahead // of load only
	early *read // the page as it was when it settled; of load only
	lazy  lazy  // how it may become more when it is scrolled, from then
}

type request struct {
	url     string
	counted bool
}

// document is what came from the server.
type document struct {
	url, mime string
	status    int
	headers   map[string]string
}

// newTab makes a context, a page in it, and has it tell what happens. All of
// that can be done before there is a call.
func newTab(ctx context.Context, ch *chrome) (_ *tab, err error) {
	c := ch.conn
	made, err := call(ctx, c, "", target.CreateBrowserContext, target.CreateBrowserContextParams{DisposeOnDetach: new(true)})
	if err != nil {
		return nil, fmt.Errorf("make browser context: %w", err)
	}
	t := &tab{ch: ch, context: made.BrowserContextID, changed: make(chan struct{}, 1), requests: map[string]request{}}
	defer func() {
		if err != nil {
			errand(ch, "", target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: t.context})
		}
	}()
	deny := begin(c, "", browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: t.context, EventsEnabled: new(true),
	})
	opened, err := call(ctx, c, "", target.CreateTarget, target.CreateTargetParams{
		URL: "about:blank", BrowserContextID: t.context, Width: windowWidth, Height: windowHeight,
	})
	if err != nil {
		return nil, fmt.Errorf("open page: %w", err)
	}
	t.target, t.frame = opened.TargetID, cdp.FrameID(opened.TargetID)
	attached, err := call(ctx, c, "", target.AttachToTarget, target.AttachToTargetParams{TargetID: t.target, Flatten: new(true)})
	if err != nil {
		return nil, fmt.Errorf("attach to page: %w", err)
	}
	t.session = string(attached.SessionID)
	c.listen(t.session, t.hear)
	ch.mu.Lock()
	ch.tabs[string(t.frame)] = t
	ch.mu.Unlock()
	defer func() {
		if err != nil {
			c.listen(t.session, nil)
			ch.mu.Lock()
			delete(ch.tabs, string(t.frame))
			ch.mu.Unlock()
		}
	}()
	// All at once, and every answer awaited: what is not acknowledged when the
	// page moves to another process is lost.
	pageOn := begin(c, t.session, page.Enable, page.EnableParams{})
	netOn := begin(c, t.session, network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(1)), MaxResourceBufferSize: new(int64(1))})
	crashOn := begin(c, t.session, inspector.Enable, cdp.Empty{})
	popups := begin(c, t.session, target.SetAutoAttach, target.SetAutoAttachParams{
		// Not WaitForDebuggerOnStart, which makes workers wait as well, whatever
		// the filter says.
		AutoAttach: true, Flatten: new(true), Filter: target.Filter{{Type: "page"}, {Exclude: true}},
	})
	watch := begin(c, t.session, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: ourScript, WorldName: world,
	})
	_, e1 := deny.wait(ctx)
	_, e2 := pageOn.wait(ctx)
	_, e3 := netOn.wait(ctx)
	_, e4 := crashOn.wait(ctx)
	_, e5 := popups.wait(ctx)
	_, e6 := watch.wait(ctx)
	if err = errors.Join(e1, e2, e3, e4, e5, e6); err != nil {
		return nil, fmt.Errorf("prepare page: %w", err)
	}
	return t, nil
}

// warm has the renderer of a page do once what takes it longest the first time: to
// find fonts, lay out, draw, and run our scripts. What is on the page for that
// goes again.
func (t *tab) warm(ctx context.Context) error {
	return t.evaluate(ctx, ourScript+warmScript+"("+argument(settleOptions{Most: 20, By: by(ctx)})+")", nil)
}

// change changes the state and wakes who waits for it.
func (t *tab) change(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// note keeps a line for the agent. t.mu is held.
func (t *tab) note(format string, args ...any) {
	t.noted++
	if len(t.notes) < maxNotes {
		t.notes = append(t.notes, clip(fmt.Sprintf(format, args...), maxNote))
	}
}

// clip is text of at most so many bytes, in one line.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most+4)], "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}

func (t *tab) downloads(url, name string) {
	t.change(func() {
		t.download = clip(name, maxNote)
		if t.committed {
			t.leaving = false
			t.note("a download was refused: %s", clip(url, maxNote))
		}
	})
}

// hear takes the events of the page. It must not block.
func (t *tab) hear(method string, params []byte) {
	switch method {
	case network.RequestWillBeSent.Method:
		hearing(params, t.began)
	case network.ResponseReceived.Method:
		t.answered(params)
	case network.LoadingFinished.Method, network.LoadingFailed.Method:
		hearing(params, t.ended)
	case page.FrameNavigated.Method:
		hearing(params, func(e frameNavigated) {
			if e.Frame.ParentID == "" {
				t.change(func() { t.navigated(e.Frame) })
			}
		})
	case page.DomContentEventFired.Method:
		t.change(func() { t.dom = t.committed })
	case page.LoadEventFired.Method:
		t.change(func() { t.complete(true) })
	case page.FrameStoppedLoading.Method:
		// A document that stops itself, or leads to a file, has no load event.
		hearing(params, func(e frameMoved) {
			if e.FrameID == string(t.frame) {
				t.change(func() { t.complete(false) })
			}
		})
	case page.FrameRequestedNavigation.Method, scheduledNavigation:
		hearing(params, func(e frameMoved) {
			if !barred(e.URL) && e.FrameID == string(t.frame) && e.Delay <= longestRefresh.Seconds() {
				by := time.Now().Add(time.Duration(e.Delay*float64(time.Second)) + leavePatience)
				t.change(func() { t.leaving, t.leaveBy = true, by })
			}
		})
	case inspector.TargetCrashed.Method:
		t.change(func() { t.crashed = true })
	case inspector.Detached.Method:
		t.change(func() { t.detached = true })
	case page.JavascriptDialogOpening.Method:
		hearing(params, t.dismiss)
	case target.AttachedToTarget.Method:
		hearing(params, t.closePopup)
	case fetch.RequestPaused.Method:
		hearing(params, t.resume)
	}
}

// complete is the end of a document's loading, with a load event or without.
// t.mu is held.
func (t *tab) complete(event bool) {
	if t.committed && !t.loaded {
		t.dom, t.loaded, t.loadedAt, t.stopped = true, true, time.Now(), !event
	}
}

// scheduledNavigation is deprecated, and the only word of a refresh to come.
const scheduledNavigation = "Page.frameScheduledNavigation"

// barred reports whether Chrome lets no page go to a URL; it says so nowhere but
// in the page's console.
func barred(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return slices.Contains([]string{"file", "chrome", "devtools", "view-source"}, strings.ToLower(scheme))
}

// hearing has one event taken, if it can be read.
func hearing[E any](params []byte, take func(E)) {
	var e E
	if decode(params, &e) == nil {
		take(e)
	}
}

func (t *tab) dismiss(e dialogOpening) {
	errand(t.ch, t.session, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: e.Type == "beforeunload"})
	t.change(func() { t.note("a dialog (%s) was dismissed: %s", e.Type, e.Message) })
}

func (t *tab) closePopup(e attachedToTarget) {
	errand(t.ch, "", target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(e.TargetInfo.TargetID)})
	t.change(func() { t.note("a pop-up was closed: %s", e.TargetInfo.URL) })
}

// navigated is a new document in the page. t.mu is held.
func (t *tab) navigated(f frameInfo) {
	if f.UnreachableURL != "" { // Chrome's own page about an error
		if t.committed {
			t.astray, t.doc.url, t.leaving = cmp.Or(t.failure, "net::ERR_FAILED"), f.UnreachableURL, false
		}
		return
	}
	if f.URL == "about:blank" && t.loader == "" && t.doc.status == 0 {
		return
	}
	t.astray = ""
	t.loader, t.committed, t.dom, t.loaded, t.leaving = f.LoaderID, true, false, false, false
	t.active = false
	t.doc.url = f.URL
	if t.doc.mime == "" {
		t.doc.mime = f.MimeType
	}
	for id, r := range t.requests { // of the document before
		if r.counted {
			t.counted--
		}
		delete(t.requests, id)
	}
}

// resume lets a request go on, with the headers of the call if it is for the
// origin that they are for.
func (t *tab) resume(e requestPaused) {
	p := fetch.ContinueRequestParams{RequestID: fetch.RequestID(e.RequestID)}
	if o, err := originOf(e.Request.URL); err == nil && o == t.origin {
		for name, value := range e.Request.Headers {
			if _, own := t.headers[canonical(name)]; !own {
				p.Headers = append(p.Headers, &fetch.HeaderEntry{Name: name, Value: value})
			}
		}
		for name, value := range t.headers {
			p.Headers = append(p.Headers, &fetch.HeaderEntry{Name: name, Value: value})
		}
	}
	errand(t.ch, t.session, fetch.ContinueRequest, p)
}
