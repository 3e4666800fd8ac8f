// Package reader reads one page for a call: by a plain request if that is enough, and
// otherwise in a browser. Rules decide that, and the result says which way was used and
// why.
//
// The way of a [Reader.Read]:
//
//  1. If the tenant has read the page shortly before, the same result is used
//     again, so that its parts fit together.
//  2. The page is fetched (browser/fetch) in any case: that shows what it is,
//     and where it is.
//  3. HTML is converted (browser/page). If the page is empty without its
//     scripts, or the call asks for something that only a browser can do, and
//     the policy allows it, a Chrome loads the page (package browser), and the
//     result is converted instead.
//  4. If no Chrome can do that, the result is the page as it was fetched, and
//     says so.
package reader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/page"
	"belljar.dev/policies"
)

// The bounds of a call's time.
const (
	DefaultTimeout = 30 * time.Second
	MinTimeout     = 500 * time.Millisecond
	MaxTimeout     = 2 * time.Minute

	converting = 4 * time.Second // part of the time that is kept for the conversion; at most a fifth of the call's time
)

// Browser loads pages in a browser. *browser.Pool is a Browser.
type Browser interface {
	Load(ctx context.Context, g policies.Grant, r browser.Request) (*browser.Loaded, error)
}

// Config configures a Reader.
type Config struct {
	Fetch   *fetch.Fetcher // required
	Browser Browser        // nil without a browser
	Log     *slog.Logger   // gets what an operator should know; if nil, nothing is logged
}

// Query is one page to read.
type Query struct {
	URL        string
	Format     page.Format // empty means markdown
	Selector   string
	Until      browser.Until // if empty, the page decides
	Wait       time.Duration
	MostWait   time.Duration // bound of Wait for this call, which still reads on in pages of the same Wait; 0 means no bound
	Whole      bool
	OmitLinks  bool
	OmitImages bool
	ShortLinks bool // for markdown
	Picture    bool // whether a picture of the page is taken as well
	Headers    map[string]string
	Render     string        // "never", "auto" or "always", as far as the policy allows it; if empty, the policy decides
	Timeout    time.Duration // time for the whole call; 0 means DefaultTimeout
	Continue   bool          // whether a later part of a page is read that was read before
	// Progress, if it is not nil, is called with the stage of the call: queued, loading,
	// converting. It must not block.
	Progress func(stage string)
}

// The lanes: the values of Result.Rendered.
const (
	Static = "static"
	Chrome = "chrome"
)

// Result is the result of a Read. It is shared and must not be changed.
type Result struct {
	Page *page.Page // nil if Stop or Image is set
	Stop *fetch.Stop
	// Image is the answer of the server, if that is an image and not a page.
	Image []byte
	Type  string // media type as it was served

	URL       string // URL of the page after redirects
	Status    int
	Redirects []fetch.Redirect
	Rendered  string // Static or Chrome
	Why       string // the reason for that lane, in a few words
	Partial   string // why the rest is missing; empty if nothing is
	Picture   []byte // PNG
	Notes     []string
	Fetched   time.Time
	Cached    bool
}

// Reader reads pages. Its methods are safe for concurrent use.
type Reader struct {
	cfg   Config
	pages *pages
}

// New returns a Reader.
func New(cfg Config) (*Reader, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("make page reader: no fetcher")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, pages: newPages()}, nil
}

// Read reads a page. Its error is a *fetch.Error, a *page.UnsupportedError, a
// *browser.Error, the cause of ctx if ctx has ended, context.DeadlineExceeded if the
// query's time was up before there was text, or an error about an option of the query.
func (r *Reader) Read(ctx context.Context, g policies.Grant, q Query) (*Result, error) {
	if q.Timeout == 0 {
		q.Timeout = DefaultTimeout
	}
	if q.Progress == nil {
		q.Progress = func(string) {}
	}
	q.Progress("queued")
	k := keyOf(g, q)
	if kept := r.kept(k, q.Continue); kept != nil && stillAllowed(g, q.URL, kept) {
		again := *kept
		again.Cached = true
		if q.Picture {
			again.Notes = append(slices.Clip(again.Notes), "A picture is taken only with the first part of a page.")
		}
		return &again, nil
	}
	// The part that has arrived when the time is up is converted within the call's time as
	// well.
	ctx, stop := context.WithTimeout(ctx, q.Timeout)
	defer stop()
	network, cancel := context.WithTimeout(ctx, q.Timeout-min(q.Timeout/5, converting))
	defer cancel()
	c := &call{r: r, g: g, q: q, outer: ctx, mode: mode(g.Reading().Render, q.Render)}
	res, keep, err := c.read(network)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if res.Page != nil {
		kept := *res
		kept.Picture = nil // a call that reads on does not get it again
		r.pages.put(k, &kept, keep && !q.Picture && q.wait() == q.Wait, time.Now())
		if q.Picture && r.differs(k, res.Page) {
			res.Notes = append(res.Notes, "The page was read before, with another text. To read on in the text of this result, ask for a picture again; a call without one reads on in the earlier text.")
		}
	}
	return res, nil
}

// kept returns the page that a call gets without reading it, or nil. A call that reads on
// gets the page of the calls that, like it, asked for a picture or did not; without such a
// page, it gets the other one.
func (r *Reader) kept(k pageKey, reads bool) *Result {
	if k.picture && !reads {
		return nil
	}
	now := time.Now()
	kept := r.pages.get(k, reads, now)
	if kept == nil && reads {
		k.picture = !k.picture
		kept = r.pages.get(k, true, now)
	}
	return kept
}

// differs reports whether the page of a call with a picture has another text than the page
// that is kept for calls without one.
func (r *Reader) differs(k pageKey, p *page.Page) bool {
	k.picture = false
	plain := r.pages.get(k, true, time.Now())
	return plain != nil && plain.Page.Content != p.Content
}

// wait returns the time that a page is given after it has loaded.
func (q *Query) wait() time.Duration {
	if q.MostWait > 0 {
		return min(q.Wait, q.MostWait)
	}
	return q.Wait
}

// mode returns the mode that the call wants, as far as the policy allows it.
func mode(policy policies.Render, asked string) policies.Render {
	switch {
	case policy == policies.RenderNever || asked == "never":
		return policies.RenderNever
	case asked == "always":
		return policies.RenderAlways
	case asked == "auto":
		return policies.RenderAuto
	}
	return policy
}

// stillAllowed reports whether a kept page may be shown to this call: the policy has only
// decided about the call's URL, and the page may come from another URL.
func stillAllowed(g policies.Grant, from string, kept *Result) bool {
	for _, step := range kept.Redirects {
		if g.DecideURL(step.To).Verdict != policies.Allow {
			return false
		}
	}
	return kept.URL == from || g.DecideURL(kept.URL).Verdict == policies.Allow
}
