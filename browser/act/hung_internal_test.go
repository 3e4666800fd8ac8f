package act

import (
	"testing"
	"time"
)

// Until its script is stopped, and from then on until Chrome is ended, a page has one second of
// processor time for each session that shares it, of a few, and a longer time by the clock.
func TestHung(t *testing.T) {
	begun := time.Now()
	for _, tt := range []struct {
		stopped  bool
		after    time.Duration // by the clock
		work     time.Duration
		sessions int
		want     bool
	}{
		{false, 3 * time.Second, 0, 1, false},
		{false, 3 * time.Second, hungWork, 1, true},
		{false, 3 * time.Second, hungWork, 2, false},
		{false, 3 * time.Second, 2 * hungWork, 2, true},
		{false, 3 * time.Second, MaxTabs * hungWork, 500, true},
		{false, 3 * time.Second, hungWork, 0, true},
		{false, stopTime, 0, 1, true},
		{true, stopTime, 0, 1, false},
		{true, stopTime, hungWork, 1, true},
		{true, endTime, 0, 500, true},
	} {
		q := question{since: begun, work: time.Minute, stopped: tt.stopped}
		if got := q.hung(begun.Add(tt.after), time.Minute+tt.work, tt.sessions); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// A session is halted once its lines came faster than they are kept for some time.
func TestFloodRises(t *testing.T) {
	var f flood
	now := time.Now()
	drop := func(n int, each time.Duration) (halts int) {
		for range n {
			now = now.Add(each)
			if f.rises(now) {
				halts++
			}
		}
		return halts
	}
	if n := drop(10*maxFlood, time.Second/floodDrain); n != 0 {
		t.Errorf("%d halts at the rate that drains", n)
	}
	if n := drop(2*maxFlood, time.Millisecond/10); n < maxFlood/2 {
		t.Errorf("%d halts of a flood", n)
	}
	now = now.Add(time.Hour)
	if n := drop(maxFlood-1, time.Millisecond/10); n != 0 {
		t.Errorf("%d halts of a short flood", n)
	}
}
