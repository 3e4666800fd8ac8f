package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

const (
	// quietTime is how long a page whose scripts did something must do nothing
	// before it counts as settled; quickTime is the same for a page whose
	// scripts did nothing.
	quietTime = 60 * time.Millisecond
	quickTime = 4 * time.Millisecond
	// bareTime is how long a page with next to no text may take: its scripts may
	// wait for a clock.
	bareTime = 1200 * time.Millisecond
	// mostSettle is the longest wait for a page to settle, from its load event: pages
	// that poll, or show a clock, never settle.
	mostSettle = 2500 * time.Millisecond
	// longestRefresh is how late a refresh by <meta> may come to be followed.
	longestRefresh = 3 * time.Second
	leavePatience  = 2 * time.Second
	firstPart      = 1 << 20   // characters of the HTML that come with its length
	partSize       = 4 << 20   // of those that follow, each
	maxNodes       = 1_000_000 // that are read of a page
	maxFrames      = 32
	readTime       = 10 * time.Second // for the walk over a page, at most half of what is left
)

// errCrashed is the cause where a page died.
var errCrashed = errors.New("the page crashed")

// load loads the page of a request and reads it. All of it ends with ctx; if
// loading is out of time, the part that has loaded is read in the rest of the time.
func (t *tab) load(ctx context.Context, r Request, loading time.Time) (*Loaded, error) {
	start := time.Now()
	until, cancel := context.WithDeadline(ctx, loading)
	defer cancel()
	defer t.ahead.drop()
	if err := t.prepare(until, r); err != nil {
		return nil, t.explain(ctx, err, r)
	}
	partial := ""
	err := t.arrive(until, r)
	if err == nil {
		partial, err = t.settle(until, r)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil && errors.Is(until.Err(), context.DeadlineExceeded) && t.has():
		partial = "the time was up before the page was complete"
		errand(t.ch, t.session, page.StopLoading, cdp.Empty{})
	default:
		return nil, t.explain(ctx, err, r)
	}
	if e := t.refusal(r); e != nil {
		return nil, e
	}
	l := &Loaded{Partial: partial}
	l.Timing.Load = time.Since(start)
	if r.Progress != nil {
		r.Progress(StageReading)
	}
	start = time.Now()
	if r.Shot != nil {
		if l.Picture, err = t.shoot(ctx, r.Shot); err != nil {
			return nil, t.explain(ctx, err, r)
		}
	}
	if err := t.read(ctx, r, l); err != nil {
		return nil, t.explain(ctx, err, r)
	}
	if err := t.nothing(l); err != nil {
		return nil, t.explain(ctx, err, r)
	}
	l.Timing.Read = time.Since(start)
	t.report(l)
	return l, nil
}

// prepare does what must be done before the page begins to load.
func (t *tab) prepare(ctx context.Context, r Request) error {
	if s := r.Shot; s != nil && (s.Width != windowWidth || s.Height != windowHeight) {
		soon, cancel := t.soon(ctx)
		defer cancel()
		_, err := call(soon, t.ch.conn, t.session, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(s.Width), Height: int64(s.Height), DeviceScaleFactor: 1,
		})
		if err != nil {
			return err
		}
	}
	if len(r.Headers) == 0 {
		return nil
	}
	origin, err := originOf(r.URL)
	if err != nil {
		return err
	}
	t.origin, t.headers = origin, map[string]string{}
	for name, value := range r.Headers {
		t.headers[canonical(name)] = value
	}
	_, err = call(ctx, t.ch.conn, t.session, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: origin + "/*"}}})
	return err
}

// arrive has Chrome go to the page, and waits until it is there as far as the
// request says.
func (t *tab) arrive(ctx context.Context, r Request) error {
	sign, drop := t.greet(ctx, r)
	defer drop()
	sent := begin(t.ch.conn, t.session, page.Navigate, page.NavigateParams{URL: r.URL})
	if sent.err != nil {
		return sent.err
	}
	defer t.ch.conn.forget(sent.id)
	// The renderer must react promptly twice: to the command, and when the document
	// arrives. Between the two, the server has until ctx ends.
	hung := t.hung()
	for answer := sent.answer; ; {
		select {
		case <-sign:
			if answer != nil {
				hung = nil
			}
		case <-hung:
			if !t.has() {
				return errHung
			}
		case m := <-answer:
			went, err := sent.read(m)
			if err == nil && went.ErrorText != "" {
				err = &netError{went.ErrorText}
			}
			if err != nil {
				t.lateDownload(ctx)
				return err
			}
			answer = nil
			hung = t.hung()
		case m := <-t.ahead.world.answer:
			t.ahead.enter(t, m)
		case <-t.changed:
			t.lookAhead(r)
		case <-t.patience():
			t.ahead.drop() // it may have gone on since then
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ch.conn.done:
			return errDied
		}
		if there, err := t.there(r.Until); err != nil || there && answer == nil {
			return err
		}
	}
}

// lateDownload waits a moment for the word that what did not become a page is a
// file for the disk: it comes by another way.
func (t *tab) lateDownload(ctx context.Context) {
	end := time.NewTimer(100 * time.Millisecond)
	defer end.Stop()
	for {
		t.mu.Lock()
		known := t.download != "" || t.failure != "net::ERR_ABORTED" && t.failure != "" || t.doc.status == 204
		t.mu.Unlock()
		if known {
			return
		}
		select {
		case <-t.changed:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// netError is an error of the network as Chrome names it.
type netError struct{ name string }

func (e *netError) Error() string { return e.name }

// patience is when a page that was on its way to another is believed to stay.
func (t *tab) patience() <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leaving {
		return nil
	}
	return time.After(time.Until(t.leaveBy))
}

// there reports whether the page is loaded as far as wanted.
func (t *tab) there(until Until) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.crashed, t.detached:
		return false, errCrashed
	case t.astray != "":
		return false, &netError{t.astray}
	case t.onTheWay(), !t.committed:
		return false, nil
	case until == UntilDOM:
		return t.dom, nil
	}
	return t.loaded, nil
}

// onTheWay reports whether the page is about to become another. t.mu is held.
func (t *tab) onTheWay() bool { return t.leaving && time.Now().Before(t.leaveBy) }

// moving is onTheWay for a caller that does not hold t.mu.
func (t *tab) moving() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.onTheWay()
}

// has reports whether there is a document to read.
func (t *tab) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.committed && !t.crashed
}

// settled is the answer of settle.js.
type settled struct {
	Settled bool  `json:"settled"`
	Matches bool  `json:"matches"`
	Active  bool  `json:"active"` // it was waited for as one whose scripts did something
	Bad     bool  `json:"bad"`    // the selector is not valid
	Lazy    lazy  `json:"lazy"`   // how it may be more, if that was wanted
	Page    *read `json:"page"`   // what the page was at that moment, if that was wanted
}

// read is what read.js returns for a document.
type read struct {
	Size  int    `json:"size"`  // in UTF-16
	Bytes int    `json:"bytes"` // in UTF-8, or -1 if all is here
	HTML  string `json:"html"`
	Title string `json:"title"`
	URL   string `json:"url"`
	Cut   string `json:"cut"` // why it is not all
}

// readOptions are those of read.js.
type readOptions struct {
	First  int     `json:"first"`
	Nodes  int     `json:"nodes"`
	Frames int     `json:"frames"`
	Chars  int     `json:"chars"`
	Most   float64 `json:"most"` // milliseconds, and half of what is left until
	By     float64 `json:"by"`   // milliseconds since 1970
}

// reading is the script that reads a page out, for so many bytes of it.
func reading(ctx context.Context, html int) string {
	return "belljar.read(" + argument(readOptions{min(firstPart, html), maxNodes, maxFrames, html, ms(readTime), by(ctx)}) + ")"
}

// by is when a page must have answered, in milliseconds since 1970 as its clock
// shows them.
func by(ctx context.Context) float64 {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(MaxTimeout)
	}
	return float64(end.UnixMilli())
}

// settle waits until the page is quiet, for as long as the request says at
// least, and scrolls it. What it returns says why the page is not complete.
func (t *tab) settle(ctx context.Context, r Request) (partial string, err error) {
	since := time.Now()
	if t.mu.Lock(); !t.loadedAt.IsZero() {
		since = t.loadedAt
	}
	t.mu.Unlock()
	least := since.Add(r.Wait)
	most := since.Add(max(mostSettle, r.Wait))
	quiet := r.Until == UntilSettled || r.Wait > 0
	if r.Selector != "" {
		most, _ = ctx.Deadline()
	}
	matches, err := t.quiet(ctx, r, quiet, least, most)
	if err == nil && !matches {
		partial = "nothing on the page matched the selector in time"
	}
	if err == nil {
		err = t.unroll(ctx, r, t.lazy)
	}
	return partial, err
}

// quiet waits until tree and requests are quiet and the selector matches, and
// reports whether it does. It begins again where the page moved on to another.
func (t *tab) quiet(ctx context.Context, r Request, quiet bool, least, most time.Time) (bool, error) {
	if !quiet && r.Selector == "" {
		return true, nil
	}
	for {
		now := time.Now()
		busy, active, err := t.network()
		if err != nil {
			return false, err
		}
		rest := most.Sub(now)
		if rest <= 0 {
			return r.Selector == "", nil
		}
		o := settleOptions{Selector: r.Selector, Active: active || busy, Most: ms(rest), Least: ms(max(least.Sub(now), 0))}
		if quiet {
			o.Quiet, o.Quick, o.Bare = ms(quietTime), ms(quickTime), ms(bareTime)
		}
		var s *settled
		if look := t.takeLook(); look.answer != nil {
			err = t.result(ctx, look, &s)
		} else {
			err = t.evaluate(ctx, ourScript+settling(ctx, r, o, maxNodes), &s)
		}
		switch {
		case err == nil && s == nil:
			continue // it did not look ahead
		case err == nil && s.Bad:
			return false, &Error{Kind: KindRefused, Message: "the browser cannot read the selector as CSS; correct it, or leave it out"}
		case err == nil && !s.Settled:
			return s.Matches, nil
		case err != nil && !moved(err):
			return false, err
		case err != nil || t.moving(): // the word of a refresh comes with the load event
			if err := t.again(ctx, r.Until, most); err != nil {
				return false, err
			}
			continue
		}
		if busy, active, _ = t.network(); !quiet || !busy && (s.Active || !active) {
			t.early, t.lazy = s.Page, s.Lazy
			return true, nil
		}
		if err := t.silence(ctx, most); err != nil {
			return false, err
		}
	}
}

// settling is the script that waits until a page has settled, and reads it out if
// it has no more than so many elements: one way instead of two, and what is read
// is what was settled.
func settling(ctx context.Context, r Request, o settleOptions, most int) string {
	var tell []string
	o.By = by(ctx)
	if r.Scrolls > 0 {
		tell = append(tell, "lazy: belljar.lazy()")
	}
	if r.Shot == nil && r.HTML > 0 {
		tell = append(tell, fmt.Sprintf("page: document.getElementsByTagName('*').length <= %d ? %s : null", most, reading(ctx, r.HTML)))
	}
	return "belljar.settle(" + argument(o) + ", () => ({" + strings.Join(tell, ", ") + "}))"
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// settleOptions are those of settle.js, times in milliseconds.
type settleOptions struct {
	Selector string  `json:"selector"`
	Active   bool    `json:"active"`
	Quiet    float64 `json:"quiet"`
	Quick    float64 `json:"quick"`
	Bare     float64 `json:"bare"` // for a page without text
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
	By       float64 `json:"by"`   // milliseconds since 1970
	Load     bool    `json:"load"` // the load event is waited for first
}

func argument(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null" // of our own types, which can be written
	}
	return string(text)
}

// network reports whether requests are under way that the page waits for, or
// were a moment ago, and whether its scripts made some.
func (t *tab) network() (busy, active bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashed || t.detached {
		return false, false, errCrashed
	}
	busy = t.counted > 0 || t.active && time.Since(t.lastNet) < quietTime
	return busy, t.active, nil
}

// silence waits until no request is under way.
func (t *tab) silence(ctx context.Context, most time.Time) error {
	end := time.NewTimer(time.Until(most))
	defer end.Stop()
	for {
		busy, _, err := t.network()
		if err != nil || !busy {
			return err
		}
		select {
		case <-t.changed:
		case <-time.After(quietTime / 2):
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ch.conn.done:
			return errDied
		}
	}
}

// again waits until the page that replaced the last one is loaded as far as wanted.
func (t *tab) again(ctx context.Context, until Until, most time.Time) error {
	end := time.NewTimer(time.Until(most))
	defer end.Stop()
	for {
		there, err := t.there(until)
		if err != nil || there {
			return err
		}
		select {
		case <-t.changed:
		case <-t.patience():
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ch.conn.done:
			return errDied
		}
	}
}

// moved reports whether a script failed because its document was replaced.
func moved(err error) bool {
	p, ok := errors.AsType[*protocolError](err)
	return ok && (p.Code == -32000 || strings.Contains(p.Message, "navigated") || strings.Contains(p.Message, "context"))
}

// evaluate runs a script in our world of the page's document and reads what it
// says. A promise is waited for.
func (t *tab) evaluate(ctx context.Context, script string, into any) error {
	ours, err := t.enter().wait(ctx)
	if err != nil {
		return t.cause(err)
	}
	return t.result(ctx, t.run(ours.ExecutionContextID, script), into)
}

// enter asks for our world of the present document.
func (t *tab) enter() pending[page.CreateIsolatedWorldResult] {
	return begin(t.ch.conn, t.session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: t.frame, WorldName: world})
}

// run begins to run a script in one of our worlds.
func (t *tab) run(where runtime.ExecutionContextID, script string) pending[runtime.EvaluateResult] {
	return begin(t.ch.conn, t.session, runtime.Evaluate, runtime.EvaluateParams{
		Expression: script, ContextID: where, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
	})
}

// result waits for a script and decodes its value.
func (t *tab) result(ctx context.Context, script pending[runtime.EvaluateResult], into any) error {
	answer, err := script.wait(ctx)
	if err != nil {
		return t.cause(err)
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("run script: %s", describe(answer.ExceptionDetails))
	}
	if answer.Result == nil || into == nil {
		return nil
	}
	if err := jsonv2.Unmarshal(answer.Result.Value, into, jsonOptions); err != nil {
		return fmt.Errorf("read what a script said: %w", err)
	}
	return nil
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return clip(e.Exception.Description, maxNote)
	}
	return clip(e.Text, maxNote)
}

// cause is err, or why Chrome does not answer any more.
func (t *tab) cause(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashed || t.detached {
		return errCrashed
	}
	return err
}

// rooted has what follows done when the document has an element: one that is
// just there has none until its first part is parsed.
const rooted = "(document.documentElement ? Promise.resolve() : new Promise((f) => {" +
	"new MutationObserver(f).observe(document, { childList: true }); setTimeout(f, 100); })).then(() => "

// read reads the document out.
func (t *tab) read(ctx context.Context, r Request, l *Loaded) error {
	d, err := t.early, error(nil)
	for i := 0; d == nil && i < 3; i++ {
		d = new(read)
		if err = t.evaluate(ctx, ourScript+rooted+"("+reading(ctx, r.HTML)+"))", d); err == nil {
			break
		}
		if d = nil; !moved(err) {
			return err
		}
		// It moved on to another page just now.
		if err := t.again(ctx, r.Until, time.Now().Add(leavePatience)); err != nil {
			return err
		}
	}
	if d == nil {
		return err
	}
	var html strings.Builder
	html.WriteString(d.HTML)
	for at := min(firstPart, r.HTML); at < d.Size && html.Len() < r.HTML; at += partSize {
		var part string
		if err := t.evaluate(ctx, fmt.Sprintf("globalThis.belljarPart(%d, %d)", at, at+partSize), &part); err != nil {
			return err
		}
		html.WriteString(part)
	}
	l.HTML, l.HTMLSize, l.Title = html.String(), max(d.Bytes, html.Len()), d.Title
	if len(l.HTML) > r.HTML {
		l.HTML = strings.ToValidUTF8(l.HTML[:r.HTML], "")
	}
	if d.URL != "" {
		l.URL = d.URL
	}
	if why := map[string]string{
		"time": "the page is too large to be read whole in time", "text": fmt.Sprintf("the page has more than %d bytes", r.HTML),
		"elements": fmt.Sprintf("the page has more than %d elements", maxNodes),
	}[d.Cut]; why != "" && l.Partial == "" {
		l.Partial = why
	}
	return nil
}

// nothing is why there is nothing of a page, if that is a fault: a document is
// there from its first header on, and its text may never come; and one that went
// astray while it was read has left Chrome's own page about that.
func (t *tab) nothing(l *Loaded) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.astray != "" && strings.HasPrefix(l.URL, "chrome-error:"):
		return &netError{t.astray}
	case l.HTML != "":
	case t.failure != "":
		return &netError{t.failure}
	case l.Partial != "":
		return context.DeadlineExceeded
	}
	return nil
}

// report adds what is known of the page.
func (t *tab) report(l *Loaded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.URL == "" {
		l.URL = t.doc.url
	}
	l.Status, l.ContentType, l.Headers = t.doc.status, t.doc.mime, maps.Clone(t.doc.headers)
	l.Redirects, l.Notes, l.Refused = slices.Clone(t.redirects), slices.Clone(t.notes), slices.Clone(t.refused)
	if more := t.noted - len(t.notes); more > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("and %d more of that kind", more))
	}
	l.Degraded = t.ch.degraded
}
