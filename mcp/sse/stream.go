package sse

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

// Patience is how long a stream waits for a plain answer before it becomes a stream of
// events. A proxy that keeps headers until the first byte of a body comes would
// give a slow call up otherwise.
const Patience = 500 * time.Millisecond

// keepAlive is how often a stream of events gets a comment. It is below the shortest
// common idle timeout of proxies, 30 s.
const keepAlive = 15 * time.Second

// backlog is how many bytes wait for a client before notifications are lost.
const backlog = 1 << 20

// Errors of Request and Notify, and ErrEnded of Serve: the stream was to end before there
// was anything to say.
var (
	ErrEnded  = errors.New("the session has ended")
	ErrOver   = errors.New("the answer of this stream was given")
	ErrNobody = errors.New("nobody reads this stream")
	ErrFull   = errors.New("the client does not read what waits for it")
)

// Stream is what a server says in answer to one HTTP request: events, and at its end an
// answer. A client that was cut off can go on with it in another request. All methods
// but Serve and Reply return at once; all are safe for concurrent use.
type Stream struct {
	log *Log // nil if no event is kept

	mu     sync.Mutex
	reader *reader       // guarded by mu: writes to the client; nil while nobody reads
	queue  []event       // guarded by mu: what the reader has not written
	bytes  int           // guarded by mu: of those
	events bool          // guarded by mu: it has become a stream of events
	over   bool          // guarded by mu: its answer was given
	room   chan struct{} // guarded by mu: closed when the queue is empty or nobody reads; nil while no Reply waits
}

// New returns a stream without events, whose first Serve is still to come.
func New() *Stream { return &Stream{reader: newReader()} }

// Open returns a stream whose first Serve is still to come. Messages that are sent
// meanwhile wait for it.
func (l *Log) Open() *Stream {
	s := &Stream{log: l}
	s.reader = newReader()
	return s
}

// Standing returns a stream that begins as a stream of events and has no end. Until the
// first Serve nobody reads it.
func (l *Log) Standing() *Stream { return &Stream{log: l, events: true} }

// event is a message to the client.
type event struct {
	number int64  // in the log; zero for none
	frame  []byte // one line; nil for an event that only has an id
	with   []wire.Delivery
	last   bool // the answer
}

// reader is an HTTP request that reads a stream.
type reader struct {
	served bool          // guarded by Stream.mu: it has come
	cut    time.Duration // guarded by Stream.mu: not zero if the reader ends: its client should come back after this time
	begin  func()        // guarded by Stream.mu: starts the goroutine that writes; nil if one does
	wake   chan struct{} // gets a token when there is something to do
	gone   chan struct{} // closed when another one has taken its place
}

func newReader() *reader {
	return &reader{wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (r *reader) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Request sends a request of the server. It fails unless a client reads the stream.
func (s *Stream) Request(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return ErrOver
	case s.reader == nil:
		return ErrNobody
	case s.bytes > backlog:
		return ErrFull
	}
	s.push(event{frame: frame})
	return nil
}

// Notify sends a notification. While nobody reads, it is only kept for a client that
// comes back; while the client reads too slowly, it is lost.
func (s *Stream) Notify(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return ErrOver
	case s.reader == nil && !s.events:
		return ErrNobody
	case s.bytes > backlog:
		return ErrFull
	}
	s.push(event{frame: frame})
	return nil
}

// Answer sends the answer, which ends the stream; with a nil frame the stream ends without
// an answer. with gets to know whether it was written. It counts as lost if nobody reads.
func (s *Stream) Answer(frame []byte, with ...wire.Delivery) error {
	s.mu.Lock()
	nobody := s.reader == nil
	if s.over || nobody && !s.events {
		s.over = true
		s.mu.Unlock()
		lost(with)
		return ErrNobody
	}
	s.over = true
	switch {
	case frame == nil && !nobody:
		s.reader.poke()
	case frame != nil && nobody:
		s.push(event{frame: frame, last: true})
	case frame != nil:
		s.push(event{frame: frame, with: with, last: true})
	}
	s.mu.Unlock()
	if nobody || frame == nil {
		lost(with)
	}
	return nil
}

// Reply sends an answer on a stream that goes on behind it. While more waits than a client
// that reads slowly may leave, Reply waits as well: until the client has read, or is gone.
// An answer that nobody reads is kept for a client that comes back, and counts as lost.
func (s *Stream) Reply(frame []byte, with ...wire.Delivery) {
	s.mu.Lock()
	for s.reader != nil && s.bytes > backlog {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		<-room
		s.mu.Lock()
	}
	nobody := s.reader == nil
	if nobody {
		s.push(event{frame: frame})
	} else {
		s.push(event{frame: frame, with: with})
	}
	s.mu.Unlock()
	if nobody {
		lost(with)
	}
}

// Full reports whether more waits for the client than one that reads slowly may leave.
func (s *Stream) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes > backlog
}

// emptied notes that nothing waits for a client any more; mu is held.
func (s *Stream) emptied() {
	s.queue, s.bytes = nil, 0
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// Cut ends the response that a client reads now. The client can go on with the stream in
// another request, and is asked to wait for so long before. It does nothing where no
// event is kept.
func (s *Stream) Cut(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != nil && s.log != nil {
		s.reader.cut = max(wait, time.Millisecond)
		s.reader.poke()
		if s.reader.begin != nil {
			s.reader.begin()
		}
	}
}

func lost(with []wire.Delivery) {
	for _, o := range with {
		o.Done(false)
	}
}

// push notes an event, and wakes the reader; mu is held.
func (s *Stream) push(e event) {
	if s.events {
		s.log.add(s, &e)
	}
	if s.reader == nil {
		return
	}
	s.queue = append(s.queue, e)
	s.bytes += len(e.frame)
	s.reader.poke()
	if s.reader.begin != nil && !e.last {
		s.reader.begin()
	}
}

// Serving is how one HTTP request reads a stream.
type Serving struct {
	// Status is called before the answer is written as plain JSON, and returns its
	// status. It may set headers. If it is nil, each answer is an event.
	Status func(http.Header) int
	Prime  bool            // begin with an event that only has an id, for a client that may be cut
	First  []byte          // an event before all others, which is not kept; nil for none
	After  int64           // number of the event that the client had last; zero for a client that is new
	Ended  <-chan struct{} // closed when the stream must end; nil for never
}

// FromStart is the Serving.After of a client that is not new, and had no event yet.
const FromStart = -1

// Serve writes the stream to a client until the answer is written, ctx ends, Ended is
// closed, or another Serve takes over. The error says that the client is gone.
func (s *Stream) Serve(ctx context.Context, rw http.ResponseWriter, o Serving) error {
	r := s.take(o.After)
	defer s.leave(r)
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	return s.write(ctx, rw, o, r, timer)
}

// ServeWhile is Serve with a function that gives the answer, and runs meanwhile. Most
// answers come in time and alone; for them it needs no other goroutine.
func (s *Stream) ServeWhile(ctx context.Context, rw http.ResponseWriter, o Serving, run func()) error {
	r := s.take(o.After)
	defer s.leave(r)
	var once sync.Once // write or writeRest, whichever comes first
	written := make(chan error, 1)
	begin := func() {
		once.Do(func() {
			go func() {
				timer := time.NewTimer(0)
				defer timer.Stop()
				written <- s.write(ctx, rw, o, r, timer)
			}()
		})
	}
	s.mu.Lock()
	r.begin = begin
	s.mu.Unlock()
	late := time.AfterFunc(Patience, begin)
	defer late.Stop()
	run()
	_ = s.Answer(nil) // unless it gave one
	once.Do(func() { written <- s.writeRest(ctx, rw, o, r, late) })
	return <-written
}

// writeRest is write when all that is to be said was said. That is one plain answer,
// nearly always.
func (s *Stream) writeRest(ctx context.Context, rw http.ResponseWriter, o Serving, r *reader, timer *time.Timer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if plain, answer := s.plain(o); plain {
		out := newResponse(rw)
		defer out.end()
		return out.plain(answer, o.Status)
	}
	r.poke()
	return s.write(ctx, rw, o, r, timer)
}

// write is Serve for a reader. timer fires when the client needs a sign of life.
func (s *Stream) write(ctx context.Context, rw http.ResponseWriter, o Serving, r *reader, timer *time.Timer) error {
	out := newResponse(rw)
	defer out.end()
	if o.Status == nil {
		r.poke() // nothing to wait for: the headers and a comment go out at once
	}
	for {
		silent := false // for so long that the client needs a sign of life
		ended := false
		select {
		case <-r.wake:
		case <-timer.C:
			silent = true
		case <-ctx.Done():
			return ctx.Err()
		case <-o.Ended:
			if !out.begun {
				return ErrEnded
			}
			ended = true // what waits still goes out
		case <-r.gone:
			return nil
		}
		if err := ctx.Err(); err != nil { // both may have come
			return err
		}
		if !out.begun {
			plain, answer := s.plain(o)
			if plain {
				return out.plain(answer, o.Status)
			}
			if err := out.begin(); err != nil {
				return err
			}
			silent = false
			if o.First != nil {
				if err := out.write(o.First); err != nil {
					return err
				}
			}
			if o.Prime {
				s.prime()
			}
		}
		over, err := s.writeAll(out, r)
		if over || ended || err != nil {
			return err
		}
		if silent {
			if err := out.comment(); err != nil {
				return err
			}
		}
		timer.Reset(keepAlive)
	}
}

// writeAll writes what waits for a reader. over reports that nothing follows for it.
func (s *Stream) writeAll(out *response, r *reader) (over bool, err error) {
	all, over, cut := s.unwritten(r)
	for i, e := range all {
		if err := out.event(s.log.id(e), e); err != nil {
			for _, e := range all[i+1:] {
				lost(e.with)
			}
			return true, err
		}
	}
	if over || cut > 0 {
		return true, out.retry(cut)
	}
	return false, nil
}

// take makes a request the reader of the stream.
func (s *Stream) take(after int64) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reader
	if r == nil || r.served {
		if r != nil {
			close(r.gone)
		}
		r = newReader()
		s.reader = r
	}
	r.served = true
	if after != 0 && s.log != nil {
		s.again(max(after, 0))
	}
	if len(s.queue) > 0 || s.over {
		r.poke()
	}
	return r
}

// again queues what came after an event that the client has; mu is held. Events that wait
// and are not kept any more go first: they are older.
func (s *Stream) again(after int64) {
	kept := s.log.after(s, after)
	all := slices.DeleteFunc(slices.Clone(s.queue), func(e event) bool {
		return e.number <= after || slices.ContainsFunc(kept, func(k event) bool { return k.number == e.number })
	})
	s.queue, s.bytes = append(all, kept...), 0
	for _, e := range s.queue {
		s.bytes += len(e.frame)
	}
}

// leave notes that a reader is gone. Events that it has not written are lost, unless they
// are kept.
func (s *Stream) leave(r *reader) {
	s.mu.Lock()
	if s.reader != r {
		s.mu.Unlock()
		return // the next one has what is left
	}
	left := s.queue
	s.reader = nil
	s.emptied()
	s.mu.Unlock()
	for _, e := range left {
		lost(e.with)
	}
}

// plain reports whether the stream has only an answer to send, and returns that; an answer
// without content has a nil frame. Otherwise the stream becomes one of events.
func (s *Stream) plain(o Serving) (_ bool, answer event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.events && o.Status != nil && s.over {
		switch {
		case len(s.queue) == 0:
			return true, event{}
		case len(s.queue) == 1 && s.queue[0].last:
			answer = s.queue[0]
			s.queue, s.bytes = nil, 0
			return true, answer
		}
	}
	if !s.events {
		s.events = true
		for i := range s.queue {
			s.log.add(s, &s.queue[i])
		}
	}
	return false, event{}
}

// prime sends an event that only has an id.
func (s *Stream) prime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil && len(s.queue) == 0 {
		s.push(event{})
	}
}

// unwritten takes what waits for a reader. over reports that nothing follows, and cut
// that its client should go on with another one.
func (s *Stream) unwritten(r *reader) (all []event, over bool, cut time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != r {
		return nil, false, 0 // its channel gone says so
	}
	all = s.queue
	s.emptied()
	return all, s.over, r.cut
}
