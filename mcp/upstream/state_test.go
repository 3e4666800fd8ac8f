package upstream

import (
	"testing"
	"time"
)

// TestMachine checks the rules of the state machine, event by event.
func TestMachine(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	type event struct {
		after time.Duration
		do    string // start, ready, drain, fail, lasting, hold, worked, idle
		state State
		pause time.Duration // in Waiting: time until the next start
	}
	for name, events := range map[string][]event{
		"a start that fails is followed by others, up to eight": {
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, 2 * time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, 4 * time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, 8 * time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, 16 * time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, 32 * time.Second},
			{time.Second, "start", Starting, 0},
			{0, "fail", Waiting, time.Minute},
			{time.Second, "start", Starting, 0},
			{0, "fail", Failed, 0},
		},
		"a minute of work makes the next failure the first": {
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 2 * time.Second},
			{0, "start", Starting, 0},
			{0, "ready", Ready, 0},
			{time.Minute, "drain", Draining, 0},
			{0, "fail", Waiting, time.Second},
			{0, "start", Starting, 0},
			{0, "ready", Ready, 0},
			{time.Minute - 1, "drain", Draining, 0},
			{0, "fail", Waiting, 2 * time.Second},
		},
		"starts of more than ten minutes ago do not count": {
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 2 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 4 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 8 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 16 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 32 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Minute},
			{10 * time.Minute, "start", Starting, 0},
			{0, "fail", Waiting, time.Minute},
		},
		"what another start hardly cures is tried thrice in a row": {
			{0, "start", Starting, 0},
			{0, "lasting", Waiting, time.Second},
			{0, "start", Starting, 0},
			{0, "lasting", Waiting, 2 * time.Second},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, 4 * time.Second},
			{0, "start", Starting, 0},
			{0, "lasting", Waiting, 8 * time.Second},
			{0, "start", Starting, 0},
			{0, "lasting", Waiting, 16 * time.Second},
			{0, "start", Starting, 0},
			{0, "lasting", Failed, 0},
		},
		"a hold is at rest": {{0, "start", Starting, 0}, {0, "hold", Held, 0}},
		"what worked has a clean record": {
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Second},
			{0, "start", Starting, 0},
			{0, "ready", Ready, 0},
			{0, "drain", Draining, 0},
			{0, "worked", Off, 0},
			{0, "start", Starting, 0},
			{0, "fail", Waiting, time.Second},
		},
		"what failed and is not needed keeps its record": {
			{0, "start", Starting, 0}, {0, "fail", Waiting, time.Second}, {0, "idle", Off, 0}, {0, "start", Starting, 0}, {0, "fail", Waiting, 2 * time.Second},
		},
	} {
		var m machine
		now, why := begin, false
		for n, e := range events {
			now = now.Add(e.after)
			switch e.do {
			case "start":
				m.start(now)
			case "ready":
				m.ready(now)
			case "drain":
				m.drain(now)
			case "fail", "lasting":
				if again := m.fail(now, "no", e.do == "lasting", 0.5); again != (e.state == Waiting) {
					t.Errorf("%s: event %d: another start: %v", name, n, again)
				}
			case "hold":
				m.hold(now, "held")
			case "worked", "idle":
				m.stop(now, e.do == "worked")
			}
			if m.state != e.state || m.since != now || e.state == Waiting && m.until.Sub(now) != e.pause {
				t.Errorf("%s: event %d, %s: %s until %v, want %s for %v", name, n, e.do, m.state, m.until.Sub(now), e.state, e.pause)
			}
			// A start after a failure keeps the reason of the failure; a server that is
			// ready has no reason.
			switch e.do {
			case "fail", "lasting", "hold":
				why = true
			case "ready", "worked":
				why = false
			}
			if (m.reason != "") != why {
				t.Errorf("%s: event %d, %s: the reason is %q", name, n, e.do, m.reason)
			}
			if len(m.starts) > maxStarts {
				t.Errorf("%s: %d starts are remembered", name, len(m.starts))
			}
		}
	}
}

// A pause differs from its nominal length by at most a fifth, and is never longer than 72
// seconds.
func TestPauseIsBounded(t *testing.T) {
	for failures := 1; failures < 1000; failures++ {
		m := machine{failures: failures}
		want := min(time.Second<<min(failures-1, 30), time.Minute)
		low, high := m.pause(0), m.pause(1)
		if low < want*8/10-time.Microsecond || high > want*12/10+time.Microsecond || low >= high {
			t.Errorf("after %d failures: %v to %v", failures, low, high)
		}
	}
}
