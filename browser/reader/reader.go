// Package reader reads one page for a call: by a plain request where that is
// enough, in a browser where it is not, by rule, and says which and why.
//
// The way of a [Reader.Read]:
//
//  1. A page that the tenant read a moment ago is taken again, so that its
//     parts fit together.
//  2. The page is fetched (browser/fetch), whatever comes later: that says what
//     it is, and where it is.
//  3. HTML is converted (browser/page). Where that shows a page that is empty
//     without its scripts, or the call asks for what only a browser does, and the
//     policy lets it, a Chrome loads it (package browser), and what it became is
//     converted instead.
//  4. Where no Chrome can do that, the page is what was fetched, and says so.
package reader

import (
	"context"
	"errors"
	"log/slog"
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

	converting = 4 * time.Second // kept for the conversion; at most a fifth of the call's time
)

// Browser loads pages in a browser. *browser.Pool is one.
type Browser interface {
	Load(ctx context.Context, g policies.Grant, r browser.Request) (*browser.Loaded, error)
}

// Config is what a Reader works with.
type Config struct {
	Fetch   *fetch.Fetcher // required
	Browser Browser        // nil for none
	Log     *slog.Logger   // gets what an operator should know; default none
}

// Query is one page to read.
type Query struct {
	URL        string
	Format     page.Format // empty: markdown
	Selector   string
	Until      browser.Until // empty: the page decides
	Wait       time.Duration
	Whole      bool
	OmitLinks  bool
	OmitImages bool
	ShortLinks bool // in markdown
	Picture    bool // a picture of the page too
	Headers    map[string]string
	Render     string        // "never", "auto" or "always", within what the policy lets; empty: the policy's
	Timeout    time.Duration // of all; 0: DefaultTimeout
	Continue   bool          // a later part of a page that was read before
	// Progress, where set, is called with how far the call is: queued, loading,
	// converting. It must not block.
	Progress func(stage string)
}

// The lanes: the values of Result.Rendered.
const (
	Static = "static"
	Chrome = "chrome"
)

// Result is what became of a page. It is shared and must not be changed.
type Result struct {
	Page *page.Page // nil where Stop or Image is set
	Stop *fetch.Stop
	// Image is what was served where that is an image and not a page.
	Image []byte
	Type  string // media type, as it was served

	URL       string // in the end
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

// New makes a Reader.
func New(cfg Config) (*Reader, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("make page reader: nothing to fetch with")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reader{cfg: cfg, pages: newPages()}, nil
}

// Read reads a page. Its error is a *fetch.Error, a *page.UnsupportedError, a
// *browser.Error, the cause of ctx where that ended, context.DeadlineExceeded
// where the query's time was up before there was text, or what is wrong with an
// option of the query.
func (r *Reader) Read(ctx context.Context, g policies.Grant, q Query) (*Result, error) {
	if q.Timeout == 0 {
		q.Timeout = DefaultTimeout
	}
	if q.Progress == nil {
		q.Progress = func(string) {}
	}
	q.Progress("queued")
	k := keyOf(g, q)
	if kept := r.pages.get(k, q.Continue, time.Now()); kept != nil && stillAllowed(g, q.URL, kept) {
		again := *kept
		again.Cached = true
		return &again, nil
	}
	// The part that has come by the end is converted within the call's time,
	// too.
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
	if res.Page != nil && !q.Picture {
		r.pages.put(k, res, keep, time.Now())
	}
	return res, nil
}

// mode is what the call wants, as far as the policy lets it.
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

// stillAllowed reports whether a kept page may be shown to this call: the
// policy decided about its URL alone, and the page came from elsewhere.
func stillAllowed(g policies.Grant, from string, kept *Result) bool {
	for _, step := range kept.Redirects {
		if g.DecideURL(step.To).Verdict != policies.Allow {
			return false
		}
	}
	return kept.URL == from || g.DecideURL(kept.URL).Verdict == policies.Allow
}
