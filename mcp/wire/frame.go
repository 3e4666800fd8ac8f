package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	readBuffer = 64 << 10 // bytes of one read of the client's stream; no bound on a line
	writeChunk = 8 << 10  // bytes of one write to the client's stream
	backlog    = 1 << 20  // bytes of answers that may wait for a slow client before writers wait too
)

// LongLineError is the error for a line above the limit. The line has been read to its end,
// so the next line is whole.
type LongLineError struct {
	ID     []byte // id of the request in the line; nil if it is not known
	Answer []byte // id of the request that the line answers; nil if the line is not an answer
}

// Error says that the line is too long.
func (*LongLineError) Error() string { return "the line is too long" }

// LineReader cuts a stream into lines. It uses the memory of one line and one buffer.
type LineReader struct {
	r     *bufio.Reader
	limit int
}

// NewLineReader returns a reader of the lines of r, each at most limit bytes long.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: bufio.NewReaderSize(r, readBuffer), limit: limit}
}

// Next returns the next line without its LF, in memory of its own. The last line may
// lack the LF. The error is io.EOF after the last line, a *LongLineError for a line
// that was skipped, or the error of the stream.
func (l *LineReader) Next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !full && len(line)+len(part) == 0 {
			return nil, err
		}
		if n := len(part); n > 0 && part[n-1] == '\n' {
			part = part[:n-1]
		}
		if len(line)+len(part) > l.limit {
			return nil, l.resync(full, line, part)
		}
		if !full {
			if line == nil {
				line = make([]byte, 0, len(part)) // the usual case: one copy of the right size
			}
			return append(line, part...), nil
		}
		line = append(line, part...)
	}
}

// resync reads to the end of a line that is too long; pieces are the parts of the line that
// have been read.
func (l *LineReader) resync(more bool, pieces ...[]byte) error {
	var ident identScanner
	for _, piece := range pieces {
		ident.write(bytes.TrimPrefix(piece, bom))
	}
	for more {
		piece, err := l.r.ReadSlice('\n')
		ident.write(piece)
		more = errors.Is(err, bufio.ErrBufferFull)
	}
	// The next read reports an error of the stream.
	return &LongLineError{ID: ident.id(), Answer: ident.answer()}
}

// Delivery is notified of what becomes of an answer.
type Delivery interface {
	Writing()          // the answer begins to be written
	Done(written bool) // the answer was written, or is lost
}

// writerStays is how long the goroutine of a LineWriter waits for the next line.
const writerStays = time.Second

// LineWriter writes lines to a client that may be slow. One goroutine writes; lines that
// are sent meanwhile are gathered and written together. If nothing is sent for about
// writerStays, the goroutine ends and its buffers are released. It is safe for concurrent
// use.
type LineWriter struct {
	w io.Writer
	// done is closed when nothing more will be written, and gone when a write has failed.
	done, gone chan struct{}
	failed     func(error) // called with the error before gone is closed; may be nil

	mu      sync.Mutex
	moved   sync.Cond   // signals, with mu, that buf, err, closed or stays has changed
	buf     []byte      // guarded by mu: lines that wait to be written
	queued  []Delivery  // guarded by mu: deliveries of the results in buf
	err     error       // guarded by mu: why nothing more is written
	closed  bool        // guarded by mu
	writing bool        // guarded by mu: the goroutine exists
	stays   bool        // guarded by mu: the goroutine waits for the next line
	used    bool        // guarded by mu: a line was sent since the last call of ifUsed
	look    *time.Timer // guarded by mu: calls ifUsed; nil before the first line
}

// NewLineWriter returns a LineWriter; Close ends it. If a write fails, failed gets the
// error, once and from the goroutine that writes. failed may be nil.
func NewLineWriter(w io.Writer, failed func(error)) *LineWriter {
	l := &LineWriter{w: w, failed: failed, done: make(chan struct{}), gone: make(chan struct{})}
	l.moved.L = &l.mu
	return l
}

// Done returns a channel that is closed when the last line is written, after Close or a
// failed write.
func (l *LineWriter) Done() <-chan struct{} { return l.done }

// Gone returns a channel that is closed when a write has failed.
func (l *LineWriter) Gone() <-chan struct{} { return l.gone }

// Send queues one line, which gets its LF here. While more than backlog bytes wait, Send
// blocks; after Close or a failed write it fails. answers are the deliveries of the results
// in the line. Each is notified when the line is written or lost, except if Send fails.
func (l *LineWriter) Send(line []byte, answers ...Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.buf) > backlog && l.err == nil && !l.closed {
		l.moved.Wait()
	}
	err := l.push(line)
	if err == nil {
		l.queued = append(l.queued, answers...)
	}
	return err
}

// SendContext is like Send, but stops waiting when ctx ends. In that case nothing is
// queued, and the error is the cause of ctx.
func (l *LineWriter) SendContext(ctx context.Context, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := func() bool { return len(l.buf) > backlog && l.err == nil && !l.closed && ctx.Err() == nil }
	if full() {
		stop := context.AfterFunc(ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.moved.Broadcast()
		})
		defer stop()
		for full() {
			l.moved.Wait()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.push(line)
}

// Insist queues a line regardless of how many bytes wait, and never blocks. Its caller
// bounds the number of such lines.
func (l *LineWriter) Insist(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.push(line)
}

// Offer is like Send for a line that may be lost, but it never blocks.
func (l *LineWriter) Offer(line []byte) error {
	_, err := l.Try(line)
	return err
}

// Try is like Send, but does not wait: if more than backlog bytes wait, it queues nothing
// and reports false.
func (l *LineWriter) Try(line []byte) (queued bool, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > backlog {
		return false, nil
	}
	return true, l.push(line)
}

// push appends a line to buf. The caller holds mu.
func (l *LineWriter) push(line []byte) error {
	if l.err != nil {
		return l.err
	}
	if l.closed {
		return io.ErrClosedPipe
	}
	l.buf = append(append(l.buf, line...), '\n')
	l.used = true
	if l.writing {
		l.moved.Broadcast()
		return nil
	}
	l.writing, l.stays = true, true
	if l.look == nil {
		l.look = time.AfterFunc(writerStays, l.ifUsed)
	} else {
		l.look.Reset(writerStays)
	}
	go l.run()
	return nil
}

// Close lets the queued lines be written and ends the goroutine; done is closed at
// its end. A client that does not read can keep the goroutine in Write for ever.
func (l *LineWriter) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && !l.writing && l.err == nil {
		close(l.done)
	}
	l.closed = true
	l.moved.Broadcast()
}

// Err returns the error of the write that failed, or nil.
func (l *LineWriter) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// run writes until the LineWriter is closed, a write fails, or no line has been sent for
// about writerStays.
func (l *LineWriter) run() {
	var spare []byte
	for {
		out, answers := l.next(spare)
		if out == nil {
			return
		}
		for _, o := range answers {
			o.Writing()
		}
		err := l.write(out)
		for _, o := range answers {
			o.Done(err == nil)
		}
		if err != nil {
			l.fail(err)
			return
		}
		spare = out
		if cap(spare) > readBuffer {
			spare = nil // so that one large answer does not keep its memory for ever
		}
	}
}

// next waits for lines and takes them. spare becomes the buffer for the lines that are sent
// meanwhile. next returns nil if the goroutine must end.
func (l *LineWriter) next(spare []byte) (out []byte, answers []Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.buf) == 0 && l.stays && !l.closed {
		l.moved.Wait()
	}
	if len(l.buf) == 0 {
		l.writing, l.buf = false, nil
		l.look.Stop()
		if l.closed {
			close(l.done)
		}
		return nil, nil
	}
	out, answers = l.buf, l.queued
	l.buf, l.queued = spare[:0], nil
	l.moved.Broadcast()
	return out, answers
}

// ifUsed lets the goroutine end if no line has been sent since the last call of ifUsed.
func (l *LineWriter) ifUsed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.writing:
	case l.used:
		l.used = false
		l.look.Reset(writerStays)
	default:
		l.stays = false
		l.moved.Broadcast()
	}
}

// fail records that a write has failed.
func (l *LineWriter) fail(err error) {
	l.mu.Lock()
	lost := l.queued
	l.err, l.buf, l.queued, l.writing = err, nil, nil, false
	l.look.Stop()
	l.moved.Broadcast()
	l.mu.Unlock()
	if l.failed != nil {
		l.failed(err)
	}
	close(l.gone)
	for _, o := range lost {
		o.Done(false)
	}
	close(l.done)
}

func (l *LineWriter) write(out []byte) error {
	for len(out) > 0 {
		n := min(len(out), writeChunk)
		if _, err := l.w.Write(out[:n]); err != nil {
			return err
		}
		out = out[n:]
	}
	return nil
}
