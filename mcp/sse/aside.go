package sse

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
)

// Aside is a ResponseWriter to a Writer for events of a sender that serves many clients one
// after the other: it does not wait for the client. Bytes that the client has not read
// wait, up to backlog bytes; an event beyond that is lost. Its methods are safe for
// concurrent use. Stop ends it.
type Aside struct {
	to   *Writer
	gone func()        // called once a write has failed
	wake chan struct{} // gets a token when there is something to do
	done chan struct{}

	begun chan struct{} // closed by the first event

	mu    sync.Mutex
	taken bool     // guarded by mu: the first event is written, or is about to be
	queue [][]byte // guarded by mu: what is not written
	bytes int      // guarded by mu: of those
	over  bool     // guarded by mu: nothing more comes
}

// NewAside starts an Aside. It calls gone when the client cannot be written to any more.
func NewAside(to *Writer, gone func()) *Aside {
	a := &Aside{to: to, gone: gone, wake: make(chan struct{}, 1), done: make(chan struct{}), begun: make(chan struct{})}
	go a.run()
	return a
}

// Header returns the handler's headers.
func (a *Aside) Header() http.Header { return a.to.Header() }

// WriteHeader sends the handler's headers. It comes before all events, and waits for
// nobody.
func (a *Aside) WriteHeader(status int) { a.to.WriteHeader(status) }

// Write takes an event.
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

// Begun returns a channel that is closed when there is a first event.
func (a *Aside) Begun() <-chan struct{} { return a.begun }

// FlushError does nothing: each event is flushed when it is written.
func (a *Aside) FlushError() error { return nil }

// Stop writes the last event that waits, which is the answer, and ends the Aside. The ones
// before it are lost: a client that reads a little would keep us for long. It must be
// called before Writer.Stop.
func (a *Aside) Stop() { a.stop(func() { a.queue = a.queue[max(0, len(a.queue)-1):] }) }

// StopWith is Stop with another answer than the last event that waits. The first event of all is
// not lost.
func (a *Aside) StopWith(event []byte) {
	a.stop(func() {
		if a.taken {
			a.queue = nil
		}
		a.queue = append(a.queue[:min(1, len(a.queue))], event)
	})
}

// stop ends the Aside, unless it has ended. keep leaves in the queue what is written still.
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
		if err != nil && !errors.Is(err, http.ErrNotSupported) { // a test's recorder has none
			a.gone()
			return
		}
	}
}

// next takes the first event that waits, nil if none does, and reports whether nothing more
// comes.
func (a *Aside) next() (event []byte, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 {
		event, a.queue, a.taken = a.queue[0], a.queue[1:], true
		a.bytes -= len(event)
	}
	return event, a.over
}
