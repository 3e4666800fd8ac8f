package search

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/search/engine"
)

// State is how an engine stands with us.
type State int

// The states.
const (
	Healthy  State = iota // asked and waited for
	Degraded              // asked; its last answers were good after several bad ones, so nobody waits for it
	Open                  // not asked until a time has passed, and then by a probe that nobody waits for
)

// String is the state as it stands on the wire.
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

// How long an engine is left alone: at its first failure of a kind, doubled at
// each further one up to the longest time. A block of DuckDuckGo was seen to
// last an hour; a failure to connect mostly is over at once.
const (
	limitedFirst, limitedMost = time.Minute, 30 * time.Minute
	blockedFirst, blockedMost = 10 * time.Minute, 6 * time.Hour
	deniedFirst, deniedMost   = 30 * time.Minute, 6 * time.Hour // HTTP 401 and 403
	driftFirst, driftMost     = time.Hour, 6 * time.Hour
	failedFirst, failedMost   = 2 * time.Second, 2 * time.Minute
	askedMost                 = 6 * time.Hour // what an engine may ask for by Retry-After
)

// latencies is how many times of answers are remembered of an engine.
const latencies = 16

// latenciesLeast is of how many something can be said about the slow ones.
const latenciesLeast = 4

// A failure to answer after a good answer is forgiven, and makes an engine
// shaky by so much; each good answer takes 1 of that away. From shakyMost on,
// failures are not forgiven: an engine that fails each third time is as bad as one
// that fails always.
const shakyBy, shakyMost = 3, 4

// doubtful is from how many failures in a row, less the successes since, an
// engine is not waited for.
const doubtful = 2

// health is what is known of one engine, for all tenants: it is about the
// address that all of them ask from.
type health struct {
	level   level
	fails   int // in a row; one less for each success
	last    engine.Outcome
	since   time.Time // of the last change
	until   time.Time // before which it is not asked; zero where it is
	probing bool      // a probe is under way
	good    bool      // its last answer was one
	shaky   int       // see shakyBy
	drifted uint64    // mark of the query of a drift that has not opened it; 0 for none

	took [latencies]time.Duration
	n    int // answers that were timed
}

// book is the health of all engines. It may be used by many at once.
type book struct {
	jitter func() float64 // from 0 up to 1

	mu    sync.Mutex
	all   map[string]*health
	dirty bool // something has changed since it was written
}

func newBook() *book { return &book{jitter: rand.Float64, all: make(map[string]*health)} }

// of is the engine's health; mu must be held.
func (b *book) of(name string) *health {
	h := b.all[name]
	if h == nil {
		h = &health{}
		b.all[name] = h
	}
	return h
}

// turn is whether an engine is asked now, and as what.
type turn struct {
	state State
	ask   bool
	retry time.Duration  // where it is not asked: when it can be
	why   engine.Outcome // where it is not asked: what it did last; RateLimited where its rate is used up
}

// peek is the turn that an engine would have, without taking it.
func (b *book) peek(e *engine.Engine) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(e.Name).state()
}

// take is the turn of an engine. One that is asked has used a token, and must
// be told of by note or dropped.
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

// state is how an engine stands. One whose time is over stays open until a
// probe came back well.
func (h *health) state() State {
	switch {
	case !h.until.IsZero():
		return Open
	case h.fails >= doubtful:
		return Degraded
	}
	return Healthy
}

// told is what note learns of an answer.
type told struct {
	outcome engine.Outcome
	status  int           // of HTTP, 0 where there was no answer
	retry   time.Duration // what the engine asks for
	took    time.Duration
	query   uint64 // a mark of the query, which nobody else can make
}

// note takes down what became of an engine that take has let through, and is
// when it will be asked again.
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
		// One page that is not understood may be one odd page.
		if h.until.IsZero() && (h.drifted == 0 || h.drifted == t.query) {
			h.drifted = max(1, t.query)
			return 0
		}
	case engine.Timeout, engine.HTTPError:
		// One failure of one that answers as a rule is forgiven: to leave it
		// alone would lose more than to wait for it once more.
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

// openFor is how long an engine is left alone at its first failure of a kind,
// and at most.
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

// denied reports whether a status says that we are not wanted.
func denied(status int) bool {
	return status == http.StatusForbidden || status == http.StatusUnauthorized
}

// drop gives a turn back that was not used: the query was cancelled.
func (b *book) drop(e *engine.Engine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(e.Name).probing = false
}

// slow is the longest that an engine's last answers took, and false where too
// few are known: of 16 answers, what 94 in a hundred do not exceed.
func (b *book) slow(e *engine.Engine) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	if h.n < latenciesLeast {
		return 0, false
	}
	return slices.Max(h.took[:min(h.n, latencies)]), true
}

// retry is when an open engine will be asked again, 0 where it is not open.
func (b *book) retry(e *engine.Engine, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of(e.Name)
	if h.until.IsZero() {
		return 0
	}
	return max(time.Second, h.until.Sub(now))
}

// times are those of the last answers, the newest last.
func (h *health) times() []time.Duration {
	if h.n <= latencies {
		return slices.Clone(h.took[:h.n])
	}
	at := h.n % latencies
	return slices.Concat(h.took[at:], h.took[:at])
}

// Health is how one engine stands, for people.
type Health struct {
	Engine string
	State  State
	Last   engine.Outcome // None where it was not asked yet
	Since  time.Time      // when Last came
	Retry  time.Duration  // until it is asked again; 0 where it can be
	Slow   time.Duration  // the longest of its last answers; 0 where none is known
	// Took are the times of its last answers, the newest last.
	Took []time.Duration
}

// snapshot is the health of some engines.
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
