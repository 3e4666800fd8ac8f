package egress

import (
	"fmt"
	"sync"
	"time"
)

// Allowance bounds the bytes that go through several doors in an hour. An hour begins with
// the first byte after the end of the last hour. Its methods are safe for concurrent use.
// The zero Allowance has no bound.
type Allowance struct {
	mu    sync.Mutex
	whose string
	most  int64
	began time.Time // start of the hour; zero before its first byte
	used  int64     // bytes in this hour
}

// hour is how long an allowance lasts.
const hour = time.Hour

// Set sets the owner of the allowance, for messages, and the bytes that may go through in
// an hour.
func (a *Allowance) Set(whose string, most int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whose, a.most = whose, most
}

// Used returns the bytes that went through in the present hour.
func (a *Allowance) Used(now time.Time) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(now)
	return a.used
}

// turn ends the hour if it is over; mu must be held.
func (a *Allowance) turn(now time.Time) {
	if !a.began.IsZero() && now.Sub(a.began) >= hour {
		a.began, a.used = time.Time{}, 0
	}
}

// add counts n bytes after they went through, and returns the reason for a refusal if they
// exceed the allowance. If n is zero, it returns a reason if no bytes are left.
func (a *Allowance) add(now time.Time, n int64) (reason string) {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(now)
	if a.began.IsZero() && n > 0 {
		a.began = now
	}
	a.used += n
	if a.most == 0 || a.used < a.most || a.used == a.most && n > 0 {
		return ""
	}
	left := a.began.Add(hour).Sub(now).Round(time.Minute)
	return fmt.Sprintf("%s has sent and received the %d bytes of this hour (quota egress), which ends in %s", a.whose, a.most, max(left, time.Minute))
}
