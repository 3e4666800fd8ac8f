package mcp

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"belljar.dev/policies"
)

// clock is a time that only a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func limited(limits ...policies.RateLimit) policies.Decision {
	return policies.Decision{Verdict: policies.Allow, Rule: "all", Obligations: policies.Obligations{Limits: limits}}
}

func rated(rule string, calls int, per time.Duration) policies.RateLimit {
	return policies.RateLimit{Rule: rule, Calls: calls, Per: per}
}

func TestMeterCountsCalls(t *testing.T) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	m := newMeter(c.now)
	d := limited(rated("docs", 5, time.Minute))
	for i := range 5 {
		got, leave := m.enter("a", d)
		if got.Verdict != policies.Allow {
			t.Fatalf("call %d: %+v", i, got)
		}
		leave()
	}
	got, leave := m.enter("a", d)
	leave()
	if got.Verdict != policies.Deny || got.Rule != "docs" || got.Retry <= 11*time.Second || got.Retry > 13*time.Second || !got.Grant.IsZero() {
		t.Errorf("the call above the limit: %+v", got)
	}
	want := "DENIED by policy rule docs. Nothing was run.\nWhy: The rule lets through 5 calls in 60 s, and they are used up.\n" +
		"Do this instead: Retry in 13 s, and do other work until then.\nUntil then repeating or wrapping this call gives the same answer. Call id c-1."
	if text := got.Refusal("c-1"); text != want {
		t.Errorf("got  %q\nwant %q", text, want)
	}
	if got, _ := m.enter("b", d); got.Verdict != policies.Allow {
		t.Errorf("another tenant: %+v", got)
	}
	// A refused call was not counted, so the time that the refusal names is enough.
	c.at = c.at.Add(got.Retry)
	if got, _ := m.enter("a", d); got.Verdict != policies.Allow {
		t.Errorf("after the time that was named: %+v", got)
	}
	if got, _ := m.enter("a", d); got.Verdict != policies.Deny {
		t.Errorf("a second one then: %+v", got)
	}
}

func TestMeterCountsWhatRuns(t *testing.T) {
	m := newMeter(time.Now)
	d := limited(policies.RateLimit{Rule: "two", Concurrent: 2})
	_, one := m.enter("a", d)
	_, two := m.enter("a", d)
	got, none := m.enter("a", d)
	if got.Verdict != policies.Deny || got.Retry <= 0 {
		t.Errorf("a third at once: %+v", got)
	}
	none()
	one()
	one() // a second call has no effect
	if got, leave := m.enter("a", d); got.Verdict != policies.Allow {
		t.Errorf("after one ended: %+v", got)
	} else {
		leave()
	}
	two()
}

// If one limit refuses a call, the other limits do not count it.
func TestMeterCountsAllOrNothing(t *testing.T) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	m := newMeter(c.now)
	wide, tight := rated("wide", 2, time.Hour), rated("tight", 1, time.Hour)
	m.enter("a", limited(tight))
	for range 5 {
		if got, _ := m.enter("a", limited(wide, tight)); got.Rule != "tight" {
			t.Fatalf("got %+v", got)
		}
	}
	for i, want := range []policies.Verdict{policies.Allow, policies.Allow, policies.Deny} {
		if got, _ := m.enter("a", limited(wide)); got.Verdict != want {
			t.Errorf("call %d: got %v, want %v", i, got.Verdict, want)
		}
	}
	// A policy that is loaded later has other limits, which apply immediately.
	if got, _ := m.enter("a", limited(rated("wide", 1, time.Second))); got.Verdict != policies.Deny || got.Retry > 2*time.Second {
		t.Errorf("with a limit that was changed: %+v", got)
	}
}

func TestMeterForgetsTheIdle(t *testing.T) {
	c := &clock{at: time.Unix(1_000_000, 0)}
	m := newMeter(c.now)
	m.most = 100
	busy := limited(policies.RateLimit{Rule: "busy", Concurrent: 1})
	_, leave := m.enter("a", busy)
	for i := range 99 {
		_, leave := m.enter(fmt.Sprint("t", i), limited(rated("r", 1, time.Minute)))
		leave()
	}
	d := limited(rated("more", 10, time.Second))
	if got, _ := m.enter("a", d); got.Verdict != policies.Deny {
		t.Errorf("a call that cannot be counted: %+v", got)
	}
	c.at = c.at.Add(2 * time.Minute)
	if got, _ := m.enter("a", d); got.Verdict != policies.Allow {
		t.Errorf("with room again: %+v", got)
	}
	if n := len(m.counters); n != 2 {
		t.Errorf("%d counters are kept, want the one that runs and the new one", n)
	}
	if got, _ := m.enter("a", busy); got.Verdict != policies.Deny {
		t.Errorf("what runs was forgotten: %+v", got)
	}
	leave()
}

func TestMeterAtOnce(t *testing.T) {
	m := newMeter(time.Now)
	d := limited(policies.RateLimit{Rule: "r", Calls: 100, Per: time.Hour, Concurrent: 8})
	var wg sync.WaitGroup
	var mu sync.Mutex
	running, most, passed := 0, 0, 0
	for range 64 {
		wg.Go(func() {
			for range 50 {
				got, leave := m.enter("a", d)
				if got.Verdict != policies.Allow {
					continue
				}
				mu.Lock()
				running++
				passed++
				most = max(most, running)
				mu.Unlock()
				mu.Lock()
				running--
				mu.Unlock()
				leave()
			}
		})
	}
	wg.Wait()
	if passed != 100 || most > 8 {
		t.Errorf("%d calls passed, %d at once; want 100 and at most 8", passed, most)
	}
}
