package testenv

import (
	"context"
	"time"
)

// Until calls ok again and again until it returns true, for at most the given time, and
// reports whether it did. It is for events that nothing announces: a process or a cgroup is
// gone, or a thread sleeps. A test waits for everything else by its event: a channel, a
// pipe, the end of a call.
func Until(most time.Duration, ok func() bool) bool {
	end := time.NewTimer(most)
	defer end.Stop()
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 20*time.Millisecond) {
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-end.C:
			again.Stop()
			return ok()
		}
	}
	return true
}

// Delay returns after d, or when ctx ends. It is for tests whose subject is time
// itself, for example a server that answers slowly, and never for waiting until
// something else has happened.
func Delay(ctx context.Context, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
	}
}
