package browser

import (
	"context"
	"time"
)

// quiet waits until tree and requests are quiet and the selector matches, and reports
// whether it matches. It begins again if the page has moved on to another document.
func (v *visit) quiet(ctx context.Context, r Request, quiet bool, least, most time.Time) (bool, error) {
	if !quiet && r.Selector == "" {
		return true, nil
	}
	for {
		now := time.Now()
		busy, active, err := v.network()
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
		if look := v.takeLook(); look.answer != nil {
			err = v.result(ctx, look, &s)
		} else {
			err = v.evaluate(ctx, ourScript()+settling(ctx, r, o, maxNodes), &s)
		}
		switch {
		case err == nil && s == nil:
			continue // the page did not look ahead
		case err == nil && s.Bad:
			return false, &Error{Kind: KindRefused, Message: "the browser cannot read the selector as CSS; correct it, or leave it out"}
		case err == nil && !s.Settled:
			return s.Matches, nil
		case err != nil && !moved(err):
			return false, err
		case err != nil || v.moving(): // a refresh is reported together with the load event
			if err := v.again(ctx, r.Until, most); err != nil {
				return false, err
			}
			continue
		}
		if busy, active, _ = v.network(); !quiet || !busy && (s.Active || !active) {
			v.early, v.lazy = s.Page, s.Lazy
			return true, nil
		}
		if err := v.silence(ctx, most); err != nil {
			return false, err
		}
	}
}

// silence waits until no request is in progress.
func (v *visit) silence(ctx context.Context, most time.Time) error {
	pause := func() <-chan time.Time { return time.After(quietTime / 2) }
	return await(ctx, v.tab, most, pause, func() (bool, error) {
		busy, _, err := v.network()
		return !busy, err
	})
}

// again waits until the page that replaced the last one is loaded as far as wanted.
func (v *visit) again(ctx context.Context, until Until, most time.Time) error {
	return await(ctx, v.tab, most, v.patience, func() (bool, error) { return v.loadedUntil(until) })
}

// await waits until over returns true or an error, or until most. It calls over again when
// the page has changed, and after a pause.
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
			return errGone
		}
	}
}
