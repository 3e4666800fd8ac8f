// Package pause has pauses that end with a context, and pauses of many that end together.
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

// step is the time between two moments at which the pauses of Together end. In a longer one,
// more would end at once, and delay what else runs.
const step = 250 * time.Millisecond

// Together returns a pause of at most d, and less than d by less than 250 ms. The pauses that
// many begin at different times end together, four times in a second, so that the process
// wakes up once for all of them: to wake up costs more than to write a few bytes.
func Together(d time.Duration) time.Duration {
	now := time.Now()
	return max(now.Add(d).Truncate(step).Sub(now), 0)
}
