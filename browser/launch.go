package browser

import (
	"context"
	"errors"
	"fmt"

	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

// ready returns a page that waits for a call, or nil. A page that died while it waited is
// closed.
func (p *Pool) ready(ctx context.Context, ch *chrome) *tab {
	for {
		p.mu.Lock()
		n := len(ch.ready)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		t := ch.ready[n-1]
		ch.ready = ch.ready[:n-1]
		p.mu.Unlock()
		if t.cause(nil) == nil {
			return t
		}
		p.wg.Go(func() { ch.dispose(context.WithoutCancel(ctx), t) })
	}
}

// distrust retires the Chrome of a page that gave no sign of life. It gets no more calls,
// since the pages and renderers that it has ready may be no better.
func (p *Pool) distrust(ch *chrome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Hung++
	p.cfg.Log.Warn("page does not answer", "box", ch.box.ID())
	if !ch.retired {
		p.stats.Recycled++
	}
	p.retire(ch)
}

// launch starts a Chrome. The error says why it cannot.
func (p *Pool) launch(ctx context.Context, id string, g policies.Grant) (*chrome, error) {
	program, err := p.suits(g)
	if err != nil {
		return nil, err
	}
	ch, err := startChrome(ctx, p.cfg.Supervisor, id, program, g)
	if err != nil {
		return nil, startError(err)
	}
	return ch, nil
}

// suits returns the path of Chrome, or an error if there is no Chrome or a box of the grant
// is too small for it.
func (p *Pool) suits(g policies.Grant) (string, error) {
	p.mu.Lock()
	program := p.program
	p.mu.Unlock()
	if program == "" {
		var err error
		if program, err = p.find(); err != nil {
			return "", &Error{Kind: KindAbsent, Err: err, Message: "this host has no Chromium, so pages are read as the server sends them, without their scripts; the operator can install it, see: belljar browser doctor"}
		}
		p.mu.Lock()
		p.program = program
		p.mu.Unlock()
	}
	if l := g.Limits(); l.Memory < leastMemory || l.Pids < leastPids {
		return "", &Error{Kind: KindForbidden, Message: fmt.Sprintf(
			"profile %q gives a browser %d MiB and %d processes, and a browser needs %d MiB and %d; the operator can raise the limits", g.Profile(), l.Memory>>20, l.Pids, leastMemory>>20, leastPids)}
	}
	return program, nil
}

// startError returns the error, for the agent, of a Chrome that did not start.
func startError(err error) error {
	if r, ok := errors.AsType[*limit.Refusal](err); ok {
		return &Error{Kind: KindAbsent, Err: err, Message: "no box for a browser could be opened: " + r.Message}
	}
	return &Error{Kind: KindAbsent, Err: err, Message: "Chromium does not start on this host, so pages are read as the server sends them, without their scripts; the operator finds the cause with: belljar browser doctor"}
}

func (p *Pool) find() (string, error) {
	if p.cfg.Program != "" {
		return program(p.cfg.Program)
	}
	return find(p.cfg.Check)
}

// retire takes a Chrome out of use, and ends it when its last page was returned. p.mu is
// held.
func (p *Pool) retire(ch *chrome) {
	if p.current[ch.key] == ch {
		delete(p.current, ch.key)
	}
	if ch.retired {
		return
	}
	ch.retired = true
	if ch.live == 0 || ch.dead() {
		p.bury(ch)
	}
}

// bury ends a Chrome. p.mu is held.
func (p *Pool) bury(ch *chrome) {
	if _, there := p.all[ch]; !there {
		return
	}
	delete(p.all, ch)
	p.wg.Go(ch.close)
}

// alive returns a context that also ends when the pool closes.
func (p *Pool) alive(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.wg.Go(func() { // the call has entered, so Close does not wait yet
		select {
		case <-p.quit:
			cancel(errClosed())
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}
