package upstreams

import (
	"context"
	"io"
	"testing"
)

// Peer is a server that runs in the process of a test. Its pipes behave like those of
// Linux: a writer waits while 64 KiB are unread. So the server waits if the test does not
// read Out and Err.
type Peer struct {
	In       io.WriteCloser // input of the server
	Out, Err io.Reader      // standard output and standard error of the server

	conversation *conversation
	cancel       context.CancelFunc
	closers      []io.Closer
	done         chan struct{} // closed when the server has ended
	status       int           // exit status; read only after done is closed
}

// Start starts the server. At the end of the test, the server is closed if it still runs.
// Start may be called in a bubble of testing/synctest.
func (s Server) Start(t testing.TB) *Peer {
	t.Helper()
	if err := s.check(false); err != nil {
		t.Fatal(err)
	}
	in, out, errs := newPipe(), newPipe(), newPipe()
	ctx, cancel := context.WithCancel(t.Context())
	p := &Peer{
		In: pipeWriter{in}, Out: pipeReader{out}, Err: pipeReader{errs}, done: make(chan struct{}),
		conversation: newConversation(s, pipeWriter{out}, pipeWriter{errs}), cancel: cancel,
		closers: []io.Closer{pipeWriter{in}, pipeReader{out}, pipeReader{errs}},
	}
	go func() {
		defer close(p.done)
		p.status = p.conversation.run(ctx, pipeReader{in})
		for _, end := range []io.Closer{pipeReader{in}, pipeWriter{out}, pipeWriter{errs}} {
			end.Close()
		}
		p.conversation.beside.Wait()
	}()
	t.Cleanup(p.Close)
	return p
}

// Wait waits for the end of the server, and returns its exit status.
func (p *Peer) Wait() int {
	<-p.done
	return p.status
}

// Close ends the server like a kill, whatever the server is doing, and waits for its end.
// It may be called twice.
func (p *Peer) Close() {
	p.cancel()
	for _, end := range p.closers {
		end.Close()
	}
	<-p.done
}

// Received returns the messages that the server has received so far, at most the last
// 1,000.
func (p *Peer) Received() []string { return p.conversation.received() }
