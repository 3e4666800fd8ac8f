package act

import (
	"context"
	"errors"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

const (
	quietTime = 40 * time.Millisecond // time without a change of the tree
	leaveTime = 1500 * time.Millisecond
)

// settle waits until the tab is quiet after a step: no request for which it waits is in
// progress, its tree does not change, and no document is loading. It gives up after most.
func (t *tab) settle(ctx context.Context, most time.Duration) {
	end := time.Now().Add(most)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for ctx.Err() == nil {
		t.mu.Lock()
		held := t.dialog != nil || t.crashed || t.closed
		busy := t.counted > 0 || !t.leaving.IsZero() && time.Since(t.leaving) < leaveTime
		top := t.frames[t.target]
		busy = busy || top != nil && t.commits > 0 && !t.loaded && top.url != "about:blank"
		t.mu.Unlock()
		if held {
			return
		}
		if !busy {
			f, ok := t.frameOf(t.target)
			if !ok {
				return
			}
			o := map[string]any{"quiet": quietTime.Milliseconds(), "most": 400}
			err := t.run(ctx, f, "belljar.quiet("+argument(o)+")", nil)
			if errors.Is(err, errBlocked) || errors.Is(err, errGone) || errors.Is(err, errCrashed) {
				return
			}
			t.mu.Lock()
			busy = t.counted > 0 || !t.leaving.IsZero() && time.Since(t.leaving) < leaveTime
			t.mu.Unlock()
			if err == nil && !busy {
				return
			}
		}
		t.pause(ctx, 50*time.Millisecond)
	}
}

// rest notes that the tab has to settle before it is read again, and makes its page begin
// to settle.
func (t *tab) rest(ctx context.Context) {
	t.mu.Lock()
	t.acted = time.Now()
	t.mu.Unlock()
	if f, ok := t.frameOf(t.target); ok {
		if w, _, err := t.enter(ctx, f); err == nil {
			begin(t.e.g, f.session, runtime.Evaluate, runtime.EvaluateParams{Expression: "belljar.rest()", ContextID: w, Silent: new(true)}).drop()
		}
	}
}

// rested waits until the tab has settled after the last step, unless a call has waited for
// that already.
func rested(ctx context.Context, t *tab) {
	t.mu.Lock()
	acted := t.acted
	t.acted = time.Time{}
	t.mu.Unlock()
	if !acted.IsZero() {
		t.settle(ctx, max(SettleTime-time.Since(acted), quietTime))
	}
}

// pause waits until something of the tab has changed, or until d has passed.
func (t *tab) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.changed:
	case <-timer.C:
	case <-t.e.g.done:
	case <-ctx.Done():
	}
}

// over reports whether the tab has crashed or was closed, or its Chrome has ended.
func (t *tab) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.crashed || t.closed || t.e.alive() != nil
}

// until waits until ok returns true, for at most the duration most, and reports whether it
// did. ok is called with t.mu held.
func (t *tab) until(ctx context.Context, most time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		t.mu.Lock()
		is := ok()
		t.mu.Unlock()
		if is || ctx.Err() != nil || t.over() {
			return is
		}
		t.pause(ctx, 200*time.Millisecond)
	}
}
