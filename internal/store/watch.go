package store

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lookAgain is the interval at which a waiter checks whether another process has made the
// change.
const lookAgain = 500 * time.Millisecond

// Watch lets goroutines wait until the entry with an ID has changed. The zero value is
// ready to use. Its methods are safe for concurrent use.
type Watch struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{} // guarded by mu: channels by ID; closed when the entry with the ID has changed
	stopped bool                       // guarded by mu
}

// Until calls look until it reports true: immediately, whenever this process wakes the ID,
// and every half second, since other processes write too. Until returns when look reports
// true or fails. It returns nil after the time most and after Stop, and the cause of ctx
// when ctx ends.
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

// on returns a channel that is closed when the entry with the ID changes. The caller calls
// forget.
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

// Wake makes the callers that wait for an ID look again.
func (w *Watch) Wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.waiting[id] {
		close(ch)
	}
	delete(w.waiting, id)
}

// Stop makes all callers of Until look once more and return. Later calls of Until do not
// wait.
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
