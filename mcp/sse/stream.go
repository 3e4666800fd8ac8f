package sse

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp/wire"
)

// Patience is how long a stream waits for a plain answer before it becomes a stream of
// events. Some proxies hold headers back until the first byte of a body, and would give up
// a slow call.
const Patience = 500 * time.Millisecond

// keepAlive is the longest time between two comments of a stream of events. It is below the
// shortest common idle timeout of proxies, 30 s.
const keepAlive = 15 * time.Second

// backlog is how many bytes may wait for a client before notifications are lost.
const backlog = 1 << 20

// The errors of Request and Notify. Serve returns ErrEnded if the stream had to end before
// anything was written.
var (
	ErrEnded  = errors.New("the session has ended")
	ErrOver   = errors.New("the answer of this stream has been sent")
	ErrNobody = errors.New("nobody reads this stream")
	ErrFull   = errors.New("the client does not read its waiting messages")
)

// Stream contains a server's messages in answer to one HTTP request: events, and at its end
// an answer. A client that was cut off can resume it in another request. All methods except
// Serve and Reply return immediately; all are safe for concurrent use.
type Stream struct {
	log *Log // nil if no event is kept

	mu     sync.Mutex
	reader *reader       // guarded by mu: writes to the client; nil while nobody reads
	queue  []event       // guarded by mu: events that the reader has not written yet
	bytes  int           // guarded by mu: total bytes of queue
	events bool          // guarded by mu: it has become a stream of events
	over   bool          // guarded by mu: its answer has been given
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
	number int64  // number of the event in the log; zero if it is not logged
	frame  []byte // one line; nil for an event that only has an id
	with   []wire.Delivery
	last   bool // the event is the answer
}

// reader is an HTTP request that reads a stream.
type reader struct {
	served bool // guarded by Stream.mu: the request has arrived
	// guarded by Stream.mu: if not zero, the reader ends, and its client should come back
	// after this time
	cut   time.Duration
	begin func()        // guarded by Stream.mu: starts the goroutine that writes; nil if a goroutine writes already
	wake  chan struct{} // gets a token when there is something to do
	gone  chan struct{} // closed when another reader has taken its place
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

// Request sends a request from the server to the client. It fails unless a client reads the
// stream.
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

// Notify sends a notification. If nobody reads, it is only kept for a client that comes
// back; if the client reads too slowly, it is lost.
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

// Answer sends the answer, which ends the stream. If frame is nil, the stream ends without
// an answer. The deliveries in with get the report whether the answer was written. If nobody
// reads the stream, the answer counts as lost.
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

// Reply sends an answer on a stream that continues after the answer. If too many bytes wait
// for the client, Reply waits until the client has read them or is gone. An answer that
// nobody reads is kept for a client that comes back, and counts as lost.
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

// Full reports whether more bytes wait for the client than backlog allows.
func (s *Stream) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes > backlog
}

// emptied notes that nothing waits for a client any more; the caller holds mu.
func (s *Stream) emptied() {
	s.queue, s.bytes = nil, 0
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// Cut ends the response that a client reads now. The client can resume the stream in
// another request, and is asked to wait for the time wait before. Cut does nothing if the
// stream keeps no events.
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

// push queues an event, and wakes the reader; the caller holds mu.
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
	Prime  bool            // begin with an event that only has an id, for a client whose response may be cut
	First  []byte          // an event before all others, which is not kept; nil for none
	After  int64           // number of the last event that the client has; zero for a new client
	Ended  <-chan struct{} // closed when the stream must end; nil if it need not
}

// FromStart is the Serving.After of a client that knows the stream and has not received an
// event yet.
const FromStart = -1

// Serve writes the stream to a client until the answer is written, ctx ends, Ended is
// closed, or another Serve takes over. An error other than ErrEnded means that the client
// is gone.
func (s *Stream) Serve(ctx context.Context, rw http.ResponseWriter, o Serving) error {
	r := s.take(o.After)
	defer s.leave(r)
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	return s.write(ctx, rw, o, r, timer)
}

// ServeWhile is Serve for an answer that the function run gives. It calls run in this
// goroutine. Most answers are ready within Patience and have no events before them; they
// need no other goroutine.
func (s *Stream) ServeWhile(ctx context.Context, rw http.ResponseWriter, o Serving, run func()) error {
	r := s.take(o.After)
	defer s.leave(r)
	var once sync.Once // for write or writeRest, whichever is called first
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
	_ = s.Answer(nil) // does nothing if run has given an answer
	once.Do(func() { written <- s.writeRest(ctx, rw, o, r, late) })
	return <-written
}

// writeRest is write for a stream that gets no more messages. Nearly always it has one
// plain answer only.
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

// write is Serve for a reader. timer fires when the client needs a comment as a sign of
// life.
func (s *Stream) write(ctx context.Context, rw http.ResponseWriter, o Serving, r *reader, timer *time.Timer) error {
	out := newResponse(rw)
	defer out.end()
	if o.Status == nil {
		r.poke() // the answer cannot be plain: send the headers and a comment immediately
	}
	for {
		silent := false // the client needs a comment as a sign of life
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
			ended = true // queued events are still written
		case <-r.gone:
			return nil
		}
		if err := ctx.Err(); err != nil { // ctx may have ended at the same time
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
		timer.Reset(pause.Together(keepAlive))
	}
}

// writeAll writes the events that wait for a reader. over reports that no more events
// follow for this reader.
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

// take makes the current HTTP request the reader of the stream.
func (s *Stream) take(after int64) *reader {
	var dropped []event
	defer func() { // after mu is released
		for _, e := range dropped {
			lost(e.with)
		}
	}()
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
		dropped = s.again(max(after, 0))
	}
	if len(s.queue) > 0 || s.over {
		r.poke()
	}
	return r
}

// again queues the events after the one with number after, which the client has; the caller
// holds mu. Queued events that are no longer kept come first, since they are older. again
// returns the queued events that the client claims to have, although nobody wrote them.
func (s *Stream) again(after int64) (dropped []event) {
	kept := s.log.after(s, after)
	var all []event
	for _, e := range s.queue {
		i := slices.IndexFunc(kept, func(k event) bool { return k.number == e.number })
		switch {
		case e.number <= after:
			dropped = append(dropped, e)
		case i >= 0:
			kept[i] = e // with its deliveries, which the log does not keep
		default:
			all = append(all, e)
		}
	}
	s.queue, s.bytes = append(all, kept...), 0
	for _, e := range s.queue {
		s.bytes += len(e.frame)
	}
	return dropped
}

// leave notes that a reader is gone. Events that the reader has not written are lost,
// unless the log keeps them.
func (s *Stream) leave(r *reader) {
	s.mu.Lock()
	if s.reader != r {
		s.mu.Unlock()
		return // the next reader writes the remaining events
	}
	left := s.queue
	s.reader = nil
	s.emptied()
	s.mu.Unlock()
	for _, e := range left {
		lost(e.with)
	}
}

// plain reports whether the stream contains only an answer, and returns that answer; an
// answer without content has a nil frame. Otherwise the stream becomes a stream of events.
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

// unwritten takes the events that wait for a reader. over reports that no more events
// follow. If cut is not zero, the client should continue with another request after this
// time.
func (s *Stream) unwritten(r *reader) (all []event, over bool, cut time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != r {
		return nil, false, 0 // the reader's channel gone is closed
	}
	all = s.queue
	s.emptied()
	return all, s.over, r.cut
}
