package act

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
)

// TestHung checks that a page is hung after hungWork of processor time for each session
// that shares its Chrome, of MaxTabs at most, but not before hungTime by the clock; or
// after stopTime by the clock alone. Then its script is stopped. The same times hold again
// until Chrome is ended, with endTime in place of stopTime.
func TestHung(t *testing.T) {
	begun := time.Now()
	for _, tt := range []struct {
		stopped  bool
		after    time.Duration // time by the clock
		work     time.Duration
		sessions int
		want     bool
	}{
		{false, hungTime - 1, MaxTabs * hungWork, 1, false},
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
		q := question{since: begun, work: time.Minute, seen: time.Minute, stopped: tt.stopped}
		if got := q.hung(begun.Add(tt.after), time.Minute+tt.work, tt.sessions, false); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// A page floods once maxFlood lines more than floodDrain a second were dropped. It stops
// flooding when no line is dropped for floodTime.
func TestFloodGoesOn(t *testing.T) {
	var f flood
	now := time.Now()
	drop := func(n int, each time.Duration) (over int) {
		for range n {
			now = now.Add(each)
			f.drop(now)
			if f.goesOn(now) {
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
	if f.goesOn(now.Add(floodTime)) {
		t.Error("the flood goes on without a line")
	}
	now = now.Add(time.Hour)
	if n := drop(maxFlood-1, time.Millisecond/10); n != 0 {
		t.Errorf("%d times too many of a short flood", n)
	}
}

// TestHungPagesThatFlood checks that the processor time that a page gets while it floods
// does not count, up to a bound. All other time counts, also after a flood, and if only a
// line is dropped now and then (BR21).
func TestHungPagesThatFlood(t *testing.T) {
	const tick = 100 * time.Millisecond
	for name, tt := range map[string]struct {
		burst, each int           // lines that are dropped at first, and at each tick
		want        time.Duration // processor time until the page counts as hung
	}{
		"quiet":              {0, 0, hungWork},
		"a line at times":    {0, 1, hungWork},
		"a burst and a loop": {maxFlood + 300, 0, hungWork + floodTime - tick},
		"a flood":            {maxFlood + 300, 1000, (floodWork + 1) * hungWork},
	} {
		begun := time.Now()
		v := &view{flood: flood{slowing: true}} // as before Chrome answers that the page is slower
		page := ear{&tab{views: map[string]*view{"s": v}}}
		q, after := question{since: begun.Add(-hungTime)}, time.Duration(0)
		for n := tt.burst; ; n = tt.each {
			for range n {
				v.flood.drop(begun.Add(after))
			}
			after += tick
			if now := begun.Add(after); q.hung(now, after, 1, page.flooding("s", now)) {
				break
			}
		}
		if after != tt.want {
			t.Errorf("%s: hung after %v of processor time, want %v", name, after, tt.want)
		}
	}
}

// TestFloodSlowsThePage checks that a page whose lines arrive much faster than they are
// kept is slowed down. It gets its full speed back soon after everything that it reported
// was read (BR22, BR-A19).
func TestFloodSlowsThePage(t *testing.T) {
	w := wire(t)
	e := &engine{g: w.governor, ctx: t.Context(), cpu: func() time.Duration { return 0 }}
	flooded := &tab{e: e, views: map[string]*view{"s": {session: "s"}}}
	for range maxFlood + 10 {
		ear{flooded}.lost("s", runtime.ConsoleAPICalled.Method)
	}
	for _, want := range []float64{slowRate, 1} {
		c, ok := w.command()
		if !ok || c.Method != emulation.SetCPUThrottlingRate.Method || c.SessionID != "s" || c.Params.Rate != want {
			t.Fatalf("Chrome got %+v, %v; want rate %v", c, ok, want)
		}
		w.say(t, fmt.Sprintf(`{"id":%d,"result":{},"sessionId":"s"}`, c.ID))
	}
	e.wg.Wait()
	if v := flooded.views["s"]; v.flood.slowing || flooded.console.skipped != maxFlood+10 {
		t.Errorf("afterwards the flood is %+v, and %d lines were skipped", v.flood, flooded.console.skipped)
	}
}

// TestFloodWithoutAPause: a script can flood so fast that Chrome does not slow its page down. It is
// stopped once its Chrome has had the processor time of a page that hangs. A script that has stopped
// flooding by then is left alone (BR22, BR-A19).
func TestFloodWithoutAPause(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		w := wire(t)
		ctx, stop := context.WithCancel(t.Context())
		v := &view{session: "s"}
		page := &tab{e: &engine{g: w.governor, ctx: ctx}, views: map[string]*view{"s": v}}
		looks, enough := 0, make(chan struct{})
		page.e.cpu = func() time.Duration {
			page.mu.Lock()
			defer page.mu.Unlock()
			v.flood.last = time.Time{}
			if goesOn {
				v.flood.last = time.Now()
			}
			if looks++; looks == 4 {
				close(enough)
			}
			return time.Duration(looks) * hungWork / 2
		}
		for range maxFlood + 10 {
			ear{page}.lost("s", runtime.ConsoleAPICalled.Method)
		}
		next := func(want string, rate float64) {
			t.Helper()
			if c, ok := w.command(); !ok || c.Method != want || c.SessionID != "s" || c.Params.Rate != rate {
				t.Errorf("goes on %v: Chrome got %+v, %v; want %s %v", goesOn, c, ok, want, rate)
			}
		}
		next(emulation.SetCPUThrottlingRate.Method, slowRate)
		<-enough
		if goesOn {
			next(runtime.TerminateExecution.Method, 0)
		}
		stop()
		next(emulation.SetCPUThrottlingRate.Method, 1)
		page.e.wg.Wait()
	}
}

// TestHungFramesEndNoChrome: a script that runs without end is stopped. If the page still does not
// answer, its Chrome is ended. If a frame of another site still does not answer, Chrome goes on: the
// script that runs then is stopped, and no later call waits long for the frame (BR21).
func TestHungFramesEndNoChrome(t *testing.T) {
	for _, tt := range []struct {
		session                 string
		stopped, ends, hopeless bool
	}{
		{"page", false, false, false},
		{"page", true, true, false},
		{"frame", false, false, true},
		{"frame", true, false, true},
	} {
		w := wire(t)
		page := &tab{
			e: &engine{g: w.governor, cpu: func() time.Duration { return time.Hour }}, target: "top",
			views: map[string]*view{"page": {session: "page", top: "top"}, "frame": {session: "frame", top: "inner"}},
		}
		asked := begin(w.governor, tt.session, runtime.Evaluate, runtime.EvaluateParams{})
		page.views[tt.session].asked = &question{pending: asked, since: time.Now().Add(-time.Minute), stopped: tt.stopped}
		awake(t.Context(), page, tt.session)
		if ended := page.e.alive() != nil; ended != tt.ends {
			t.Fatalf("%+v: Chrome was ended: %v", tt, ended)
		}
		if !givenUp(page, tt.session) {
			t.Errorf("%+v: the call waits for it again", tt)
		}
		listenAnew(page)
		if got := hopeless(page, tt.session); got != tt.hopeless || givenUp(page, tt.session) {
			t.Errorf("%+v: for the next call it is hopeless %v, given up %v", tt, got, givenUp(page, tt.session))
		}
		// sent last, to end the loop below
		begin(w.governor, "page", emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{})
		var got []string
		for len(got) == 0 || got[len(got)-1] != emulation.SetCPUThrottlingRate.Method {
			if tt.ends && len(got) == 1 {
				break
			}
			c, ok := w.command()
			if !ok {
				t.Fatal("the pipe ended")
			}
			got = append(got, c.Method)
		}
		if stopped := slices.Contains(got, runtime.TerminateExecution.Method); stopped == tt.ends {
			t.Errorf("%+v: Chrome got %q", tt, got)
		}
	}
}

// TestFreedIsTold checks that an agent is told once that a script was stopped, even if the
// page answers only after the call that stopped the script. The agent is not told after the
// page was left (BR21).
func TestFreedIsTold(t *testing.T) {
	w := wire(t)
	page := &tab{
		e: &engine{g: w.governor, cpu: func() time.Duration { return time.Hour }}, target: "top", changed: make(chan struct{}, 1),
		views: map[string]*view{"frame": {session: "frame", top: "inner"}}, frames: map[string]*frame{},
	}
	answer := func() {
		t.Helper()
		q := ask(page, "frame")
		q.since, q.stopped = time.Now().Add(-time.Minute), true
		if freed(page) {
			t.Error("a page is freed that has not answered")
		}
		c, ok := w.command()
		if !ok {
			t.Fatal("the pipe ended")
		}
		w.say(t, fmt.Sprintf(`{"id":%d,"result":{},"sessionId":"frame"}`, c.ID))
		if !q.came(t.Context(), nil, time.Minute) {
			t.Fatal("the answer did not come")
		}
	}
	answer()
	listenAnew(page)
	if !freed(page) || !tellFreed(page) {
		t.Error("the next call does not say that a script was stopped")
	}
	if freed(page) {
		t.Error("a second call says it again")
	}
	answer()
	if ask(page, "frame"); !freed(page) {
		t.Error("after another question to the page no call says it")
	}
	page.navigated("page", "top", "", "loader", "http://site.example/")
	if freed(page) {
		t.Error("it is said of the page that was opened afterwards")
	}
}

// TestDialogsStopNothing checks that a page that waits for a dialog does not count as one
// that hangs, and that its time begins again once the dialog is answered (BR21).
func TestDialogsStopNothing(t *testing.T) {
	page := &tab{target: "top", views: map[string]*view{"page": {session: "page", top: "top"}}}
	page.e = &engine{cpu: func() time.Duration { return time.Hour }, windows: windows{tabs: []*tab{page}}}
	for _, waits := range []bool{true, false} {
		q := &question{since: time.Now().Add(-time.Minute), flooded: time.Second}
		q.session, page.dialog = "page", nil
		if waits {
			page.dialog = &held{}
		}
		if script, chrome := hangs(page, q); script == waits || chrome {
			t.Errorf("a dialog waits %v: the script is stopped %v, Chrome is ended %v", waits, script, chrome)
		}
		if q.seen != time.Hour || q.work != time.Hour || q.flooded != 0 || time.Since(q.since) > 30*time.Second {
			t.Errorf("a dialog waits %v: the time goes on from %+v", waits, q)
		}
	}
}
