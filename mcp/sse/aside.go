package sse

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
)

// Aside is a ResponseWriter on top of a Writer, for a sender that serves many clients one
// after the other: it does not wait for the client. It queues events that the client has
// not read, up to backlog bytes; an event beyond that is lost. Its methods are safe for
// concurrent use. Stop ends it.
type Aside struct {
	to   *Writer
	gone func()        // called after a write has failed
	wake chan struct{} // gets a token when there is something to do
	done chan struct{}

	begun chan struct{} // closed by the first event

	mu    sync.Mutex
	taken bool     // guarded by mu: the first event is written, or is about to be
	queue [][]byte // guarded by mu: events that are not written yet
	bytes int      // guarded by mu: total bytes of queue
	over  bool     // guarded by mu: no more events are accepted
}

// NewAside starts an Aside. It calls gone if a write to the client fails.
func NewAside(to *Writer, gone func()) *Aside {
	a := &Aside{to: to, gone: gone, wake: make(chan struct{}, 1), done: make(chan struct{}), begun: make(chan struct{})}
	go a.run()
	return a
}

// Header returns the handler's headers.
func (a *Aside) Header() http.Header { return a.to.Header() }

// WriteHeader sends the handler's headers. It comes before all events, and does not wait
// for the client.
func (a *Aside) WriteHeader(status int) { a.to.WriteHeader(status) }

// Write queues an event.
func (a *Aside) Write(event []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && a.bytes <= backlog {
		if !a.taken && len(a.queue) == 0 {
			close(a.begun)
		}
		a.queue = append(a.queue, bytes.Clone(event))
		a.bytes += len(event)
		a.poke()
	}
	return len(event), nil
}

// Begun returns a channel that is closed when the first event has been queued.
func (a *Aside) Begun() <-chan struct{} { return a.begun }

// FlushError does nothing: each event is flushed when it is written.
func (a *Aside) FlushError() error { return nil }

// Stop writes the last queued event, which is the answer, and ends the Aside. The queued
// events before it are lost, because a slow client would delay Stop for a long time. Stop
// must be called before Writer.Stop.
func (a *Aside) Stop() { a.stop(func() { a.queue = a.queue[max(0, len(a.queue)-1):] }) }

// StopWith is Stop with event as the answer in place of the last queued event. The first
// event of the stream is written before event, if it is still queued.
func (a *Aside) StopWith(event []byte) {
	a.stop(func() {
		if a.taken {
			a.queue = nil
		}
		a.queue = append(a.queue[:min(1, len(a.queue))], event)
	})
}

// stop ends the Aside, unless it has ended. keep removes from the queue the events that
// must not be written any more.
func (a *Aside) stop(keep func()) {
	a.mu.Lock()
	if !a.over {
		a.over = true
		keep()
		a.poke()
	}
	a.mu.Unlock()
	<-a.done
}

func (a *Aside) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run writes until Stop is called or a write has failed.
func (a *Aside) run() {
	defer close(a.done)
	for {
		event, over := a.next()
		switch {
		case event == nil && over:
			return
		case event == nil:
			<-a.wake
			continue
		}
		_, err := a.to.Write(event)
		if err == nil {
			err = a.to.FlushError()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) { // a ResponseWriter of a test may not support flushing
			a.gone()
			return
		}
	}
}

// next returns the first queued event, or nil if the queue is empty. over reports that no
// more events are accepted.
func (a *Aside) next() (event []byte, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 {
		event, a.queue, a.taken = a.queue[0], a.queue[1:], true
		a.bytes -= len(event)
	}
	return event, a.over
}
