package search

import (
	"time"

	"belljar.dev/policies"
)

// SetPatience makes the fan stop waiting for engines earlier than in a program.
func (f *Fan) SetPatience(d time.Duration) { f.patience = d }

// Underway returns the number of flights that have not ended.
func (f *Fan) Underway() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.active)
}

// ForgetAnswers empties the cache, so that the next query asks the engines.
func (f *Fan) ForgetAnswers() { f.cache = newCache() }

// Age makes everything in the cache older by d.
func (f *Fan) Age(d time.Duration) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	for _, s := range f.cache.all {
		for m, k := range s.kept {
			k.born = k.born.Add(-d)
			s.kept[m] = k
		}
	}
}

// Waiting returns the number of callers that wait for flights.
func (f *Fan) Waiting() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for fl := range f.active {
		n += fl.waiting
	}
	return n
}

// Wake makes all engines that are left alone due for a probe.
func (f *Fan) Wake() {
	f.book.mu.Lock()
	defer f.book.mu.Unlock()
	for _, h := range f.book.all {
		if !h.until.IsZero() {
			h.until = time.Now()
		}
	}
}

// CloseIdle closes the doors that are not in use.
func (f *Fan) CloseIdle() { f.doors.CloseIdle() }

// UseDoor sets Config.Door.
func (f *Fan) UseDoor(open func(policies.Grant) (Door, error)) { f.cfg.Door = open }
