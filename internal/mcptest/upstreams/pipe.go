package upstreams

import (
	"io"
	"sync"
)

// pipeSize is the number of unread bytes in a pipe from which its writer waits, as on Linux
// (pipe(7)).
const pipeSize = 64 << 10

// pipe is a pipe in memory. Its reader and its writer wait on a condition variable, so that
// a bubble of testing/synctest sees them. It is safe for concurrent use.
type pipe struct {
	mu     sync.Mutex
	moved  sync.Cond // uses mu
	text   []byte    // guarded by mu: bytes that were written and not yet read
	ended  bool      // guarded by mu: the writer is closed
	unread bool      // guarded by mu: the reader is closed
}

func newPipe() *pipe {
	p := new(pipe)
	p.moved.L = &p.mu
	return p
}

// pipeReader and pipeWriter are the ends of a pipe. Each may be closed at any time.
type (
	pipeReader struct{ *pipe }
	pipeWriter struct{ *pipe }
)

// Read waits for bytes to read. It returns io.EOF when the writer is closed and all bytes
// are read.
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

// Close closes the reader: all writes fail from then on.
func (p pipeReader) Close() error { return p.end(func() { p.unread = true }) }

// Write returns when all of b is written. It waits while the pipe contains pipeSize unread
// bytes.
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

// Close closes the writer. The reader can still read the remaining bytes.
func (p pipeWriter) Close() error { return p.end(func() { p.ended = true }) }

func (p *pipe) end(note func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	p.moved.Broadcast()
	return nil
}
