package search

import (
	"context"
	"errors"
	"sync"
	"time"

	"belljar.dev/sandbox/egress"
)

// errLeft is why a flight ends for which nobody waits any more.
var errLeft = errors.New("nobody waits for the search any more")

// flight is one query under way, for all who ask the same for one tenant. It
// gives its report out once (ready), and goes on until the engines that are
// late have answered or their time is up (done): what they say is remembered.
type flight struct {
	tenant string
	mark   mark
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when report and err stand
	done   chan struct{} // closed when nothing of it runs any more

	report *Report // as is err, not changed after ready
	err    error

	waiting int // guarded by Fan.mu

	mu       sync.Mutex
	watchers map[int]func(Progress) // guarded by mu
	next     int                    // guarded by mu
}

// Progress is that one engine has answered: the Done-th of Total.
type Progress struct {
	Asked
	Done, Total int
}

// leave is one who waited less, and reports whether it was the last and the
// flight ends for it.
func (f *Fan) leave(fl *flight) (ends bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.waiting--
	if fl.waiting > 0 || f.flights[fl.mark] != fl {
		return false
	}
	// Nobody may join what is about to end.
	delete(f.flights, fl.mark)
	fl.cancel(errLeft)
	return true
}

// publish gives a flight's report out.
func (f *Fan) publish(fl *flight, r *Report, err error) {
	f.mu.Lock()
	if f.flights[fl.mark] == fl {
		delete(f.flights, fl.mark) // a caller that asks from now on finds it in the cache, or asks anew
	}
	f.mu.Unlock()
	fl.report, fl.err = r, err
	close(fl.ready)
}

// land ends a flight.
func (f *Fan) land(fl *flight, door *egress.Loan[Door]) {
	f.doors.Give(door)
	f.mu.Lock()
	delete(f.under, fl)
	if f.tenants[fl.tenant]--; f.tenants[fl.tenant] == 0 {
		delete(f.tenants, fl.tenant)
	}
	write := f.cfg.State != "" && time.Since(f.stored) > healthInterval
	if write {
		f.stored = time.Now()
	}
	f.mu.Unlock()
	close(fl.done)
	if write {
		if err := f.book.store(f.cfg.State); err != nil {
			f.cfg.Log.Warn("the health of search engines is not kept", "err", err)
		}
	}
}

// watch has tell told of engines until the function that it returns is called.
func (fl *flight) watch(tell func(Progress)) func() {
	if tell == nil {
		return func() {}
	}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	id := fl.next
	fl.next++
	fl.watchers[id] = tell
	return func() {
		fl.mu.Lock()
		defer fl.mu.Unlock()
		delete(fl.watchers, id)
	}
}

// tell reports to all watchers. The lock is held, so that no watcher is called that has
// left.
func (fl *flight) tell(p Progress) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	for _, tell := range fl.watchers {
		tell(p)
	}
}
