package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"belljar.dev/sandbox/egress"
	"belljar.dev/search/engine"
)

const (
	// requestsMost bounds the requests of one exchange, and redirectsMost the redirects
	// that are followed for one request.
	requestsMost  = 5
	redirectsMost = 4
)

// heard is the answer of one engine, with what is recorded about it.
type heard struct {
	parsed engine.Parsed
	took   time.Duration
	status int // HTTP status of the last answer; 0 before the first answer
	lane   string
}

// failed returns the result for an engine that gave no answer. The text must not contain
// the query: error texts of net/http contain it, and those of a server can.
func failed(o engine.Outcome, format string, args ...any) heard {
	return heard{parsed: engine.Parsed{Outcome: o, Detail: fmt.Sprintf(format, args...)}}
}

// ask runs a query through one engine. It returns soon after ctx has ended. Whatever the
// engine sends, the result is an outcome, even if a rule of its file panics.
func (f *Fan) ask(ctx context.Context, door Door, p *plan, e *engine.Engine) (a heard) {
	start := time.Now()
	defer func() {
		if recover() != nil {
			// The recovered value is not logged: it may contain text of a page.
			f.cfg.Log.Error("a rule of an engine panicked", "engine", e.Name, "file", e.Source)
			a = failed(engine.Drift, "its rules failed")
		}
		a.took = time.Since(start)
	}()
	x, err := e.Exchange(p.query.forEngine(), p.keys)
	if err != nil {
		return failed(engine.None, "%v", err)
	}
	hosts := hostsOf(e, p.keys)
	client := f.client(door, p.grant.Tenant(), e, hosts)
	cut := false
	for range requestsMost {
		req, more := x.Next()
		if !more {
			a.parsed = x.Parsed()
			if o := a.parsed.Outcome; cut && (o == engine.Drift || o == engine.BlockedSoft || o == engine.None) {
				a.parsed = engine.Parsed{Outcome: engine.HTTPError, Detail: "its answer ended too early"}
			}
			return a
		}
		resp, err := f.send(ctx, client, hosts, req)
		if err != nil {
			return because(ctx, err, a.status)
		}
		a.status, cut = resp.Status, resp.Truncated
		if err := f.parse(ctx, func() { x.Answer(resp) }); err != nil {
			return because(ctx, err, a.status)
		}
	}
	return failed(engine.Drift, "it needs more than %d requests for one answer", requestsMost)
}

// parse runs CPU-bound work. As many calls run at the same time as there are processors.
func (f *Fan) parse(ctx context.Context, work func()) error {
	select {
	case f.parsing <- struct{}{}:
		defer func() { <-f.parsing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	work()
	return nil
}

// because returns the result for an error of a request.
func because(ctx context.Context, err error, status int) heard {
	var a heard
	refused, ok := errors.AsType[*egress.Refused](err)
	switch {
	case ok && refused.ByLimit():
		a = failed(engine.DisabledByPolicy, "%s", refused.Record.Reason)
	case ok:
		a = failed(engine.DisabledByPolicy, "")
	case errors.Is(err, egress.ErrClosed):
		a = failed(engine.HTTPError, "belljar stops")
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		a = failed(engine.Timeout, "it did not answer in time")
	case errors.Is(err, errRedirects):
		a = failed(engine.HTTPError, "it redirects in a circle")
	case errors.Is(err, errHost):
		a = failed(engine.Drift, "its rules lead to a host that is not its own")
	default:
		a = failed(engine.HTTPError, "it could not be reached")
	}
	a.status = status
	return a
}

var (
	errRedirects = errors.New("too many redirects")
	errHost      = errors.New("a host that is not the engine's")
)

// client returns the HTTP client for the requests to one engine for one tenant. It goes to
// the engine's hosts only and has its own cookies.
func (f *Fan) client(door Door, tenant string, e *engine.Engine, hosts []string) *http.Client {
	c := *door.Client()
	c.Jar = f.cookies.of(e.Name, tenant)
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case !mayAsk(hosts, req.URL):
			return http.ErrUseLastResponse // the redirect itself is the answer: its address may show a block
		case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
			return http.ErrUseLastResponse
		case len(via) > redirectsMost:
			return errRedirects
		}
		req.Header.Del("Referer") // net/http would send the previous address, which contains the query
		return nil
	}
	return &c
}

// mayAsk reports whether the host of an address is one of hosts.
func mayAsk(hosts []string, u *url.URL) bool {
	if u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(hosts, func(h string) bool {
		if strings.HasPrefix(h, "*.") {
			return under(host, h) && host != h[2:]
		}
		return host == strings.ToLower(h)
	})
}

// hostsOf returns the hosts of an engine, with the host of the operator's own instance.
func hostsOf(e *engine.Engine, keys engine.Keys) []string {
	if e.NeedsURL == "" {
		return e.Hosts
	}
	if u, err := url.Parse(keys[e.NeedsURL]); err == nil && u.Hostname() != "" {
		return append(slices.Clip(e.Hosts), u.Hostname())
	}
	return e.Hosts
}

// send makes one request and reads at most MaxBody bytes of the answer.
func (f *Fan) send(ctx context.Context, client *http.Client, hosts []string, r engine.Request) (engine.Response, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil || !mayAsk(hosts, req.URL) {
		return engine.Response{}, errHost
	}
	req.Header.Set("User-Agent", f.cfg.UserAgent)
	req.Header.Set("Accept-Language", "en-US,en;q=0.9")
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	// Without this header, the transport asks for gzip itself and unpacks the answer.
	req.Header.Del("Accept-Encoding")
	resp, err := client.Do(req)
	if err != nil {
		return engine.Response{}, err
	}
	defer resp.Body.Close()
	out := engine.Response{Status: resp.StatusCode, Header: resp.Header, FinalURL: resp.Request.URL.String()}
	var text bytes.Buffer
	// Pages of an engine have similar sizes, so room is made at the start: growing the
	// buffer step by step would copy it several times.
	text.Grow(f.sizes.guess(req.URL.Hostname(), resp.ContentLength))
	n, err := io.Copy(&text, io.LimitReader(resp.Body, engine.MaxBody+1))
	if ctx.Err() != nil {
		return engine.Response{}, context.Cause(ctx)
	}
	// A body that breaks off is kept as far as it was read: the results in it are valid.
	out.Truncated = err != nil || n > engine.MaxBody
	f.sizes.saw(req.URL.Hostname(), n)
	out.Body = text.Bytes()[:min(n, engine.MaxBody)]
	return out, nil
}
