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

// MaxForwarded is the most bytes of one stream of a place that a front forwards. It must be above
// placefile.MaxStream, the bound of a worker that packs or unpacks a place: a place that is too
// large is then refused by its worker, which can say why. This bound is for a worker that does not keep its own.
const MaxForwarded = 80 << 30

// Reasons why a stream is ended.
var (
	errStalled = errors.New("the copy does not go on")
	errTooLong = errors.New("the copy takes too long")
)

// pace bounds a stream of a place that goes from one end to another through a front: how long
// nothing is heard of it, from its request to the last answer, how slow it may be, and how long it is.
//
// Nothing comes before the first byte while one end makes a copy of its database, and behind the
// last one while the other end compares what it has written. An end that works says so by a
// response 102, see working; then the time counts anew.
type pace struct {
	stall, quiet time.Duration // that it may take for leastPart, and be silent before the first byte or behind the last one
	copied       *atomic.Int64 // bytes
	most         int64
	stop         context.CancelCauseFunc

	mu     sync.Mutex
	flows  bool        // guarded by mu: bytes are on their way
	part   int         // guarded by mu: bytes since the time last counted anew
	silent *time.Timer // guarded by mu
}

// leastPart is the number of bytes that must come within stall, so that a stream which trickles ends
// as a silent one does. A place on the slowest disk, or one of zeros, sends more.
const leastPart = 64 << 10

// startPace begins to bound a stream. The context ends with it, and end ends both. quiet is how long
// the ends may be silent.
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

// working notes that an end works which sends nothing. While bytes flow, those alone count.
func (p *pace) working() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.flows {
		p.silent.Reset(p.quiet)
	}
}

// note notes that some bytes came, or the last ones.
func (p *pace) note(n int, last bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, first := p.copied.Add(int64(n)), !p.flows
	p.flows = !last
	p.part += n
	switch {
	case all > p.most:
		return &Refusal{fmt.Sprintf("its stream has more than %d GiB, which is more than a place can have", p.most>>30)}
	case last:
		p.silent.Reset(p.quiet)
	case first || p.part >= leastPart:
		p.part = 0
		p.silent.Reset(p.stall)
	}
	return nil
}

// through is a stream as it goes through the front.
func (p *pace) through(in io.Reader) io.Reader { return &pacedStream{in, p} }

type pacedStream struct {
	io.Reader
	pace *pace
}

// Read reads what comes.
func (s *pacedStream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if long := s.pace.note(n, err != nil); long != nil {
		s.pace.stop(long)
		return 0, long
	}
	return n, err
}

// causeOf is the reason of an error of a stream.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// TimedStream reads the body of a request and writes its answer, and bounds how long each Read and
// Write may take: a client that sends or reads nothing any more keeps nothing here.
type TimedStream struct {
	Wait time.Duration // for one Read or Write
	W    http.ResponseWriter
	Body io.Reader // of the request
}

// Read reads a part of the body.
func (b *TimedStream) Read(p []byte) (int, error) {
	c := http.NewResponseController(b.W)
	if err := c.SetReadDeadline(time.Now().Add(b.Wait)); err != nil {
		return 0, err
	}
	n, err := b.Body.Read(p)
	if err == nil {
		err = c.SetReadDeadline(time.Time{}) // what is done with it may take longer
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
		err = c.SetWriteDeadline(time.Time{}) // the next one may not come as soon
	}
	return n, err
}
