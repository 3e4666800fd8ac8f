package search

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/search/engine"
)

// State is the state of an engine's health.
type State int

// The values of State.
const (
	Healthy  State = iota // asked and waited for
	Degraded              // asked, but not waited for: its last answers were good, after several failures
	// not asked until a time has passed, and then only probed by a query that does not wait
	Open
)

// String returns the state as it is written on the wire.
func (s State) String() string {
	switch s {
	case Degraded:
		return "degraded"
	case Open:
		return "open"
	case Healthy:
	}
	return "healthy"
}

// How long an engine is left alone: after its first failure of a kind, doubled at each
// further failure up to the longest time. A block of DuckDuckGo was seen to last an hour; a
// failure to connect is mostly over soon.
const (
	limitedFirst, limitedMost = time.Minute, 30 * time.Minute
	blockedFirst, blockedMost = 10 * time.Minute, 6 * time.Hour
	deniedFirst, deniedMost   = 30 * time.Minute, 6 * time.Hour // for HTTP 401 and 403
	driftFirst, driftMost     = time.Hour, 6 * time.Hour
	failedFirst, failedMost   = 2 * time.Second, 2 * time.Minute
	askedMost                 = 6 * time.Hour // longest time that an engine can ask for with Retry-After
)

// latencies is the number of answer times that are remembered for each engine.
const latencies = 16

// latenciesLeast is the number of answer times from which slow returns a value.
const latenciesLeast = 4

// A failure to answer after a good answer is forgiven, and adds shakyBy to the engine's
// shaky; each good answer takes 1 away. If shaky is shakyMost or more, failures are not
// forgiven: an engine that fails every third time is as bad as one that always fails.
const shakyBy, shakyMost = 3, 4

// doubtful is the number of failures in a row, less the successes since, from which an
// engine is not waited for.
const doubtful = 2

// health is what is known of one engine. It is shared by all tenants, because engines see
// the same address for all of them.
type health struct {
	level   level
	fails   int // failures in a row, less one for each success
	last    engine.Outcome
	since   time.Time // time of the last change
	until   time.Time // time before which it is not asked; zero if it is not left alone
	probing bool      // reports whether a probe is under way
	good    bool      // reports whether its last answer was good
	shaky   int       // unreliability, see shakyBy
	drifted uint64    // mark of a query whose drift was forgiven; 0 means none

	took [latencies]time.Duration
	n    int // number of answers that were timed
}

// book contains the health of all engines. It is safe for concurrent use.
type book struct {
	jitter func() float64 // returns a number from 0 up to 1

	mu    sync.Mutex
	all   map[string]*health
	dirty bool // reports whether something has changed since it was written
}

func newBook() *book { return &book{jitter: rand.Float64, all: make(map[string]*health)} }

// of returns the health of an engine. The caller must hold mu.
func (b *book) of(name string) *health {
	h := b.all[name]
	if h == nil {
		h = &health{}
		b.all[name] = h
	}
	return h
}

// turn tells whether an engine is asked now, and in which state it is.
type turn struct {
	state State
	ask   bool
	retry time.Duration  // if it is not asked: time until it can be asked
	why   engine.Outcome // if it is not asked: its last outcome, or RateLimited if its rate is used up
}

// peek returns the state of an engine without taking a turn.
func (b *book) peek(e *engine.Engine) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(e.Name).state()
}

// take takes a turn of an engine. If the engine is asked, a token of its rate is used, and
// the caller must call note or drop afterwards.
func (b *book) take(e *engine.Engine, now time.Time) turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	t := turn{state: h.state()}
	if t.state == Open && (h.probing || now.Before(h.until)) {
		t.retry, t.why = max(time.Second, h.until.Sub(now)), h.last
		return t
	}
	if t.retry = h.level.take(now, e.Rate); t.retry > 0 {
		t.why = engine.RateLimited
		return t
	}
	b.dirty = true
	t.ask = true
	h.probing = t.state == Open
	return t
}

// state returns the state of an engine. An engine whose time has passed stays open until a
// probe succeeds.
func (h *health) state() State {
	switch {
	case !h.until.IsZero():
		return Open
	case h.fails >= doubtful:
		return Degraded
	}
	return Healthy
}

// told contains what note needs to know of an answer.
type told struct {
	outcome engine.Outcome
	status  int           // HTTP status; 0 if there was no answer
	retry   time.Duration // time that the engine asks us to wait
	took    time.Duration
	query   uint64 // mark of the query, which nobody else can make
}

// note records the outcome of an engine that take let through. It returns the time until
// the engine will be asked again.
func (b *book) note(e *engine.Engine, now time.Time, t told) (retry time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	h.probing, h.last, h.since = false, t.outcome, now
	b.dirty = true
	switch t.outcome {
	case engine.OK, engine.Empty:
		h.took[h.n%latencies] = t.took
		h.n++
		h.fails = max(0, h.fails-1)
		h.good, h.shaky = true, max(0, h.shaky-1)
		h.until, h.drifted = time.Time{}, 0
		return 0
	case engine.None, engine.DisabledByPolicy, engine.SkippedOpen:
		return 0
	case engine.Drift:
		// A page that is not understood may be a single odd page.
		if h.until.IsZero() && (h.drifted == 0 || h.drifted == t.query) {
			h.drifted = max(1, t.query)
			return 0
		}
	case engine.Timeout, engine.HTTPError:
		// A single failure of an engine that usually answers is forgiven: leaving the
		// engine alone would lose more than waiting for it once more.
		if h.until.IsZero() && h.good && h.shaky < shakyMost && t.retry == 0 && !denied(t.status) {
			h.good = false
			h.shaky += shakyBy
			return 0
		}
	case engine.BlockedCaptcha, engine.BlockedSoft, engine.RateLimited:
	}
	h.good = false
	first, most := openFor(t)
	open := first << min(h.fails, 20)
	open = min(max(open, first), most)
	open += time.Duration(float64(open) * (b.jitter() - 0.5) * 0.4)
	if t.retry > 0 {
		asked := min(t.retry, askedMost)
		open = max(open, asked+time.Duration(float64(asked)*b.jitter()*0.2))
		if t.outcome == engine.RateLimited {
			open = asked + time.Duration(float64(asked)*b.jitter()*0.2)
		}
	}
	h.fails = min(h.fails+1, 32)
	h.until = now.Add(open)
	return open
}

// openFor returns how long an engine is left alone after its first failure of a kind, and
// the longest such time.
func openFor(t told) (first, most time.Duration) {
	switch t.outcome {
	case engine.RateLimited:
		return limitedFirst, limitedMost
	case engine.BlockedCaptcha, engine.BlockedSoft:
		return blockedFirst, blockedMost
	case engine.Drift:
		return driftFirst, driftMost
	case engine.HTTPError:
		if denied(t.status) {
			return deniedFirst, deniedMost
		}
	case engine.None, engine.OK, engine.Empty, engine.Timeout, engine.DisabledByPolicy, engine.SkippedOpen:
	}
	return failedFirst, failedMost
}

// denied reports whether a status means that we are not wanted.
func denied(status int) bool {
	return status == http.StatusForbidden || status == http.StatusUnauthorized
}

// drop ends a turn without an outcome, because the query was cancelled.
func (b *book) drop(e *engine.Engine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(e.Name).probing = false
}

// slow returns the longest of an engine's last answer times, or false if too few are known.
// Of 16 answers, the longest is about the time that 94 in a hundred do not exceed.
func (b *book) slow(e *engine.Engine) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	if h.n < latenciesLeast {
		return 0, false
	}
	return slices.Max(h.took[:min(h.n, latencies)]), true
}

// retry returns the time until an open engine will be asked again, or 0 if it is not open.
func (b *book) retry(e *engine.Engine, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	if h.until.IsZero() {
		return 0
	}
	return max(time.Second, h.until.Sub(now))
}

// times returns the last answer times, the newest last.
func (h *health) times() []time.Duration {
	if h.n <= latencies {
		return slices.Clone(h.took[:h.n])
	}
	at := h.n % latencies
	return slices.Concat(h.took[at:], h.took[:at])
}

// Health describes the state of one engine, for people.
type Health struct {
	Engine string
	State  State
	Last   engine.Outcome // last outcome; None if the engine was not asked yet
	Since  time.Time      // time of Last
	Retry  time.Duration  // time until it is asked again; 0 if it can be asked now
	Slow   time.Duration  // longest of its last answer times; 0 if too few are known
	// Took are its last answer times, the newest last.
	Took []time.Duration
}

// snapshot returns the health of some engines.
func (b *book) snapshot(engines []*engine.Engine, now time.Time) []Health {
	out := make([]Health, 0, len(engines))
	for _, e := range engines {
		slow, _ := b.slow(e)
		retry := b.retry(e, now)
		b.mu.Lock()
		h := b.of(e.Name)
		out = append(out, Health{Engine: e.Name, State: h.state(), Last: h.last, Since: h.since, Retry: retry, Slow: slow, Took: h.times()})
		b.mu.Unlock()
	}
	return out
}
