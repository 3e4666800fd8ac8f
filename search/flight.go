package search

import (
	"context"
	"errors"
	"sync"
	"time"

	"belljar.dev/sandbox/egress"
)

// errLeft is the cause with which a flight is cancelled when its last caller has left.
var errLeft = errors.New("nobody waits for the search any more")

// flight is one query under way, for all callers that ask the same for one tenant. It
// publishes its report once (ready), and continues until the late engines have answered or
// their time is up (done), because their answers are remembered.
type flight struct {
	tenant string
	mark   mark
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when report and err are set
	done   chan struct{} // closed when nothing of the flight runs any more

	report *Report // like err, not changed after ready
	err    error

	waiting int // number of callers that wait; guarded by Fan.mu

	mu       sync.Mutex
	watchers map[int]func(Progress) // callbacks by number; guarded by mu
	next     int                    // number of the next watcher; guarded by mu
}

// Progress is a notice that one engine has answered, the Done-th of Total.
type Progress struct {
	Asked
	Done, Total int
}

// leave removes one waiting caller. It reports whether that was the last caller, so that
// the flight was cancelled.
func (f *Fan) leave(fl *flight) (ends bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.waiting--
	if fl.waiting > 0 || f.flights[fl.mark] != fl {
		return false
	}
	// No caller may join a flight that is cancelled.
	delete(f.flights, fl.mark)
	fl.cancel(errLeft)
	return true
}

// publish gives the report of a flight to its callers.
func (f *Fan) publish(fl *flight, r *Report, err error) {
	f.mu.Lock()
	if f.flights[fl.mark] == fl {
		delete(f.flights, fl.mark) // later callers find the report in the cache, or start a new flight
	}
	f.mu.Unlock()
	fl.report, fl.err = r, err
	close(fl.ready)
}

// land releases what a flight holds when it has ended.
func (f *Fan) land(fl *flight, door *egress.Loan[Door]) {
	f.doors.Give(door)
	f.mu.Lock()
	delete(f.active, fl)
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
			f.cfg.Log.Warn("the health of search engines cannot be stored", "err", err)
		}
	}
}

// watch calls tell for each engine that answers, until the returned function is called.
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

// tell calls all watchers. It holds the lock, so that no watcher is called after it was
// removed.
func (fl *flight) tell(p Progress) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	for _, tell := range fl.watchers {
		tell(p)
	}
}
