package mcp

import (
	"slices"
	"sync"
	"time"
)

// Idle goroutines of a connection wait for its next calls: so many, and so long.
const (
	maxSpare  = 16
	spareTime = time.Second
)

// workers runs the calls of one connection in goroutines. The stack of a new goroutine
// has to grow several times for a call, which takes a quarter of a small call's CPU. So a
// goroutine that has run a call takes those that have not begun, and a few goroutines
// stay a while for later calls. No call waits for the end of another: while one has not begun, a
// goroutine is on its way, which takes the first and sends the next goroutine on its way. So the
// calls of a client that sends many at once need as many goroutines as wait for something at a
// time, and most of the short ones need none of their own.
type workers struct {
	over <-chan struct{} // closed when no more calls are expected; then no goroutine stays
	wake chan struct{}   // gets one for each goroutine that is woken
	all  sync.WaitGroup  // of the goroutines

	mu      sync.Mutex
	waiting []func() // guarded by mu: calls that have not begun
	coming  bool     // guarded by mu: a goroutine was started or woken and has looked for no call yet
	spare   int      // guarded by mu: goroutines that stay, without those that were woken
	ended   bool     // guarded by mu: no call begins any more
}

func newWorkers(over <-chan struct{}) *workers {
	return &workers{over: over, wake: make(chan struct{})}
}

// run calls f in a goroutine, or reports false after end.
func (w *workers) run(f func()) bool {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return false
	}
	w.waiting = append(w.waiting, f)
	woken := w.next()
	w.mu.Unlock()
	if woken {
		w.wake <- struct{}{}
	}
	return true
}

// next has a goroutine come for a call that has not begun, if there is one and none comes yet.
// Where it returns true, its caller must wake a goroutine that stays. mu is held.
func (w *workers) next() (woken bool) {
	if len(w.waiting) == 0 || w.coming {
		return false
	}
	w.coming = true
	if w.spare > 0 {
		w.spare--
		return true
	}
	w.all.Go(func() { // with mu held, or end could wait already, see sync.WaitGroup.Add
		rest := time.NewTimer(spareTime)
		defer rest.Stop()
		for {
			w.begin()
			rest.Reset(spareTime)
			if !w.stay(rest.C) {
				return
			}
		}
	})
	return false
}

// end lets no more calls begin, and waits for those that have. It is called when no more
// are expected; a request may still get its turn from one of another session.
func (w *workers) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.all.Wait()
}

// begin runs the calls that have not begun.
func (w *workers) begin() {
	w.mu.Lock()
	w.coming = false
	for len(w.waiting) > 0 {
		f := w.waiting[0]
		w.waiting = slices.Delete(w.waiting, 0, 1)
		woken := w.next()
		w.mu.Unlock()
		if woken {
			w.wake <- struct{}{}
		}
		f()
		w.mu.Lock()
	}
	w.mu.Unlock()
}

// stay waits until the goroutine is woken; false says that it is not needed any more, or
// was not until the end of its rest.
func (w *workers) stay(rest <-chan time.Time) bool {
	w.mu.Lock()
	if w.spare == maxSpare {
		w.mu.Unlock()
		return false
	}
	w.spare++
	w.mu.Unlock()
	select {
	case <-w.wake:
		return true
	case <-w.over:
	case <-rest:
	}
	w.mu.Lock()
	woken := w.spare == 0 // all that stay were, and this one too
	if !woken {
		w.spare--
	}
	w.mu.Unlock()
	if woken {
		<-w.wake
	}
	return woken
}
