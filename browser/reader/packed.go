package reader

import (
	"context"
	"errors"

	"belljar.dev/browser/fetch"
	"belljar.dev/policies"
)

// packed has a browser load a page that its server packs as nobody asked for,
// which is brotli as a rule: pages are stored so, and sent so whoever asks. It is
// nil where the error is another, or no browser may or can do that.
func (c *call) packed(ctx context.Context, err error) *Result {
	e, ok := errors.AsType[*fetch.Error](err)
	if !ok || e.Kind != fetch.KindPacked || c.mode == policies.RenderNever || c.r.cfg.Browser == nil {
		return nil
	}
	res, err := c.render(ctx, &Result{URL: e.URL, Redirects: e.Redirects})
	if err != nil {
		c.r.cfg.Log.Warn("a page was not rendered", "err", err)
		return nil
	}
	res.Why = "the server packs the page in a way that is read by browsers only"
	return res
}
