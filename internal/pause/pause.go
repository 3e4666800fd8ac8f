// Package pause waits for a time that a context can end.
package pause

import (
	"context"
	"time"
)

// For waits for a time. Its error is the cause of ctx, if that ends first.
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
