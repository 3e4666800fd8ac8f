package fleet

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of what one answer writes before another answer of its connection may write, in bytes.
// HTTP/2 sends the frames of several answers in turn, and a frame contains up to 16 KiB of
// what one call of Write passed. Small frames cost processor time. On a slow connection that
// does not matter, because it carries few frames in a second. The front also sends the bodies of requests in parts of slowFrame, over a long or slow
// connection.
const (
	fastFrame = 8 << 10
	slowFrame = 2 << 10
)

// maxSmall is the largest size of a small answer, in bytes. A slow connection sends small
// answers before the rest of large ones.
const maxSmall = 8 << 10

// A connection is slow while [turns.longest] is at least slowWrite. largeWait is how long a frame
// of a large answer waits at most for small answers, and how long large answers make way for one
// write of a small answer: if the write takes longer, it waits for the flow control of its own
// stream, and not for the connection.
const (
	slowWrite = 5 * time.Millisecond
	largeWait = 100 * time.Millisecond
)

// turns decides in which order the answers of one connection of a link are written. Its zero
// value is ready for use. All methods may be called at the same time.
type turns struct {
	longest atomic.Int64 // nanoseconds: the longest write of more than maxUrgent bytes, halved for each such write after it

	mu    sync.Mutex
	small int           // guarded by mu: number of small answers that are written now
	none  chan struct{} // guarded by mu: closed when small is 0; nil before the first small answer
}

// wrote records that the connection took d to accept a write.
func (t *turns) wrote(d time.Duration) { t.longest.Store(max(int64(d), t.longest.Load()/2)) }

// slow reports whether writes wait for the connection.
func (t *turns) slow() bool { return t.longest.Load() >= int64(slowWrite) }

// begin records that a small answer is being written, until end is called or [largeWait] has
// passed.
func (t *turns) begin() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.small++; t.small == 1 {
		t.none = make(chan struct{})
	}
	once := sync.OnceFunc(t.end)
	expired := time.AfterFunc(largeWait, once)
	return func() {
		expired.Stop()
		once()
	}
}

// end takes one small answer out of the count.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.small--; t.small == 0 {
		close(t.none)
	}
}

// wait waits until no small answer is being written, for at most [largeWait].
func (t *turns) wait() {
	t.mu.Lock()
	small, none := t.small, t.none
	t.mu.Unlock()
	if small == 0 {
		return
	}
	most := time.NewTimer(largeWait)
	defer most.Stop()
	select {
	case <-none:
	case <-most.C:
	}
}

// interleaved is an answer that is written frame by frame, in its turn. Its finish must be
// called after the last write.
type interleaved struct {
	http.ResponseWriter

	turns   *turns
	written int // bytes since the handler's last flush
}

// Write writes a part of the answer. While the connection is slow, Write also flushes the frames
// of a large answer: net/http would gather 4 KiB first.
func (w *interleaved) Write(p []byte) (n int, err error) {
	for {
		slow, frame := w.turns.slow(), fastFrame
		if slow {
			frame = slowFrame
		}
		part := p[n:min(len(p), n+frame)]
		w.written += len(part)
		m, err := w.writeFrame(part, slow)
		if n += m; n >= len(p) || err != nil {
			return n, err
		}
	}
}

// writeFrame writes one frame. On a slow connection, the first maxSmall bytes after a flush of
// the handler are those of a small answer, and the frames after them wait.
func (w *interleaved) writeFrame(p []byte, slow bool) (n int, err error) {
	switch {
	case !slow:
		return w.ResponseWriter.Write(p)
	case w.written <= maxSmall:
		defer w.turns.begin()()
		return w.ResponseWriter.Write(p)
	}
	w.turns.wait()
	if n, err = w.ResponseWriter.Write(p); err != nil {
		return n, err
	}
	return n, http.NewResponseController(w.ResponseWriter).Flush()
}

// FlushError is for http.ResponseController. What is written after it counts as another answer:
// an event of a stream is as urgent as an answer of its size.
func (w *interleaved) FlushError() error {
	if w.turns.slow() && w.written <= maxSmall {
		defer w.turns.begin()()
	}
	w.written = 0
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// finish sends a small answer in its turn on a slow connection: net/http gathers up to 4 KiB,
// and would send them when its handler has returned.
func (w *interleaved) finish() {
	if w.turns.slow() && w.written > 0 && w.written <= maxSmall {
		_ = w.FlushError() // an error means that the stream or the connection has ended, which cuts the answer
	}
}

// Unwrap is for http.ResponseController.
func (w *interleaved) Unwrap() http.ResponseWriter { return w.ResponseWriter }
