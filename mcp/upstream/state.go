package upstream

import (
	"slices"
	"time"
)

// State is what an instance is doing.
type State string

// The states of an instance.
//
//	off ──start──> starting ──> ready ──end──> draining ──> off
//	                 │  ^          │
//	                 │  └─waiting<─┤ (failed; starts are left)
//	                 ├──> held     │
//	                 └──> failed <─┘ (none are left)
//
// The states off, held and failed are at rest: nothing runs, and nothing happens before
// somebody asks. In starting and waiting, an end leads to off at once.
const (
	Off      State = "off"      // nobody needed it, or it was idle
	Held     State = "held"     // a person has to decide
	Starting State = "starting" // the program is fetched or started, or shakes hands
	Ready    State = "ready"    // calls can use it
	Draining State = "draining" // it is being ended, and takes no calls any more
	Waiting  State = "waiting"  // it failed, and is started again at a time
	Failed   State = "failed"   // it failed too often
)

// The budget of an instance.
const (
	maxStarts    = 8                // in startWindow
	startWindow  = 10 * time.Minute //
	leastPause   = time.Second      // after the first failure; doubles with each further one
	longestPause = time.Minute
	jitter       = 0.2         // of a pause, either way
	steady       = time.Minute // of being ready, after which earlier failures do not count for the pause
	maxLasting   = 3           // failures in a row that another start hardly cures
)

// machine is the state of an instance and the rules by which it changes. The zero machine
// is off. It has no clock: each method gets the time.
type machine struct {
	state    State
	since    time.Time   // when the state began
	starts   []time.Time // those that counted at the latest one, which is the last; at most maxStarts
	failures int         // in a row
	lasting  int         // failures in a row that another start hardly cures
	until    time.Time   // of Waiting: the next start
	reason   string      // of the latest failure, until a start succeeds, or of the hold
	login    bool        // the reason is that a person has to log in
}

// to changes the state.
func (m *machine) to(s State, now time.Time) { m.state, m.since = s, now }

// start notes that a start begins.
func (m *machine) start(now time.Time) {
	m.starts = append(m.counted(now), now)
	m.to(Starting, now)
}

// counted are the starts that count at a time.
func (m *machine) counted(at time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(m.starts), func(t time.Time) bool { return at.Sub(t) >= startWindow })
}

// ready notes that the start has succeeded. The earlier fault is over.
func (m *machine) ready(now time.Time) {
	m.lasting, m.reason, m.login = 0, "", false
	m.to(Ready, now)
}

// drain notes that the server is being ended, or has ended by itself.
func (m *machine) drain(now time.Time) {
	if m.state == Ready && now.Sub(m.since) >= steady {
		m.failures = 0
	}
	m.to(Draining, now)
}

// fail notes that a start failed, or that the server ended by itself. lasting says that
// another start hardly cures it; chance is a random number from 0 to 1. fail reports
// whether there will be another start, at until.
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

// pause is how long to wait after the latest failure.
func (m *machine) pause(chance float64) time.Duration {
	pause := longestPause
	if doublings := m.failures - 1; doublings < 6 { // 2^6 s is beyond longestPause
		pause = leastPause << doublings
	}
	return time.Duration(float64(pause) * (1 - jitter + 2*jitter*chance))
}

// hold notes that the server must not run.
func (m *machine) hold(now time.Time, reason string) {
	m.reason = reason
	m.to(Held, now)
}

// stop notes that the server is gone and nobody needs it. A server that worked until then
// has a clean record; one that did not keeps its failures for whoever needs it next.
func (m *machine) stop(now time.Time, worked bool) {
	if worked {
		*m = machine{}
	}
	m.to(Off, now)
}
