package browser

import (
	"context"
	"time"
)

// quiet waits until tree and requests are quiet and the selector matches, and
// reports whether it does. It begins again where the page moved on to another.
func (t *tab) quiet(ctx context.Context, r Request, quiet bool, least, most time.Time) (bool, error) {
	if !quiet && r.Selector == "" {
		return true, nil
	}
	for {
		now := time.Now()
		busy, active, err := t.network()
		if err != nil {
			return false, err
		}
		rest := most.Sub(now)
		if rest <= 0 {
			return r.Selector == "", nil
		}
		o := settleOptions{Selector: r.Selector, Active: active || busy, Most: ms(rest), Least: ms(max(least.Sub(now), 0))}
		if quiet {
			o.Quiet, o.Quick, o.Bare = ms(quietTime), ms(quickTime), ms(bareTime)
		}
		var s *settled
		if look := t.takeLook(); look.answer != nil {
			err = t.result(ctx, look, &s)
		} else {
			err = t.evaluate(ctx, ourScript()+settling(ctx, r, o, maxNodes), &s)
		}
		switch {
		case err == nil && s == nil:
			continue // it did not look ahead
		case err == nil && s.Bad:
			return false, &Error{Kind: KindRefused, Message: "the browser cannot read the selector as CSS; correct it, or leave it out"}
		case err == nil && !s.Settled:
			return s.Matches, nil
		case err != nil && !moved(err):
			return false, err
		case err != nil || t.moving(): // the word of a refresh comes with the load event
			if err := t.again(ctx, r.Until, most); err != nil {
				return false, err
			}
			continue
		}
		if busy, active, _ = t.network(); !quiet || !busy && (s.Active || !active) {
			t.early, t.lazy = s.Page, s.Lazy
			return true, nil
		}
		if err := t.silence(ctx, most); err != nil {
			return false, err
		}
	}
}

// network reports whether requests are under way that the page waits for, or
// were a moment ago, and whether its scripts made some.
func (t *tab) network() (busy, active bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crashed || t.detached {
		return false, false, errCrashed
	}
	busy = t.counted > 0 || t.active && time.Since(t.lastNet) < quietTime
	return busy, t.active, nil
}

// silence waits until no request is under way.
func (t *tab) silence(ctx context.Context, most time.Time) error {
	pause := func() <-chan time.Time { return time.After(quietTime / 2) }
	return await(ctx, t, most, pause, func() (bool, error) {
		busy, _, err := t.network()
		return !busy, err
	})
}

// again waits until the page that replaced the last one is loaded as far as wanted.
func (t *tab) again(ctx context.Context, until Until, most time.Time) error {
	return await(ctx, t, most, t.patience, func() (bool, error) { return t.there(until) })
}

// await waits until over reports true or fails, or until most. It asks over again when the
// page has changed, and after a pause.
func await(ctx context.Context, t *tab, most time.Time, pause func() <-chan time.Time, over func() (bool, error)) error {
	end := time.NewTimer(time.Until(most))
	defer end.Stop()
	for {
		is, err := over()
		if err != nil || is {
			return err
		}
		select {
		case <-t.changed:
		case <-pause():
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ch.conn.done:
			return errDied
		}
	}
}

// there reports whether the page is loaded as far as wanted.
func (t *tab) there(until Until) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.crashed, t.detached:
		return false, errCrashed
	case t.astray != "":
		return false, &netError{t.astray}
	case t.onTheWay(), !t.committed:
		return false, nil
	case until == UntilDOM:
		return t.dom, nil
	}
	return t.loaded, nil
}

// patience is when a page that was on its way to another is believed to stay.
func (t *tab) patience() <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leaving {
		return nil
	}
	return time.After(time.Until(t.leaveBy))
}

// onTheWay reports whether the page is about to become another. t.mu is held.
func (t *tab) onTheWay() bool { return t.leaving && time.Now().Before(t.leaveBy) }

// moving is onTheWay for a caller that does not hold t.mu.
func (t *tab) moving() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.onTheWay()
}

// has reports whether there is a document to read.
func (t *tab) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.committed && !t.crashed
}
