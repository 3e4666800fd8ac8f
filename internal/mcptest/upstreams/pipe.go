package upstreams

import (
	"io"
	"sync"
)

// pipeSize is how many bytes a pipe takes before its writer waits, as on Linux (pipe(7)).
const pipeSize = 64 << 10

// pipe is a pipe in memory. Its reader and its writer wait on a condition variable, so that
// a bubble of testing/synctest sees them. It is safe for concurrent use.
type pipe struct {
	mu     sync.Mutex
	moved  sync.Cond // over mu
	text   []byte    // guarded by mu: written and not read
	ended  bool      // guarded by mu: nothing more is written
	unread bool      // guarded by mu: nothing more is read
}

func newPipe() *pipe {
	p := new(pipe)
	p.moved.L = &p.mu
	return p
}

// pipeReader and pipeWriter are its ends. Close of either may be called at any time.
type (
	pipeReader struct{ *pipe }
	pipeWriter struct{ *pipe }
)

// Read waits for something to read. After the writer's end it returns io.EOF.
func (p pipeReader) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.text) == 0 && !p.ended && !p.unread {
		p.moved.Wait()
	}
	switch {
	case p.unread:
		return 0, io.ErrClosedPipe
	case len(p.text) == 0:
		return 0, io.EOF
	}
	n := copy(b, p.text)
	p.text = p.text[n:]
	p.moved.Broadcast()
	return n, nil
}

// Close has all writes fail.
func (p pipeReader) Close() error { return p.end(func() { p.unread = true }) }

// Write waits until the reader has taken all but pipeSize bytes.
func (p pipeWriter) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		for len(p.text) >= pipeSize && !p.ended && !p.unread {
			p.moved.Wait()
		}
		if p.ended || p.unread {
			return n, io.ErrClosedPipe
		}
		some := min(len(b), pipeSize-len(p.text))
		p.text = append(p.text, b[:some]...)
		b, n = b[some:], n+some
		p.moved.Broadcast()
	}
	return n, nil
}

// Close lets the reader read what is left.
func (p pipeWriter) Close() error { return p.end(func() { p.ended = true }) }

func (p *pipe) end(note func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	p.moved.Broadcast()
	return nil
}
