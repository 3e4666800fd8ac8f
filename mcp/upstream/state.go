package upstream

import (
	"slices"
	"time"
)

// State is the state of an instance.
type State string

// The states of an instance.
//
//	off ──start──> starting ──> ready ──end──> draining ──> off
//	                 │  ^          │
//	                 │  └─waiting<─┤ (failed; starts are left)
//	                 ├──> held     │
//	                 └──> failed <─┘ (none are left)
//
// The states off, held and failed are at rest: nothing runs, and nothing happens until a
// caller or a person needs the server. In starting and waiting, an end leads to off
// immediately.
const (
	Off      State = "off"      // nobody needed the server, or it was idle
	Held     State = "held"     // a person must decide first
	Starting State = "starting" // the program is being fetched or started, or the handshake runs
	Ready    State = "ready"    // calls can use it
	Draining State = "draining" // the server is being ended, and accepts no more calls
	Waiting  State = "waiting"  // the server failed, and is started again after a pause
	Failed   State = "failed"   // the server failed too often
)

// The budget of an instance.
const (
	maxStarts    = 8                // most starts in startWindow
	startWindow  = 10 * time.Minute // time in which starts are counted
	leastPause   = time.Second      // pause after the first failure; doubles with each further one
	longestPause = time.Minute
	jitter       = 0.2         // largest part of a pause that is added or subtracted
	steady       = time.Minute // time of being ready after which earlier failures do not count for the pause
	maxLasting   = 3           // consecutive failures that another start will hardly fix
)

// machine is the state of an instance and the rules by which it changes. The zero machine
// is off. It has no clock: each method gets the time.
type machine struct {
	state    State
	since    time.Time   // time when the state began
	starts   []time.Time // counted starts, up to and including the latest; at most maxStarts
	failures int         // consecutive failures
	lasting  int         // consecutive failures that another start will hardly fix
	until    time.Time   // in Waiting: time of the next start
	reason   string      // reason of the latest failure, until a start succeeds, or of the hold
	login    bool        // the reason is that a person must log in
}

// to changes the state.
func (m *machine) to(s State, now time.Time) { m.state, m.since = s, now }

// start records that a start begins.
func (m *machine) start(now time.Time) {
	m.starts = append(m.counted(now), now)
	m.to(Starting, now)
}

// counted returns the starts that count at a time.
func (m *machine) counted(at time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(m.starts), func(t time.Time) bool { return at.Sub(t) >= startWindow })
}

// ready records that the start has succeeded, and removes the reason of the earlier
// failure.
func (m *machine) ready(now time.Time) {
	m.lasting, m.reason, m.login = 0, "", false
	m.to(Ready, now)
}

// drain records that the server is being ended, or has ended by itself.
func (m *machine) drain(now time.Time) {
	if m.state == Ready && now.Sub(m.since) >= steady {
		m.failures = 0
	}
	m.to(Draining, now)
}

// fail records that a start failed, or that the server ended by itself. lasting reports
// that another start will hardly fix that; chance is a random number from 0 to 1. fail
// reports whether there will be another start, at until.
func (m *machine) fail(now time.Time, reason string, lasting bool, chance float64) bool {
	m.reason = reason
	m.failures++
	m.lasting++
	if !lasting {
		m.lasting = 0
	}
	m.until = now.Add(m.pause(chance))
	if m.lasting >= maxLasting || len(m.counted(m.until)) >= maxStarts {
		m.to(Failed, now)
		return false
	}
	m.to(Waiting, now)
	return true
}

// pause returns how long to wait after the latest failure.
func (m *machine) pause(chance float64) time.Duration {
	pause := longestPause
	if doublings := m.failures - 1; doublings < 6 { // 2^6 s is longer than longestPause
		pause = leastPause << doublings
	}
	return time.Duration(float64(pause) * (1 - jitter + 2*jitter*chance))
}

// hold records that the server must not run.
func (m *machine) hold(now time.Time, reason string) {
	m.reason = reason
	m.to(Held, now)
}

// stop records that the server has ended and nobody needs it. If it worked until then, its
// failures are forgotten; otherwise they are kept for the next start.
func (m *machine) stop(now time.Time, worked bool) {
	if worked {
		*m = machine{}
	}
	m.to(Off, now)
}
