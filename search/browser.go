package search

import (
	"context"
	"net/http"
	"time"

	"belljar.dev/search/engine"
)

// browserTime bounds the browser lane, which begins after the first lane has ended.
const browserTime = 8 * time.Second

// browse opens the page of a query in the browser. The engine's first request must be a
// page with an address.
func (f *Fan) browse(ctx context.Context, p *plan, e *engine.Engine) (a heard) {
	start := time.Now()
	defer func() {
		if recover() != nil {
			f.cfg.Log.Error("a rule of an engine panicked", "engine", e.Name, "file", e.Source)
			a = failed(engine.Drift, "its rules failed")
		}
		a.took, a.lane = time.Since(start), laneBrowser
	}()
	ctx, cancel := context.WithTimeout(ctx, browserTime)
	defer cancel()
	address, ok := p.address(e)
	if !ok {
		return failed(engine.None, "it has no page for a browser")
	}
	resp, err := f.cfg.Browser.Open(ctx, p.grant, address)
	if err != nil {
		return because(ctx, err, 0)
	}
	if len(resp.Body) > engine.MaxBody {
		resp.Body, resp.Truncated = resp.Body[:engine.MaxBody], true
	}
	if err := f.parse(ctx, func() { a.parsed = e.Parse(resp) }); err != nil {
		return because(ctx, err, resp.Status)
	}
	a.status = resp.Status
	return a
}

// laneBrowser is the value of Asked.Lane for the browser lane.
const laneBrowser = "browser"

// address returns the address of the page for a query. It returns false if the engine's
// first request is not a plain GET, which a browser can make by itself.
func (p *plan) address(e *engine.Engine) (string, bool) {
	x, err := e.Exchange(p.query.forEngine(), p.keys)
	if err != nil {
		return "", false
	}
	r, more := x.Next()
	if !more || r.Method != http.MethodGet || r.Body != nil {
		return "", false
	}
	return r.URL, true
}
