package sse

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of a Log. A client that comes back later than that begins a new stream.
const (
	maxEvents = 256
	maxBytes  = 1 << 20
)

// Log keeps the latest events of the streams of one session. Its methods are safe for
// concurrent use.
type Log struct {
	// name is part of each event's id, so that an id of another session, or of this
	// one before a restart, names nothing here.
	name string

	mu    sync.Mutex
	last  int64       // guarded by mu: number of the newest event
	kept  []keptEvent // guarded by mu: the oldest first
	bytes int         // guarded by mu: of those
}

type keptEvent struct {
	stream *Stream
	event  event
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{name: rand.Text()[:8]} }

// Open returns a stream whose first Serve is still to come. What is sent meanwhile
// waits for it.
func (l *Log) Open() *Stream {
	s := &Stream{log: l}
	s.reader = newReader()
	return s
}

// Standing returns a stream that begins as a stream of events and has no end. Until the
// first Serve nobody reads it.
func (l *Log) Standing() *Stream { return &Stream{log: l, events: true} }

// Find returns the stream that has the event with an id, and the number of that event.
// It returns nil if the event is not kept.
func (l *Log) Find(id string) (*Stream, int64) {
	name, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || name != l.name {
		return nil, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if k.event.number == n {
			return k.stream, n
		}
	}
	return nil, 0
}

// add gives an event its number, and keeps it.
func (l *Log) add(s *Stream, e *event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.number = l.last
	l.kept = append(l.kept, keptEvent{s, event{number: e.number, frame: e.frame, last: e.last}})
	l.bytes += len(e.frame)
	drop := 0
	for l.bytes > maxBytes || len(l.kept)-drop > maxEvents {
		l.bytes -= len(l.kept[drop].event.frame)
		drop++
	}
	l.kept = slices.Delete(l.kept, 0, drop)
}

// after returns the events of a stream that came after the one with a number.
func (l *Log) after(s *Stream, number int64) (all []event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kept {
		if k.stream == s && k.event.number > number {
			all = append(all, k.event)
		}
	}
	return all
}

// id is the id of an event; empty if it has none.
func (l *Log) id(e event) string {
	if l == nil || e.number == 0 {
		return ""
	}
	return l.name + "-" + strconv.FormatInt(e.number, 10)
}
