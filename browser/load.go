package browser

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
)

const (
	// quietTime is how long a page whose scripts have changed it must be quiet before it
	// counts as settled; quickTime is the same for a page whose scripts have changed
	// nothing.
	quietTime = 60 * time.Millisecond
	quickTime = 4 * time.Millisecond
	// bareTime is how long a page with almost no text may take to get text: its scripts may
	// wait for a timer.
	bareTime = 1200 * time.Millisecond
	// mostSettle is the longest wait for a page to settle, from its load event: pages
	// that poll, or show a clock, never settle.
	mostSettle = 2500 * time.Millisecond
	// longestRefresh is the longest delay of a refresh by <meta> that is followed.
	longestRefresh = 3 * time.Second
	leavePatience  = 2 * time.Second
	firstPart      = 1 << 20   // characters of the HTML that are returned with its length
	partSize       = 4 << 20   // characters of each part that follows
	maxNodes       = 1_000_000 // nodes of a page that are read
	maxFrames      = 32
	readTime       = 10 * time.Second // time for the walk over a page, but at most half of the time that is left
)

// errCrashed is the error of a page that has died.
var errCrashed = errors.New("the page crashed")

// visit is the work of one call with a page that it was lent: the page is loaded, waited
// for and read.
type visit struct {
	*tab
	ahead ahead
	early *read // the page as it was when it settled
	lazy  lazy  // how the page may grow when it is scrolled after that
}

// load loads the page of a request and reads it. Everything ends with ctx. If loading is
// out of time, the part that has loaded is read in the rest of the time.
func (v *visit) load(ctx context.Context, r Request, loading time.Time) (*Loaded, error) {
	start := time.Now()
	until, cancel := context.WithDeadline(ctx, loading)
	defer cancel()
	defer v.ahead.drop()
	if err := v.prepare(until, r); err != nil {
		return nil, v.explain(ctx, err, r)
	}
	partial := ""
	err := v.arrive(until, r)
	if err == nil {
		partial, err = v.settle(until, r)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil && errors.Is(until.Err(), context.DeadlineExceeded) && v.hasDocument():
		partial = "the time was up before the page was complete"
		errand(v.ch, v.session, page.StopLoading, cdp.Empty{})
	default:
		return nil, v.explain(ctx, err, r)
	}
	if e := v.refusal(r); e != nil {
		return nil, e
	}
	l := &Loaded{Partial: partial}
	l.Timing.Load = time.Since(start)
	if r.Progress != nil {
		r.Progress(StageReading)
	}
	start = time.Now()
	if r.Shot != nil {
		if l.Picture, err = v.shoot(ctx, r.Shot); err != nil {
			return nil, v.explain(ctx, err, r)
		}
	}
	if err := v.read(ctx, r, l); err != nil {
		return nil, v.explain(ctx, err, r)
	}
	if err := v.nothing(l); err != nil {
		return nil, v.explain(ctx, err, r)
	}
	l.Timing.Read = time.Since(start)
	v.report(l)
	return l, nil
}

// prepare does what must be done before the page begins to load.
func (v *visit) prepare(ctx context.Context, r Request) error {
	if s := r.Shot; s != nil && (s.Width != windowWidth || s.Height != windowHeight) {
		soon, cancel := v.soon(ctx)
		defer cancel()
		_, err := call(soon, v.ch.conn, v.session, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
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
	v.origin, v.headers = origin, map[string]string{}
	for name, value := range r.Headers {
		v.headers[canonical(name)] = value
	}
	_, err = call(ctx, v.ch.conn, v.session, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: origin + "/*"}}})
	return err
}

// arrive makes Chrome load the page, and waits until it has loaded as far as the request
// says.
func (v *visit) arrive(ctx context.Context, r Request) error {
	sign, drop := v.greet(ctx, r)
	defer drop()
	sent := begin(v.ch.conn, v.session, page.Navigate, page.NavigateParams{URL: r.URL})
	if sent.err != nil {
		return sent.err
	}
	defer v.ch.conn.forget(sent.id)
	// The renderer must react quickly twice: to the command, and when the document arrives.
	// Between the two, the server has time until ctx ends.
	hung := v.hung()
	for answer := sent.answer; ; {
		select {
		case <-sign:
			if answer != nil {
				hung = nil
			}
		case <-hung:
			if !v.hasDocument() {
				return errHung
			}
		case m := <-answer:
			went, err := sent.read(m)
			if err == nil && went.ErrorText != "" {
				err = &netError{went.ErrorText}
			}
			if err != nil {
				v.lateDownload(ctx)
				return err
			}
			answer = nil
			hung = v.hung()
		case m := <-v.ahead.world.answer:
			v.ahead.enter(v.tab, m)
		case <-v.changed:
			v.lookAhead(r)
		case <-v.patience():
			v.ahead.drop() // the page may have changed since then
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-v.ch.conn.done:
			return errGone
		}
		if loaded, err := v.loadedUntil(r.Until); err != nil || loaded && answer == nil {
			return err
		}
	}
}

// lateDownload waits at most a tenth of a second for the event that says that the URL led
// to a file: the event arrives on another path than the answer.
func (v *visit) lateDownload(ctx context.Context) {
	end := time.NewTimer(100 * time.Millisecond)
	defer end.Stop()
	for {
		v.mu.Lock()
		known := v.download != "" || v.failure != "net::ERR_ABORTED" && v.failure != "" || v.doc.status == 204
		v.mu.Unlock()
		if known {
			return
		}
		select {
		case <-v.changed:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// netError is an error of the network with the name that Chrome gives it.
type netError struct{ name string }

func (e *netError) Error() string { return e.name }

// settle waits until the page is quiet, at least as long as the request says, and scrolls
// the page. It returns why the page is not complete, if it is not.
func (v *visit) settle(ctx context.Context, r Request) (partial string, err error) {
	since := time.Now()
	if v.mu.Lock(); !v.loadedAt.IsZero() {
		since = v.loadedAt
	}
	v.mu.Unlock()
	least := since.Add(r.Wait)
	most := since.Add(max(mostSettle, r.Wait))
	quiet := r.Until == UntilSettled || r.Wait > 0
	if r.Selector != "" {
		most, _ = ctx.Deadline()
	}
	matches, err := v.quiet(ctx, r, quiet, least, most)
	if err == nil && !matches {
		partial = "nothing on the page matched the selector in time"
	}
	if err == nil {
		err = v.unroll(ctx, r, v.lazy)
	}
	return partial, err
}

// rooted waits until the document has an element before the code after it runs: a new
// document has none until its first part is parsed.
const rooted = "(document.documentElement ? Promise.resolve() : new Promise((f) => {" +
	"new MutationObserver(f).observe(document, { childList: true }); setTimeout(f, 100); })).then(() => "

// read reads the document.
func (v *visit) read(ctx context.Context, r Request, l *Loaded) error {
	d, err := v.early, error(nil)
	for i := 0; d == nil && i < 3; i++ {
		d = new(read)
		if err = v.evaluate(ctx, ourScript()+rooted+"("+reading(ctx, r.HTML)+"))", d); err == nil {
			break
		}
		if d = nil; !moved(err) {
			return err
		}
		// The page has just moved on to another document.
		if err := v.again(ctx, r.Until, time.Now().Add(leavePatience)); err != nil {
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
		if err := v.evaluate(ctx, fmt.Sprintf("globalThis.belljarPart(%d, %d)", at, at+partSize), &part); err != nil {
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

// nothing returns an error if the page has no content because of a fault: a document exists
// from its first header on, but its text may never arrive; and a page that failed to load
// another document while it was read shows Chrome's own error page.
func (v *visit) nothing(l *Loaded) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.astray != "" && strings.HasPrefix(l.URL, "chrome-error:"):
		return &netError{v.astray}
	case l.HTML != "":
	case v.failure != "":
		return &netError{v.failure}
	case l.Partial != "":
		return context.DeadlineExceeded
	}
	return nil
}

// report writes what is known about the page into l.
func (v *visit) report(l *Loaded) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l.URL == "" {
		l.URL = v.doc.url
	}
	l.Status, l.ContentType, l.Headers = v.doc.status, v.doc.mime, maps.Clone(v.doc.headers)
	l.Redirects, l.Notes, l.Refused = slices.Clone(v.redirects), slices.Clone(v.notes), slices.Clone(v.traffic.refused)
	if more := v.noted - len(v.notes); more > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("and %d more such notes", more))
	}
	l.Degraded = v.ch.degraded
}
