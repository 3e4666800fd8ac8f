package mcp

import (
	"slices"
	"sync"
	"time"
)

// How many idle goroutines of a connection wait for its next calls, and how long.
const (
	maxSpare  = 16
	spareTime = time.Second
)

// workers runs the calls of one connection in goroutines. The stack of a new goroutine has
// to grow several times for a call, which takes a quarter of a small call's CPU. So a
// goroutine that has run a call takes calls that have not begun, and then at most maxSpare
// goroutines stay for spareTime, for later calls. A call never waits for another to end:
// while calls wait, one goroutine is on its way to them. It takes the first call, sends the
// next goroutine on its way, and only then runs the call. So a burst of short calls needs
// few goroutines.
type workers struct {
	over <-chan struct{} // closed when no more calls are expected; then no goroutine stays
	wake chan struct{}   // gets one value for each goroutine that is woken
	all  sync.WaitGroup  // counts the goroutines

	mu      sync.Mutex
	waiting []func() // guarded by mu: calls that have not begun
	coming  bool     // guarded by mu: a goroutine was started or woken and has looked for no call yet
	spare   int      // guarded by mu: number of goroutines that stay, without those that were woken
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
	wake := w.summon()
	w.mu.Unlock()
	if wake {
		w.wake <- struct{}{}
	}
	return true
}

// summon makes sure that a goroutine comes for the calls that wait. The caller holds mu. If
// summon returns true, the caller must send to w.wake after it has released mu.
func (w *workers) summon() (wake bool) {
	if len(w.waiting) == 0 || w.coming {
		return false
	}
	w.coming = true
	if w.spare > 0 {
		w.spare--
		return true
	}
	w.all.Go(func() { // mu is held: otherwise end could already wait, see sync.WaitGroup.Add
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
		wake := w.summon()
		w.mu.Unlock()
		if wake {
			w.wake <- struct{}{}
		}
		f()
		w.mu.Lock()
	}
	w.mu.Unlock()
}

// stay waits until the goroutine is woken, and then returns true. It returns false if no
// more calls are expected, if rest ends first, or if maxSpare goroutines stay already.
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
	woken := w.spare == 0 // all goroutines that stayed were woken, this one too
	if !woken {
		w.spare--
	}
	w.mu.Unlock()
	if woken {
		<-w.wake
	}
	return woken
}
