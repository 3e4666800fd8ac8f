package console

import (
	"sync"
	"time"
)

// Bounds of events.
const (
	ringSize   = 4096 // number of events that are kept
	maxStreams = 16   // number of streams of one token
	maxBatch   = 64   // number of events that a stream takes at a time
)

// event reports that something has changed, but not how. A page that shows the thing
// requests it again.
type event struct {
	Seq  int64     `json:"seq"`
	Kind string    `json:"kind"`
	ID   string    `json:"id,omitempty"`
	At   time.Time `json:"at"`

	tenant string // tenant of the thing that has changed; empty for things of the server
}

// ring keeps the last events. A reader requests the events after the last number that it
// has seen, so a slow reader delays nobody and needs no memory here. A ring is safe for
// concurrent use.
type ring struct {
	mu     sync.Mutex
	events []event           // guarded by mu: events, each at its number modulo the size
	next   int64             // guarded by mu: number of the next event
	from   int64             // guarded by mu: number of the first event of this process
	news   chan struct{}     // guarded by mu: closed at the next event
	open   map[sha256sum]int // guarded by mu: number of streams by token
	ended  bool              // guarded by mu
}

// newRing returns a ring without events. The numbers begin at the current time in
// microseconds, so they are larger than the numbers of an earlier process.
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

// after returns the events after number seq, at most maxBatch of them, the newest number,
// and a channel that is closed at the next event. gap reports that the ring does not have
// all of these events any more, or that no event with the number seq exists yet. The reader
// must then read everything again, and continue with the events after now.
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

// look asks follow to compare the state of the server with the state before. It does not
// wait for the result.
func (c *Console) look() {
	select {
	case c.looks <- struct{}{}:
	default: // a request that still waits serves this caller too
	}
}
