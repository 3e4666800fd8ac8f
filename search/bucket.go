package search

import (
	"math"
	"time"

	"belljar.dev/search/engine"
)

// level is how much of an engine's rate is used up: a bucket of tokens that is
// full where spent is 0. It is kept on disk with the engine's health, so that
// ten starts of a program are no ten buckets.
type level struct {
	spent float64
	at    time.Time // when spent was right
}

// take takes one token and is 0, or takes none and is how long there will be
// none. A rate without a time between requests has no bound.
func (l *level) take(now time.Time, r engine.Rate) time.Duration {
	if r.Every <= 0 {
		return 0
	}
	burst := math.Max(1, float64(r.Burst))
	l.settle(now, r)
	if missing := l.spent + 1 - burst; missing > 0 {
		return max(time.Millisecond, time.Duration(missing*float64(r.Every)))
	}
	l.spent++
	return 0
}

// settle gives back what time has given back. A clock that went back gives
// nothing, and what was spent cannot be more than the bucket holds.
func (l *level) settle(now time.Time, r engine.Rate) {
	if passed := now.Sub(l.at); passed > 0 {
		l.spent = math.Max(0, l.spent-float64(passed)/float64(r.Every))
	}
	l.at = now
	l.spent = math.Min(l.spent, math.Max(1, float64(r.Burst)))
}
