package browser

import (
	"context"
	"slices"
	"sync"
)

// turns decides which call loads a page next: a bounded number of calls at the same time,
// and tenants in turn, however many calls one of them has waiting.
type turns struct {
	mu      sync.Mutex
	free    int
	most    int // number of calls of one tenant that may wait
	order   []string
	waiting map[string][]chan struct{} // waiting calls by tenant, oldest first
}

func newTurns(slots, most int) *turns {
	return &turns{free: slots, most: most, waiting: map[string][]chan struct{}{}}
}

// take waits for a turn, which the caller must return with give. If the tenant's queue is
// full, it fails immediately with KindFull. If ctx ends, it returns the cause.
func (q *turns) take(ctx context.Context, tenant string) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[tenant]) >= q.most {
		q.mu.Unlock()
		return &Error{Kind: KindFull, Message: "too many of your pages are waiting to be loaded; call again in a moment"}
	}
	mine := make(chan struct{}, 1)
	if len(q.waiting[tenant]) == 0 {
		q.order = append(q.order, tenant)
	}
	q.waiting[tenant] = append(q.waiting[tenant], mine)
	q.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting[tenant], mine); i >= 0 {
		q.remove(tenant, i)
	} else {
		q.pass() // the call got its turn at the same time
	}
	return context.Cause(ctx)
}

// remove removes a waiting call from the queue. q.mu is held.
func (q *turns) remove(tenant string, i int) {
	q.waiting[tenant] = slices.Delete(q.waiting[tenant], i, i+1)
	if len(q.waiting[tenant]) == 0 {
		delete(q.waiting, tenant)
		q.order = slices.DeleteFunc(q.order, func(s string) bool { return s == tenant })
	}
}

// give returns a turn.
func (q *turns) give() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass()
}

// pass gives a turn to the tenant that is next. q.mu is held.
func (q *turns) pass() {
	if len(q.order) == 0 {
		q.free++
		return
	}
	tenant := q.order[0]
	mine := q.waiting[tenant][0]
	q.order = append(q.order[1:], tenant) // the tenant is now behind the others
	q.remove(tenant, 0)
	mine <- struct{}{}
}
