package mcp

import (
	"sync"
	"sync/atomic"
)

// maxSpare is how many idle goroutines of a connection wait for its next calls.
const maxSpare = 2

// workers runs the calls of one connection in goroutines, and keeps a few of those
// between calls: the stack of a new goroutine would have to grow for each call, which
// takes a fifth of a small call's CPU. Wait returns after over is closed and when all
// have returned.
type workers struct {
	over  <-chan struct{} // closed when no more calls are expected
	next  chan func()
	all   sync.WaitGroup
	spare atomic.Int32
}

func newWorkers(over <-chan struct{}) *workers {
	return &workers{over: over, next: make(chan func())}
}

// run calls f in a goroutine.
func (w *workers) run(f func()) {
	select {
	case w.next <- f:
	default:
		w.all.Go(func() {
			for f != nil {
				f()
				f = w.wait()
			}
		})
	}
}

// wait returns the next function, or nil for a goroutine that is not needed.
func (w *workers) wait() (next func()) {
	defer w.spare.Add(-1)
	if w.spare.Add(1) > maxSpare {
		return nil
	}
	select {
	case next = <-w.next:
	case <-w.over:
	}
	return next
}
