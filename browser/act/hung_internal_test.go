package act

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
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

// A page is slowed down once its lines came faster than they are kept for some time.
func TestFloodRises(t *testing.T) {
	var f flood
	now := time.Now()
	drop := func(n int, each time.Duration) (over int) {
		for range n {
			now = now.Add(each)
			if f.rises(now) {
				over++
			}
		}
		return over
	}
	if n := drop(10*maxFlood, time.Second/floodDrain); n != 0 {
		t.Errorf("%d times too many at the rate that drains", n)
	}
	if n := drop(2*maxFlood, time.Millisecond/10); n < maxFlood/2 {
		t.Errorf("%d times too many of a flood", n)
	}
	now = now.Add(time.Hour)
	if n := drop(maxFlood-1, time.Millisecond/10); n != 0 {
		t.Errorf("%d times too many of a short flood", n)
	}
}

// TestFloodSlowsThePage: a page whose lines come much faster than they are kept is slowed down, and
// no longer than until what it has reported is read and a while after (BR22, BR-A19).
func TestFloodSlowsThePage(t *testing.T) {
	w := wire(t)
	e := &engine{g: w.governor, ctx: t.Context()}
	flooded := &tab{e: e, views: map[string]*view{"s": {session: "s"}}}
	for range maxFlood + 10 {
		ear{flooded}.lost("s", runtime.ConsoleAPICalled.Method)
	}
	for _, want := range []float64{slowRate, 1} {
		c, ok := w.command()
		if !ok || c.Method != emulation.SetCPUThrottlingRate.Method || c.SessionID != "s" || c.Params.Rate != want {
			t.Fatalf("Chrome got %+v, %v; want rate %v", c, ok, want)
		}
		if !(ear{flooded}).flooded("s") {
			t.Error("the page is not flooded")
		}
		w.say(t, fmt.Sprintf(`{"id":%d,"result":{},"sessionId":"s"}`, c.ID))
	}
	e.wg.Wait()
	if v := flooded.views["s"]; v.flood.slowed || flooded.console.skipped != maxFlood+10 {
		t.Errorf("afterwards the flood is %+v, and %d lines were skipped", v.flood, flooded.console.skipped)
	}
}
