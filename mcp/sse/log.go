package sse

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of a Log. A client whose last event is no longer in the Log begins a new stream.
const (
	maxEvents = 256
	maxBytes  = 1 << 20
)

// Log keeps the latest events of the streams of one session. Its methods are safe for
// concurrent use.
type Log struct {
	// name is part of each event's id, so that an id of another session, or of this session
	// before a restart, matches no event of this log.
	name string

	mu    sync.Mutex
	last  int64       // guarded by mu: number of the newest event
	kept  []keptEvent // guarded by mu: kept events, the oldest first
	bytes int         // guarded by mu: total bytes of kept
}

type keptEvent struct {
	stream *Stream
	event  event
}

// NewLog returns an empty Log.
func NewLog() *Log { return NewLogOf("") }

// NewLogOf returns an empty Log. The ids of its events begin with name, the name of the
// log's owner.
func NewLogOf(name string) *Log { return &Log{name: name + rand.Text()[:8]} }

// Find returns the stream and the number of the event that has an id. It returns nil if the
// event is not kept.
func (l *Log) Find(id string) (*Stream, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.number(id)
	if !ok {
		return nil, 0
	}
	for _, k := range l.kept {
		if k.event.number == n {
			return k.stream, n
		}
	}
	return nil, 0
}

// Start returns the id that comes before the id of the first event.
func (l *Log) Start() string { return l.name + "-0" }

// After returns the Serving.After for a client whose last event had this id. The id may be
// [Log.Start]. It returns zero for an id that is not of this log.
func (l *Log) After(id string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.number(id)
	switch {
	case !ok:
		return 0
	case n == 0:
		return FromStart
	}
	return n
}

// number returns the number in the id of an event of this log; the caller holds mu.
func (l *Log) number(id string) (n int64, ok bool) {
	at := strings.LastIndexByte(id, '-')
	if at < 0 || id[:at] != l.name || strings.Trim(id[at+1:], "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(id[at+1:], 10, 64)
	return n, err == nil && n <= l.last
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

// after returns the kept events of a stream whose numbers are above number.
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

// id returns the id of an event; empty if the event has none.
func (l *Log) id(e event) string {
	if l == nil || e.number == 0 {
		return ""
	}
	return l.name + "-" + strconv.FormatInt(e.number, 10)
}
