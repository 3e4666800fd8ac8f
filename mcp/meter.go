package mcp

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/policies"
)

// Limits of a meter.
const (
	maxCounters = 10_000
	sweepEvery  = time.Minute
)

// meter counts the calls of each tenant against the limits in the rules that apply to them.
// It is safe for concurrent use.
//
// A limit of 30/h allows 30 calls in one burst and then one every two minutes, so at most 60
// calls in any hour. The counts are kept in memory: they begin anew when a server
// starts.
type meter struct {
	now  func() time.Time
	most int

	mu       sync.Mutex
	counters map[counted]*counter // guarded by mu
	swept    time.Time            // guarded by mu
}

// counted is the key of a counter.
type counted struct{ tenant, file, rule string }

type counter struct {
	limit   policies.RateLimit
	calls   *rate.Limiter // nil if the limit has no rate
	running int
}

func newMeter(now func() time.Time) *meter {
	return &meter{now: now, most: maxCounters, counters: make(map[counted]*counter), swept: now()}
}

// enter counts a call that a decision allows. The caller must call leave when the call has
// ended. If a limit is reached, the decision is a denial, the call is not counted, and
// leave does nothing.
func (m *meter) enter(tenant string, d policies.Decision) (_ policies.Decision, leave func()) {
	none := func() {}
	if d.Verdict != policies.Allow || len(d.Limits) == 0 {
		return d, none
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.sweep(now)
	// All limits are checked before a call is counted in any of them, under one lock.
	var all []*counter
	for _, l := range d.Limits {
		c := m.counter(counted{tenant, l.Source.File, l.Rule}, l, now)
		switch {
		case c == nil:
			return l.Beyond(d, sweepEvery), none
		case l.Concurrent > 0 && c.running >= l.Concurrent:
			return l.Beyond(d, 0), none
		}
		if c.calls != nil {
			if missing := 1 - c.calls.TokensAt(now); missing > 0 {
				return l.Beyond(d, time.Duration(missing/float64(c.calls.Limit())*float64(time.Second))+time.Nanosecond), none
			}
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.running++
		if c.calls != nil {
			c.calls.AllowN(now, 1)
		}
	}
	return d, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range all {
			c.running--
		}
	})
}

// counter returns the counter of a key, and makes it if it does not exist; the caller holds
// mu. It returns nil if there are too many counters: a call that cannot be counted does not
// run.
func (m *meter) counter(key counted, l policies.RateLimit, now time.Time) *counter {
	c := m.counters[key]
	if c == nil {
		if len(m.counters) >= m.most {
			m.swept = time.Time{}
			if m.sweep(now); len(m.counters) >= m.most {
				return nil
			}
		}
		c = &counter{}
		m.counters[key] = c
	}
	if c.limit == l {
		return c
	}
	// The rule is new, or the policy has changed it.
	switch every := rate.Limit(float64(l.Calls) / max(l.Per.Seconds(), 1e-9)); {
	case l.Calls == 0:
		c.calls = nil
	case c.calls == nil:
		c.calls = rate.NewLimiter(every, l.Calls)
		c.calls.SetLimitAt(now, every) // a new limiter allows all its calls immediately
	default:
		c.calls.SetLimitAt(now, every)
		c.calls.SetBurstAt(now, l.Calls)
	}
	c.limit = l
	return c
}

// sweep removes counters that are in the state of a new counter; the caller holds mu.
func (m *meter) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepEvery {
		return
	}
	m.swept = now
	for key, c := range m.counters {
		if c.running == 0 && (c.calls == nil || c.calls.TokensAt(now) >= float64(c.calls.Burst())) {
			delete(m.counters, key)
		}
	}
}
