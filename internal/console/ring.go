package console

import (
	"sync"
	"time"
)

// Bounds of events.
const (
	ringSize   = 4096 // events that are kept
	maxStreams = 16   // of one token
	maxBatch   = 64   // events that a stream takes at once
)

// event says that something has changed, but not how: a page that shows it asks for it again.
type event struct {
	Seq  int64     `json:"seq"`
	Kind string    `json:"kind"`
	ID   string    `json:"id,omitempty"`
	At   time.Time `json:"at"`

	tenant string // whose thing has changed; empty for one of the server's
}

// ring keeps the last events. A reader asks for those after the last number that it has, so
// a slow reader delays nobody and needs no memory here. A ring is safe for concurrent use.
type ring struct {
	mu     sync.Mutex
	events []event           // guarded by mu: each at its number modulo the size
	next   int64             // guarded by mu: the number of the next event
	from   int64             // guarded by mu: the number of the first event of this process
	news   chan struct{}     // guarded by mu: closed at the next event
	open   map[sha256sum]int // guarded by mu: streams by token
	ended  bool              // guarded by mu
}

// newRing returns a ring without events. The numbers begin at the time now in microseconds,
// so those of an earlier process are lower.
func newRing(now time.Time) *ring {
	return &ring{events: make([]event, ringSize), next: now.UnixMicro(), from: now.UnixMicro(), news: make(chan struct{}), open: make(map[sha256sum]int)}
}

// add adds an event.
func (r *ring) add(t thing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.events[r.next%ringSize] = event{r.next, t.kind, t.id, time.Now().UTC(), t.tenant}
	r.next++
	r.wake()
}

// wake wakes the streams. The caller holds r.mu.
func (r *ring) wake() {
	close(r.news)
	r.news = make(chan struct{})
}

// end ends all streams.
func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		r.wake()
	}
}

// last returns the number of the newest event.
func (r *ring) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1
}

// after returns the events that follow number seq, at most maxBatch, the newest number, and a
// channel that is closed at the next event. gap reports that the ring does not have all of
// them any more, or that no event has had the number seq yet: the reader then asks for
// everything again, and next for the events after now.
func (r *ring) after(seq int64) (some []event, gap bool, now int64, news <-chan struct{}, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.next - 1
	oldest := max(r.from, r.next-ringSize)
	if seq < oldest-1 || seq > now {
		return nil, true, now, r.news, r.ended
	}
	for n := seq + 1; n <= now && len(some) < maxBatch; n++ {
		some = append(some, r.events[n%ringSize])
	}
	return some, false, now, r.news, r.ended
}

// enter counts a stream of a token until leave is called. ok is false if the token has
// maxStreams already.
func (r *ring) enter(of sha256sum) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[of] >= maxStreams {
		return nil, false
	}
	r.open[of]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open[of]--; r.open[of] == 0 {
			delete(r.open, of)
		}
	}, true
}

// streams returns how many streams are open.
func (r *ring) streams() (all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.open {
		all += n
	}
	return all
}

// look asks follow to compare the server with what it was before, and does not wait for it.
func (c *Console) look() {
	select {
	case c.looks <- struct{}{}:
	default: // a request that still waits serves for this one, too
	}
}
