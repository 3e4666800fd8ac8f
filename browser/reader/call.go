package reader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/page"
	"belljar.dev/policies"
)

// call is one Read that goes to the network.
type call struct {
	r     *Reader
	g     policies.Grant
	q     Query
	outer context.Context //nolint:containedctx // lives as long as the call; the deadline of the network is not that of the conversion
	mode  policies.Render
}

// read fetches the page, and renders it if that is wanted. keep says whether later calls
// may get the same result.
func (c *call) read(ctx context.Context) (_ *Result, keep bool, err error) {
	resp, err := c.r.cfg.Fetch.Get(ctx, c.g, fetch.Request{
		URL: c.q.URL, Headers: c.q.Headers, MaxBytes: page.DefaultMaxBytes, Judge: c.g.DecideURL, Progress: c.q.Progress,
	})
	if err != nil {
		if res := c.packed(ctx, err); res != nil {
			return res, false, nil
		}
		return nil, false, err
	}
	res := &Result{
		Stop: resp.Stop, Type: fetch.MediaType(resp.ContentType), URL: resp.URL, Status: resp.Status, Redirects: resp.Redirects,
		Rendered: Static, Partial: resp.Partial, Fetched: resp.Fetched, Cached: resp.Cached,
	}
	switch {
	case resp.Stop != nil:
		return res, false, nil
	case isImage(resp):
		if resp.Truncated {
			return nil, false, tooLarge(resp)
		}
		res.Image = resp.Body
		return res, false, nil
	}
	c.q.Progress("converting")
	res.Page, err = c.convert(resp.Body, resp.ContentType, resp.URL, c.q.Selector, false)
	unmatched := errors.Is(err, page.ErrNoMatch)
	none := err
	if unmatched && c.mode != policies.RenderNever && c.r.cfg.Browser != nil {
		// The selected part may appear only when the page is rendered. The page as a whole
		// shows whether it needs to be.
		res.Page, err = c.convert(resp.Body, resp.ContentType, resp.URL, "", false)
	}
	if err != nil {
		return nil, false, attached(err, resp)
	}
	// The body was bounded before the conversion, so the page does not know that it was
	// cut.
	if resp.Truncated && !res.Page.Truncated {
		whole := *res.Page
		whole.Truncated = true
		res.Page = &whole
	}
	c.lane(ctx, res)
	switch p := res.Page; {
	case p == nil || len(res.Notes) > 0 || res.Partial != "" || strings.TrimSpace(p.Content) != "":
	case len(resp.Body) == 0:
		res.Notes = append(res.Notes, "The server sent nothing: the page is empty.")
	default:
		res.Notes = append(res.Notes, "The page has no text.")
	}
	if ctx.Err() != nil && c.outer.Err() != nil {
		return nil, false, context.Cause(c.outer)
	}
	if unmatched && res.Rendered == Static {
		return nil, false, none
	}
	return res, resp.Keep && res.Partial == "", nil
}

// isImage reports whether an answer is an image: by its type, or else by its first bytes.
func isImage(resp *fetch.Response) bool {
	switch t := fetch.MediaType(resp.ContentType); t {
	case "", "application/octet-stream", "binary/octet-stream":
		return resp.Status < 300 && fetch.IsImage(http.DetectContentType(resp.Body))
	default:
		return resp.Status < 300 && fetch.IsImage(t)
	}
}

func tooLarge(resp *fetch.Response) error {
	return &fetch.Error{
		Kind: fetch.KindType, Type: fetch.MediaType(resp.ContentType), URL: resp.URL,
		Message: fmt.Sprintf("the image has more than %d bytes, or did not arrive in time", page.DefaultMaxBytes), Instead: "look for a smaller one",
	}
}

// attached returns err or, if the server sends the page as a download, an error that says
// so and wraps err.
func attached(err error, resp *fetch.Response) error {
	bad, ok := errors.AsType[*page.UnsupportedError](err)
	if ok && resp.Filename != "" {
		return &fetch.Error{
			Kind: fetch.KindType, Type: bad.Type, URL: resp.URL,
			Message: fmt.Sprintf("the server sends a download, %s (%s), not a page", policies.Clip(fmt.Sprintf("%q", resp.Filename), 120), policies.Clip(bad.Type, 80)),
			Instead: bad.Hint, Err: err,
		}
	}
	return err
}

// convert converts the bytes of a document to a page.
func (c *call) convert(src []byte, contentType, from, selector string, decoded bool) (*page.Page, error) {
	return page.Convert(c.outer, src, page.Options{
		URL: from, ContentType: contentType, Format: c.q.Format, Decoded: decoded, Whole: c.q.Whole, Selector: selector,
		OmitLinks: c.q.OmitLinks, OmitImages: c.q.OmitImages, ShortLinks: c.q.ShortLinks, MaxBytes: page.DefaultMaxBytes, Timeout: min(c.q.Timeout, page.DefaultTimeout),
	})
}

// evidence returns the reason why a browser should render the page, or "".
func (c *call) evidence(p *page.Page) string {
	switch {
	case p.Kind != page.KindHTML:
		return ""
	case c.mode == policies.RenderAlways:
		return "every page is rendered under this policy or by this call"
	case c.q.Picture:
		return "the call asks for a picture"
	case c.q.Wait > 0:
		return "the call asks to wait"
	case c.q.Until != "":
		return "the call says when the page counts as loaded"
	case c.q.Selector != "":
		return "the call has a selector"
	case p.NeedsScript != "":
		return p.NeedsScript
	}
	return ""
}

// lane renders the page if there is evidence that it should be rendered, and writes into
// the result how the page was read and why. If a browser cannot render it, the page stays
// as it was fetched.
func (c *call) lane(ctx context.Context, res *Result) {
	why := c.evidence(res.Page)
	switch {
	case why == "":
		if res.Why = "the server's text is the page"; c.q.Picture || c.q.Wait > 0 {
			res.Notes = append(res.Notes, "Only pages of HTML are rendered, so there is nothing to wait for and no picture.")
		}
		return
	case c.mode == policies.RenderNever:
		res.Why = "nothing is rendered under this policy or by this call"
		c.missing(res, why)
		return
	case c.r.cfg.Browser == nil:
		res.Why = "this server has no browser"
		c.missing(res, why)
		return
	}
	rendered, err := c.render(ctx, res)
	if err == nil {
		rendered.Why = why
		*res = *rendered
		return
	}
	if c.outer.Err() != nil {
		return // the call has ended; read returns the cause
	}
	said := err.Error()
	if e, ok := errors.AsType[*browser.Error](err); ok {
		said = e.Message
	}
	c.r.cfg.Log.Warn("a page was not rendered", "err", err)
	res.Why = "no browser rendered it: " + policies.Clip(said, 300)
	c.missing(res, why)
}

// missing notes what is missing in a page that was not rendered.
func (c *call) missing(res *Result, why string) {
	p := res.Page
	switch {
	case p.NeedsScript != "":
		res.Notes = append(res.Notes, "The page looks as if it were incomplete without a browser ("+p.NeedsScript+"): text may be missing, since "+res.Why+".")
	case c.mode == policies.RenderAlways:
	default:
		res.Notes = append(res.Notes, "Something was not done, since no browser rendered the page: "+why+". The reason: "+res.Why+".")
	}
}

// scrolls is the largest number of times that a page is scrolled to make it load more.
const scrolls = 30

// render loads the page in a browser, and converts the document that results.
func (c *call) render(ctx context.Context, static *Result) (*Result, error) {
	req := browser.Request{
		URL: static.URL, Until: c.q.Until, Wait: c.q.wait(), Selector: c.q.Selector, Scrolls: scrolls, HTML: page.DefaultMaxBytes, Progress: func(s browser.Stage) {
			switch s {
			case browser.StageQueued:
				c.q.Progress("queued")
			case browser.StageReading:
				c.q.Progress("converting")
			case browser.StageStarting, browser.StageLoading:
				c.q.Progress("loading")
			}
		},
	}
	if sameOrigin(c.q.URL, static.URL) {
		req.Headers = c.q.Headers
	}
	if c.q.Picture {
		req.Shot = &browser.Shot{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if req.Timeout = time.Until(deadline); req.Timeout < 50*time.Millisecond {
			return nil, errors.New("there was no time left for it")
		}
	}
	got, err := c.r.cfg.Browser.Load(ctx, c.g, req)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Type: "text/html", URL: got.URL, Status: got.Status, Rendered: Chrome, Partial: got.Partial, Picture: got.Picture,
		Redirects: static.Redirects, Notes: got.Notes, Fetched: time.Now(),
	}
	if res.URL == "" {
		res.URL = static.URL
	}
	if res.Status == 0 {
		res.Status = static.Status
	}
	if stop := c.led(static, got, res); stop != nil {
		res.Stop, res.Picture = stop, nil
		return res, nil
	}
	c.q.Progress("converting")
	if res.Page, err = c.convert([]byte(got.HTML), "text/html; charset=utf-8", res.URL, c.q.Selector, true); err != nil {
		return nil, err
	}
	if got.HTMLSize > len(got.HTML) {
		whole := *res.Page
		whole.Truncated = true
		res.Page = &whole
	}
	if n := len(got.Refused); n > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%d requests of the page were not let through or failed, the first to %s: parts of the page may be missing.", n, policies.Clip(got.Refused[0].URL, 200)))
	}
	if got.Degraded {
		res.Notes = append(res.Notes, "The browser ran without a sandbox of its own, in a box.")
	}
	return res, nil
}

// led judges the URL at which a browser ended, and the HTTP redirects to it, since the page
// has chosen them. The door has judged every connection; led applies the rules about URLs.
func (c *call) led(static *Result, got *browser.Loaded, res *Result) *fetch.Stop {
	steps := make([]fetch.Redirect, 0, len(got.Redirects)+1)
	for _, s := range got.Redirects {
		steps = append(steps, fetch.Redirect{From: s.From, To: s.To, Status: s.Status})
	}
	last := static.URL
	if n := len(steps); n > 0 {
		last = steps[n-1].To
	}
	if withoutFragment(res.URL) != withoutFragment(last) { // its scripts have led the page on
		steps = append(steps, fetch.Redirect{From: last, To: res.URL})
	}
	reading := c.g.Reading()
	for _, step := range steps {
		if !reading.Redirects && withoutTLS(static.URL, step.To) {
			return &fetch.Stop{Redirect: step, Why: "The page leads to a URL without TLS, and such redirects are not followed under this policy.", Instead: "call again with that URL, if it is what you want to read"}
		}
		if !reading.Redirects && !sameHost(static.URL, step.To) {
			return &fetch.Stop{Redirect: step, Why: "The page leads to another host, and such redirects are not followed under this policy.", Instead: "call again with that URL, if it is what you want to read"}
		}
		if d := c.g.DecideURL(step.To); d.Verdict != policies.Allow {
			return &fetch.Stop{
				Redirect: step, Why: fmt.Sprintf("The page leads to a URL that policy rule %s does not let through as it is: %s", d.Rule, d.Reason),
				Instead: "use another source, or call again with that URL",
			}
		}
	}
	res.Redirects = append(slices.Clip(res.Redirects), steps...)
	return nil
}

func withoutFragment(s string) string {
	s, _, _ = strings.Cut(s, "#")
	return s
}

func sameOrigin(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	return err == nil && err2 == nil && u.Scheme == v.Scheme && strings.EqualFold(u.Host, v.Host)
}

// withoutTLS reports whether a page with TLS leads to one without.
func withoutTLS(from, to string) bool {
	u, err := url.Parse(from)
	v, err2 := url.Parse(to)
	return err == nil && err2 == nil && u.Scheme == "https" && v.Scheme != "https"
}

func sameHost(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	return err == nil && err2 == nil && strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.") == strings.TrimPrefix(strings.ToLower(v.Hostname()), "www.")
}
