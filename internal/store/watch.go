package store

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lookAgain is how long a waiter goes without looking whether another process
// has changed what it waits for.
const lookAgain = 500 * time.Millisecond

// Watch lets goroutines wait until something that is kept under an id has
// changed. The zero value is ready. Its methods are safe for concurrent use.
type Watch struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{} // guarded by mu: closed when the id has changed
	stopped bool                       // guarded by mu
}

// Until calls look until that is done: at once, whenever this process wakes the
// id, and every half second, since other processes write too. It returns when
// look is done or fails, with nil after most or after Stop, and with the cause of
// ctx when that ends.
func (w *Watch) Until(ctx context.Context, id string, most time.Duration, look func() (done bool, err error)) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		changed, stopped, forget := w.on(id)
		done, err := look()
		if done || stopped || err != nil {
			forget()
			return err
		}
		select {
		case <-changed:
		case <-again.C:
		case <-timer.C:
			forget()
			return nil
		case <-ctx.Done():
			forget()
			return context.Cause(ctx)
		}
		forget()
	}
}

// on is closed when the id changes. The caller calls forget.
func (w *Watch) on(id string) (changed <-chan struct{}, stopped bool, forget func()) {
	ch := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = make(map[string][]chan struct{})
	}
	w.waiting[id] = append(w.waiting[id], ch)
	return ch, w.stopped, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting[id] = slices.DeleteFunc(w.waiting[id], func(c chan struct{}) bool { return c == ch })
		if len(w.waiting[id]) == 0 {
			delete(w.waiting, id)
		}
	}
}

// Wake lets those look again who wait for an id.
func (w *Watch) Wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.waiting[id] {
		close(ch)
	}
	delete(w.waiting, id)
}

// Stop has all who wait look once more and return, and nobody wait from now on.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, all := range w.waiting {
		for _, ch := range all {
			close(ch)
		}
	}
	clear(w.waiting)
}
