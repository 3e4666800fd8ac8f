// Package pause waits for a time, or until a context ends.
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
