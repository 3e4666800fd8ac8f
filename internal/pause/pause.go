// Package pause waits for a time or until a context ends, and makes the pauses of many end
// together.
package pause

import (
	"context"
	"time"
)

// For waits for a time. If ctx ends first, For returns the cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// step is the time between two moments at which pauses of Together end. With a longer step,
// more would end at once, and delay other work.
const step = 250 * time.Millisecond

// Together returns d, or up to 250 ms less. Pauses that begin at different times end together,
// four times in a second, so that the process wakes up once for all of them: to wake up costs
// more than to write a few bytes. The result may be 0 if d is less than 250 ms.
func Together(d time.Duration) time.Duration {
	now := time.Now()
	return max(now.Add(d).Truncate(step).Sub(now), 0)
}
