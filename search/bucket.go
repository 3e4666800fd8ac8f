package search

import (
	"math"
	"time"

	"belljar.dev/search/engine"
)

// level is the used part of an engine's rate: a token bucket that is full if spent is 0. It
// is kept on disk with the engine's health, so that ten starts of a program do not get ten
// full buckets.
type level struct {
	spent float64
	at    time.Time // time for which spent is right
}

// take takes one token and returns 0. If the bucket is empty, take returns how long it will
// be until it has a token. A rate without a time between requests has no bound.
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

// settle refills the bucket for the time that has passed. If the clock went back, it
// refills nothing. It also limits spent to what the bucket holds: the level on the disk may be
// that of a larger bucket.
func (l *level) settle(now time.Time, r engine.Rate) {
	if passed := now.Sub(l.at); passed > 0 {
		l.spent = math.Max(0, l.spent-float64(passed)/float64(r.Every))
	}
	l.at = now
	l.spent = math.Min(l.spent, math.Max(1, float64(r.Burst)))
}
