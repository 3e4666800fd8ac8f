package egress

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/policies"
)

// caps counts what one box uses of its limits, over its whole life. The caller
// passes the limits, which are those of its snapshot.
type caps struct {
	conns atomic.Int64
	bytes atomic.Int64
	rate  bucket
}

// bucket is a token bucket whose rate is passed by the caller: a change of policy
// does not fill it again. The zero bucket is full.
type bucket struct {
	mu    sync.Mutex
	spent float64   // tokens that are missing
	last  time.Time // time at which spent was right
}

// take takes a token, and reports whether there was one. The bucket gets rate tokens a
// second, and contains at most burst.
func (b *bucket) take(now time.Time, rate, burst float64) bool {
	return b.wait(now, rate, burst) <= 0
}

// wait takes a token if there is one. Otherwise it returns the time until the next
// token.
func (b *bucket) wait(now time.Time, rate, burst float64) time.Duration {
	burst = max(1, burst)
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.last); passed > 0 {
		b.spent = max(0, b.spent-passed.Seconds()*rate)
		b.last = now
	}
	if missing := b.spent + 1 - burst; missing > 0 {
		// A wait is never zero, even if rounding would make it zero.
		return max(time.Microsecond, time.Duration(min(missing/rate, 3600)*float64(time.Second)))
	}
	b.spent++
	return 0
}

// Carried returns how many bytes a door has carried in both directions.
func Carried(d *Door) int64 { return d.caps.bytes.Load() }

// ruleLimits is the rule in the record of a connection that a limit refused.
const ruleLimits = "limits"

// enter takes a slot for a connection, or returns the reason for refusing one and the
// advice, which may be empty.
func (c *caps) enter(now time.Time, l policies.EgressLimits) (reason, instead string) {
	if c.bytes.Load() >= l.Bytes {
		return bytesUsed(l), ""
	}
	const fewer = "Close connections that are not needed any more, and open new ones more slowly."
	if c.conns.Add(1) > int64(l.Conns) {
		c.conns.Add(-1)
		return fmt.Sprintf("as many connections are open as the profile lets through at the same time (%d)", l.Conns), fewer
	}
	if !c.rate.take(now, l.Rate, 2*l.Rate) {
		c.conns.Add(-1)
		return fmt.Sprintf("the profile lets through only %g new connections in a second", l.Rate), fewer
	}
	return "", ""
}

// leave releases a slot.
func (c *caps) leave() { c.conns.Add(-1) }

// bytesUsed returns the reason for a refusal after all bytes were used.
func bytesUsed(l policies.EgressLimits) string {
	return fmt.Sprintf("the box has sent and received the %d bytes that the profile lets through in its life", l.Bytes)
}
