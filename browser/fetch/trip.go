package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/policies"
)

// trip is one call of Get, from its URL to the last redirect.
type trip struct {
	f       *Fetcher
	g       policies.Grant
	r       Request
	reading policies.Reading
	room    *room
	at      *url.URL
	way     []Redirect
	seen    map[string]bool
	tries   int
}

// key returns a URL in the form in which the cache and the list of seen URLs contain it.
func key(u *url.URL) string { return u.String() }

// get follows URLs until one does not lead to another.
func (t *trip) get(ctx context.Context) (*Response, error) {
	for {
		if err := t.allowedByRobots(ctx); err != nil {
			return nil, t.lost(err)
		}
		h, fromCache, err := t.hop(ctx)
		if err != nil {
			return nil, t.lost(err)
		}
		if h.status == http.StatusUnauthorized || h.status == http.StatusProxyAuthRequired {
			return nil, t.lost(authError(t.at, h))
		}
		to, status := h.leadsTo(t.at)
		if to == "" {
			return t.response(h, fromCache), nil
		}
		stop, err := t.follow(to, status)
		if err != nil {
			return nil, t.lost(err)
		}
		if stop != nil {
			resp := t.response(h, fromCache)
			resp.Stop, resp.Body = stop, nil
			return resp, nil
		}
	}
}

// response returns the last hop in the form for the caller.
func (t *trip) response(h *hop, fromCache bool) *Response {
	return &Response{
		URL: t.at.String(), Status: h.status, ContentType: h.header.Get("Content-Type"), Language: h.header.Get("Content-Language"),
		Filename: attachment(h.header.Get("Content-Disposition")),
		Body:     h.body, Truncated: h.truncated, Partial: h.partial, Redirects: t.way,
		Fetched: h.fetched, Cached: fromCache, Keep: len(t.r.Headers) == 0 && h.keepable() && freshFor(h) == cacheFor, Tries: t.tries,
	}
}

// lost returns err, with the redirects that led to it if it is an Error.
func (t *trip) lost(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Redirects = t.way
		if e.URL == "" && len(t.way) > 0 {
			e.URL = t.at.String()
		}
	}
	return err
}

// follow judges the URL to which a page leads, and goes there. If it does, it returns
// neither a Stop nor an error; otherwise it returns one of them, which says why not.
func (t *trip) follow(to string, status int) (*Stop, error) {
	step := Redirect{From: t.at.String(), To: policies.Clip(to, 2000), Status: status}
	next, err := parse(to)
	if err != nil {
		why := err.Error()
		if e, ok := errors.AsType[*Error](err); ok {
			why = e.Message
		}
		return &Stop{Redirect: step, Why: "The page leads to a URL that is not fetched: " + why + ".", Instead: "use another source"}, nil
	}
	if next.String() == t.at.String() || t.seen[key(next)] {
		return nil, &Error{
			Kind: KindLoop, Message: fmt.Sprintf("the server %s redirects in a circle, back to %s", t.at.Host, policies.Clip(next.String(), 200)),
			Instead: "use another source; pages that do this often require a cookie or a login",
		}
	}
	if len(t.way) >= MaxRedirects {
		return nil, &Error{
			Kind: KindLoop, Message: fmt.Sprintf("%d redirects led to no page; the last one that was followed leads to %s", len(t.way), policies.Clip(t.at.String(), 200)),
			Instead: "use another source",
		}
	}
	step.To = next.String()
	if stop := t.mayGo(step, next); stop != nil {
		return stop, nil
	}
	t.seen[key(next)] = true
	t.way = append(t.way, step)
	if !sameOrigin(t.at, next) {
		t.r.Headers = nil // the headers were for the first host
	}
	t.at = next
	return nil, nil //nolint:nilnil // documented: it was followed
}

// mayGo returns the reason why a redirect is not followed, or nil.
func (t *trip) mayGo(step Redirect, next *url.URL) *Stop {
	again := "call again with that URL, if it is what you want to read"
	switch {
	case t.at.Scheme == "https" && next.Scheme == "http" && !t.reading.Redirects:
		return &Stop{step, "The page leads to a URL without TLS, and such redirects are not followed under this policy.", again}
	case !sameSite(t.at, next) && !t.reading.Redirects:
		return &Stop{step, "The page leads to another host, and such redirects are not followed under this policy.", again}
	case t.r.Judge == nil:
		return &Stop{step, "The page leads to another URL.", again}
	}
	switch d := t.r.Judge(next.String()); d.Verdict {
	case policies.Allow:
		return nil
	case policies.Ask:
		return &Stop{step, fmt.Sprintf("The page leads to a URL for which policy rule %s requires a person's approval.", d.Rule), "call again with that URL; then the person is asked"}
	case policies.Deny:
		instead := strings.TrimSuffix(d.Instead, ".")
		return &Stop{step, fmt.Sprintf("The page leads to a URL that policy rule %s does not allow: %s", d.Rule, d.Reason), instead}
	}
	return &Stop{step, "The page leads to another URL.", again}
}

// sameSite reports whether two URLs are of one host, with or without www. before it, and on
// the ports of their schemes or on the same port.
func sameSite(a, b *url.URL) bool {
	name := func(u *url.URL) string { return strings.TrimPrefix(u.Hostname(), "www.") }
	return name(a) == name(b) && (a.Port() == b.Port() && (a.Scheme == b.Scheme || a.Port() == "") || ownPort(a) && ownPort(b))
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// ownPort reports whether a URL names the port of its scheme, or no port.
func ownPort(u *url.URL) bool {
	switch u.Port() {
	case "":
		return true
	case "80":
		return u.Scheme == "http"
	case "443":
		return u.Scheme == "https"
	}
	return false
}

// authError returns an error if the server requires authentication.
func authError(u *url.URL, h *hop) error {
	scheme, _, _ := strings.Cut(h.header.Get("WWW-Authenticate"), " ")
	how := ""
	if scheme != "" {
		how = " (" + policies.Clip(scheme, 40) + ")"
	}
	return &Error{
		Kind: KindAuth, URL: u.String(), Message: fmt.Sprintf("the server %s requires a login%s, and belljar has none for it: status %d", u.Host, how, h.status),
		Instead: "use a public page, or tell the person you work for that it needs a login",
	}
}

// allowedByRobots asks robots.txt of the host, if the policy wants that.
func (t *trip) allowedByRobots(ctx context.Context) error {
	if !t.reading.Robots {
		return nil
	}
	rules, err := t.robots(ctx)
	if err != nil {
		return err
	}
	path := t.at.EscapedPath()
	if t.at.RawQuery != "" {
		path += "?" + t.at.RawQuery
	}
	if rules.allows(path) {
		return nil
	}
	why := "robots.txt of " + t.at.Host + " does not allow robots to read it"
	if rules.closed {
		why = "robots.txt of " + t.at.Host + " cannot be read, which closes the host to robots"
	}
	return &Error{Kind: KindRobots, Message: why + ", and the policy requires that robots.txt is respected", Instead: "use another source, or tell the person you work for that they can read the page themselves"}
}

// hop returns the answer of one URL, from the cache or from the server.
func (t *trip) hop(ctx context.Context) (*hop, bool, error) {
	now := t.f.cfg.now()
	plain := len(t.r.Headers) == 0 // headers that a call chooses may change the answer
	var kept *cached
	if plain {
		var fresh bool
		kept, fresh = t.room.cache.get(key(t.at), now)
		switch {
		case kept == nil:
		case !kept.hop.serves(t.r.MaxBytes):
			kept = nil // an answer that it has not changed would not bring the rest of it
		case fresh:
			return kept.hop, true, nil
		}
	}
	t.r.Progress("loading")
	h, err := t.ask(ctx, kept)
	if err != nil {
		return nil, false, err
	}
	if h.status == http.StatusNotModified && kept != nil {
		again := *kept.hop
		again.fetched = now
		t.room.cache.put(key(t.at), &again, now)
		return &again, true, nil
	}
	if plain {
		t.room.cache.put(key(t.at), h, now)
	}
	return h, false, nil
}

// serves reports whether a kept answer has as many bytes as the caller wants.
func (h *hop) serves(most int) bool { return !h.truncated && len(h.body) <= most || h.most == most }

// retryWait is the longest Retry-After of a server that is waited for. maxRetries is how
// often a URL is requested again.
const (
	retryWait  = 10 * time.Second
	maxRetries = 2
)

// ask makes the request. It repeats the request if the server says that a second one may
// get another answer, or if it closed the connection.
func (t *trip) ask(ctx context.Context, kept *cached) (*hop, error) {
	for try := 0; ; try++ {
		err := t.room.hosts.turn(ctx, t.at.Host, func(d time.Duration) {
			t.r.Progress(fmt.Sprintf("waiting %v before %s is asked again", d.Round(time.Millisecond), t.at.Host))
		})
		if err != nil {
			return nil, timeUp(ctx, t.at, err)
		}
		t.tries++
		h, err := t.once(ctx, kept)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); try == 0 && ok && e.Kind == KindUnreachable && hungUp(e.Err) {
				continue
			}
			return nil, err
		}
		wait, named, again := h.askAgain(t.f.cfg.now())
		if !again || try >= maxRetries {
			return h, nil
		}
		deadline, ok := ctx.Deadline()
		if wait > retryWait || ok && time.Until(deadline) < wait {
			if !named {
				return h, nil // the server has not asked to come back, so this is its answer
			}
			return nil, &Error{
				Kind: KindLimited, URL: t.at.String(), Retry: wait, Message: fmt.Sprintf("the server %s answered %d and asks to come back in %v", t.at.Host, h.status, wholeSeconds(wait)),
				Instead: "read something else first, and call again after that time",
			}
		}
		t.r.Progress(fmt.Sprintf("waiting %v before %s is asked again", wait.Round(time.Millisecond), t.at.Host))
		if err := pause.For(ctx, wait); err != nil {
			return nil, timeUp(ctx, t.at, err)
		}
	}
}

// timeUp returns an Error if a deadline passed while no request was made.
func timeUp(ctx context.Context, u *url.URL, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return explain(ctx, u, err)
	}
	return err
}
