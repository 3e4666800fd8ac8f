package mcp

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Calls that wait for each other all begin, whichever goroutines are idle, busy or on their
// way. This also holds when no more calls are expected.
func TestWorkersKeepNoCallWaiting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	over := make(chan struct{})
	w := newWorkers(over)
	for round := range 500 {
		if round == 400 {
			close(over)
		}
		var begun, short sync.WaitGroup
		release := make(chan struct{})
		for range random.IntN(8) {
			begun.Add(1)
			w.run(func() { begun.Done(); <-release })
			for range random.IntN(4) { // these may leave goroutines that stay or that look for a call
				short.Add(1)
				w.run(short.Done)
			}
		}
		begun.Wait()
		short.Wait()
		close(release)
	}
	w.end()
	if w.run(func() { t.Error("a call began after the end") }) {
		t.Error("a call was taken after the end")
	}
	if w.coming || len(w.waiting) != 0 {
		t.Errorf("a goroutine is on its way: %v, to %d calls; want none", w.coming, len(w.waiting))
	}
}
