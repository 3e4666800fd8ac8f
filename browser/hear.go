package browser

import (
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

// hear handles the events of the page. It must not block.
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

// barred reports whether Chrome refuses to load a URL for a page. Chrome reports that only
// in the page's console.
func barred(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return slices.Contains([]string{"file", "chrome", "devtools", "view-source"}, strings.ToLower(scheme))
}

// hearing calls take with an event, if the event can be decoded.
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

// resume lets a request continue. If the request is for the origin of the call's headers,
// it gets these headers.
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

// scheduledNavigation is a deprecated event, but no other event reports a refresh before it
// happens.
const scheduledNavigation = "Page.frameScheduledNavigation"
