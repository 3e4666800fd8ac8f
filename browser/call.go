package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// Load loads one page and reads it out. Errors are of type *Error.
//
// It returns at the request's timeout or at the end of ctx, or shortly after, because some
// work must first be ended. It returns the page, the part of the page that has loaded
// (Loaded.Partial), or an error. The end of ctx closes the page immediately.
func (p *Pool) Load(ctx context.Context, g policies.Grant, r Request) (*Loaded, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if g.Network() == policies.NetworkNone {
		return nil, &Error{Kind: KindForbidden, Message: fmt.Sprintf("profile %q has no network, so no page can be loaded; ask for a profile that has a network", g.Profile())}
	}
	var l *Loaded
	queue, err := p.lend(ctx, g, false, r.Timeout, r.Progress, func(ctx context.Context, t *tab, attempt int, cold bool) error {
		progress(r, StageLoading)
		by, _ := ctx.Deadline()
		var err error
		if l, err = (&visit{tab: t}).load(ctx, r, by.Add(-reserve(r.Timeout))); err == nil {
			l.Retried, l.Timing.Cold = attempt > 0, cold
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Timing.Queue = queue
	l.Timing.Total = queue + l.Timing.Load + l.Timing.Read
	return l, nil
}

// reserve is the part of a timeout that is reserved for reading the page after
// loading has used up the rest.
func reserve(timeout time.Duration) time.Duration {
	return min(2*time.Second, max(timeout/5, 100*time.Millisecond))
}

func progress(r Request, s Stage) {
	if r.Progress != nil {
		r.Progress(s)
	}
}

// lend calls work with a page, and once more if the page or its Chrome died. A Chrome that
// dies before the page exists does not count as a try, and neither does a page that does
// not answer, but three of these faults end the call. lend returns how long the caller
// waited for the page.
func (p *Pool) lend(ctx context.Context, g policies.Grant, offline bool, timeout time.Duration, tell func(Stage), work func(ctx context.Context, t *tab, attempt int, cold bool) error) (queue time.Duration, err error) {
	if !p.enter() {
		return 0, errClosed()
	}
	defer p.wg.Done()
	ctx, cancel := p.alive(ctx)
	defer cancel(nil)
	start := time.Now()
	if tell != nil {
		tell(StageQueued)
	}
	if err := p.turns.take(ctx, g.Tenant()); err != nil {
		return 0, p.givenUp(err)
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	held := true
	defer func() {
		if held {
			p.turns.give()
		}
	}()
	worked, trusted := 0, false
	for attempt := 0; ; attempt++ {
		box, err := p.boxGrant(g, policies.BrowserBox{Offline: offline})
		if err != nil {
			return 0, err
		}
		t, cold, err := p.borrow(ctx, box, tell)
		if err == nil {
			queue = time.Since(start)
			t.trusted = trusted
			if err = work(ctx, t, worked, cold); errors.Is(err, errHung) {
				trusted = true
				p.distrust(t.ch)
			} else {
				worked++
			}
			held = false
			p.release(ctx, t)
		}
		if err == nil {
			return queue, nil
		}
		if attempt < 2 && worked < 2 && ctx.Err() == nil && p.worthAgain(err, box, g) {
			if !held {
				if err := p.turns.take(ctx, g.Tenant()); err != nil {
					return 0, p.givenUp(err)
				}
				held = true
			}
			continue
		}
		return 0, p.final(ctx, err)
	}
}

// worthAgain reports whether the same call may succeed in another Chrome or another kind of
// box.
func (p *Pool) worthAgain(err error, box, g policies.Grant) bool {
	kind := KindOf(err)
	if kind == KindAbsent {
		if box.NestsNamespaces() && g.Browser() == policies.BrowserDegraded {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.bare == nil && errors.Is(err, errNotNested) {
				p.bare = err
				p.cfg.Log.Warn("browsers run without a sandbox of their own on this host", "err", err)
				return true
			}
		}
		return false
	}
	return kind == KindCrashed || errors.Is(err, errGone) || errors.Is(err, sandbox.ErrClosed)
}

// final returns the error for the caller.
func (p *Pool) final(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*Error](context.Cause(ctx)); ok {
		return e // the pool is closed
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, errGone), errors.Is(err, sandbox.ErrClosed):
		return &Error{Kind: KindCrashed, Message: "the browser died before it could load the page; call again", Err: err}
	case ctx.Err() != nil:
		return p.givenUp(err)
	}
	return &Error{Kind: KindBroken, Message: "the browser could not load the page", Err: err}
}

func (p *Pool) givenUp(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: KindTimedOut, Message: "the time was up before a browser was free for the page; call again in a moment", Err: err}
}

// boxGrant returns the grant of the box in which the page is loaded. It sets b.Nested
// itself.
func (p *Pool) boxGrant(g policies.Grant, b policies.BrowserBox) (policies.Grant, error) {
	p.mu.Lock()
	b.Nested = p.bare == nil || g.Browser() != policies.BrowserDegraded
	p.mu.Unlock()
	box, err := g.ForBrowser(b)
	if err != nil {
		return policies.Grant{}, &Error{Kind: KindForbidden, Err: err, Message: fmt.Sprintf("profile %q has no browser, so pages are read as the server sends them, without their scripts; the policy grants one with: browser: sandboxed", g.Profile())}
	}
	return box, nil
}

// enter counts a call, unless the pool is closed.
func (p *Pool) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wg.Add(1)
	}
	return !p.closed
}

// release returns a page to the pool, and its turn after that. The caller does not wait for
// it, and no more pages are open than there are turns.
func (p *Pool) release(ctx context.Context, t *tab) {
	p.wg.Go(func() {
		defer p.turns.give()
		p.back(ctx, t.ch, t)
	})
}

// schemes are the schemes of URLs that may be loaded. For other schemes, Chrome would read
// the files of its box, or show pages of its own.
var schemes = []string{"http", "https"}

// check refuses a request that is not valid, and sets the defaults.
func (r *Request) check() error {
	refuse := func(format string, args ...any) error {
		return &Error{Kind: KindRefused, Message: fmt.Sprintf(format, args...)}
	}
	scheme, rest, _ := strings.Cut(r.URL, ":")
	u, err := parseURL(r.URL)
	orElse(&r.Until, UntilSettled)
	orElse(&r.Timeout, DefaultTimeout)
	orElse(&r.HTML, DefaultHTML)
	switch {
	case !slices.Contains(schemes, strings.ToLower(scheme)) || !strings.HasPrefix(rest, "//"):
		return refuse("only addresses that begin with http:// or https:// are loaded, not %s", clip(r.URL, maxNote))
	case err != nil:
		return refuse("%s is not the address of a page: %v", clip(r.URL, maxNote), err)
	case u.User != nil:
		return refuse("the address contains a user or a password; remove it")
	case !slices.Contains([]Until{UntilSettled, UntilLoad, UntilDOM}, r.Until):
		return refuse("wait_until is %q; write settled, load or domcontentloaded", clip(string(r.Until), 40))
	case r.Wait < 0 || r.Wait > MaxWait:
		return refuse("wait_ms is %d; it goes from 0 to %d", r.Wait.Milliseconds(), MaxWait.Milliseconds())
	case r.Timeout < 0 || r.Timeout > MaxTimeout:
		return refuse("timeout_ms is %d; it goes from 1 to %d", r.Timeout.Milliseconds(), MaxTimeout.Milliseconds())
	case len(r.Selector) > MaxSelector:
		return refuse("the selector has %d bytes; it may have %d", len(r.Selector), MaxSelector)
	case len(r.Headers) > MaxHeaders:
		return refuse("the call has %d headers; it may have up to %d", len(r.Headers), MaxHeaders)
	case r.Scrolls < 0 || r.Scrolls > MaxScrolls:
		return refuse("scrolls is %d; it goes from 0 to %d", r.Scrolls, MaxScrolls)
	case r.HTML < 0 || r.HTML > MaxHTML:
		return refuse("the limit of HTML is %d bytes; it goes up to %d", r.HTML, MaxHTML)
	}
	for name, value := range r.Headers {
		if !validHeader(name, value) {
			return refuse("the header %q has a name or value that HTTP does not allow", clip(name, 60))
		}
	}
	if s := r.Shot; s != nil {
		own := *s
		orElse(&own.Width, windowWidth)
		orElse(&own.Height, windowHeight)
		if own.Width < 1 || own.Width > maxWindow || own.Height < 1 || own.Height > maxWindow || own.JPEG < 0 || own.JPEG > 100 {
			return refuse("a picture is 1 to %d pixels wide and high, and a JPEG's quality is 1 to 100", maxWindow)
		}
		r.Shot = &own
	}
	return nil
}
