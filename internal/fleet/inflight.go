package fleet

import (
	"maps"
	"slices"
	"sync"
)

// inflight is a set of requests that have begun but not ended. It is safe for concurrent
// use.
type inflight[R comparable] struct {
	mu       sync.Mutex
	requests map[R]struct{} // guarded by mu
	closed   bool           // guarded by mu
	idle     chan struct{}  // guarded by mu: closed when the set is closed and empty
}

func newInflight[R comparable]() *inflight[R] {
	return &inflight[R]{requests: make(map[R]struct{}), idle: make(chan struct{})}
}

// begin adds a request, unless the set is closed.
func (i *inflight[R]) begin(r R) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	i.requests[r] = struct{}{}
	return true
}

// end removes a request, and reports whether it was in the set.
func (i *inflight[R]) end(r R) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, begun := i.requests[r]; !begun {
		return false
	}
	delete(i.requests, r)
	if i.closed && len(i.requests) == 0 {
		close(i.idle)
	}
	return true
}

// all returns the requests in the set.
func (i *inflight[R]) all() []R {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.requests))
}

// close makes begin refuse further requests, and returns a channel that is closed when the
// set is empty. A second call returns the same channel.
func (i *inflight[R]) close() (idle <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed && len(i.requests) == 0 {
		close(i.idle)
	}
	i.closed = true
	return i.idle
}
