package reader

import (
	"context"
	"errors"

	"belljar.dev/browser/fetch"
	"belljar.dev/policies"
)

// packed loads in a browser a page that its server compressed in a way that the
// request did not offer. That is mostly brotli: some servers store pages compressed, and
// send them so to every client. packed returns nil for any other error, and if no
// browser may or can load the page.
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
	res.Why = "the server compresses the page in a way that only browsers support"
	return res
}
