package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"
)

// MaxForwarded is the maximum number of bytes of one place's stream that a front forwards.
// It must be above placefile.MaxStream, the bound of a worker that packs or unpacks a
// place: then a place that is too large is refused by its worker, which can report why.
// MaxForwarded is for a worker that does not respect its own bound.
const MaxForwarded = 80 << 30

// Reasons for ending a stream.
var (
	errStalled = errors.New("the copy makes no progress")
	errTooLong = errors.New("the copy takes too long")
)

// pace bounds the stream of a place that a front forwards from one end to another: its
// silence, from the request to the last answer, its slowness, and its length.
//
// No bytes arrive before the first byte while one end copies its database, and after the
// last byte while the other end checks what it has written. An end that is working sends a
// response 102, see working; then the time begins again.
type pace struct {
	stall, quiet time.Duration // limits for leastPart bytes, and for silence before the first or after the last byte
	copied       *atomic.Int64 // number of bytes that were copied
	most         int64
	stop         context.CancelCauseFunc

	mu     sync.Mutex
	flows  bool        // guarded by mu: whether bytes flow
	part   int         // guarded by mu: number of bytes since the limit last began
	silent *time.Timer // guarded by mu
}

// leastPart is the number of bytes that must arrive within stall, so that a very slow
// stream ends like a silent one. Even a place on the slowest disk, or a place full of
// zeros, sends more.
const leastPart = 64 << 10

// startPace starts to bound a stream. The returned context ends with the stream, and end
// ends both. quiet is how long the ends may be silent.
func (t moveTimes) startPace(ctx context.Context, quiet time.Duration, copied *atomic.Int64) (_ context.Context, p *pace, end func()) {
	ctx, over := context.WithTimeoutCause(ctx, t.copy, errTooLong)
	ctx, stop := context.WithCancelCause(ctx)
	p = &pace{stall: t.stall, quiet: quiet, copied: copied, most: t.most, stop: stop}
	p.silent = time.AfterFunc(quiet, func() { stop(errStalled) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		p.working()
		return nil
	}})
	return ctx, p, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.silent.Stop()
		stop(nil)
		over()
	}
}

// working records a sign of life from an end that sends nothing. While bytes flow, only
// bytes count.
func (p *pace) working() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.flows {
		p.silent.Reset(p.quiet)
	}
}

// note records that some bytes have arrived, or the last ones.
func (p *pace) note(n int, last bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, first := p.copied.Add(int64(n)), !p.flows
	p.flows = !last
	p.part += n
	switch {
	case all > p.most:
		return &Refusal{fmt.Sprintf("its stream has more than %d GiB, and a place cannot be that large", p.most>>30)}
	case last:
		p.silent.Reset(p.quiet)
	case first || p.part >= leastPart:
		p.part = 0
		p.silent.Reset(p.stall)
	}
	return nil
}

// through returns the stream as the front forwards it.
func (p *pace) through(in io.Reader) io.Reader { return &pacedStream{in, p} }

type pacedStream struct {
	io.Reader
	pace *pace
}

// Read reads bytes of the stream.
func (s *pacedStream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if long := s.pace.note(n, err != nil); long != nil {
		s.pace.stop(long)
		return 0, long
	}
	return n, err
}

// causeOf returns the reason for an error of a stream.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// TimedStream reads the body of a request and writes its answer, and bounds the time of
// each Read and Write: a client that stops sending or reading occupies nothing here.
type TimedStream struct {
	Wait time.Duration // time limit for one Read or Write
	W    http.ResponseWriter
	Body io.Reader // body of the request
}

// Read reads a part of the body.
func (b *TimedStream) Read(p []byte) (int, error) {
	c := http.NewResponseController(b.W)
	if err := c.SetReadDeadline(time.Now().Add(b.Wait)); err != nil {
		return 0, err
	}
	n, err := b.Body.Read(p)
	if err == nil {
		err = c.SetReadDeadline(time.Time{}) // what the caller does with these bytes may take longer
	}
	return n, err
}

// Write sends a part of the answer.
func (b *TimedStream) Write(p []byte) (int, error) {
	c := http.NewResponseController(b.W)
	if err := c.SetWriteDeadline(time.Now().Add(b.Wait)); err != nil {
		return 0, err
	}
	n, err := b.W.Write(p)
	if err == nil {
		err = c.SetWriteDeadline(time.Time{}) // the next Write may come later
	}
	return n, err
}
