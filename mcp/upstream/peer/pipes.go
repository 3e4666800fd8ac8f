package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"belljar.dev/mcp/wire"
)

// mostSkipped is the largest length of a line that is skipped. A server that writes without
// end would otherwise keep a processor busy for ever.
const mostSkipped = 32 << 20

var (
	errUnread  = errors.New("the server does not read its input")
	errEndless = fmt.Errorf("the server wrote more than %d bytes without a line break", mostSkipped)
)

// Pipes is a Transport over the standard streams of a process. Each message is one line.
type Pipes struct {
	In  io.WriteCloser // the server's standard input
	Out io.Reader      // the server's standard output
	// Stop ends the server, so that Write to In and Read from Out return, if closing In has
	// not done so yet. Conn.Close calls it once and waits until both have returned. It may
	// be nil if the streams end when In is closed, and when Out is closed, if Out has a
	// method Close.
	Stop func()
}

func (p Pipes) connect(g guard) (carrier, error) {
	if p.In == nil || p.Out == nil {
		return nil, errors.New("Pipes.In and Pipes.Out must be set")
	}
	return &pipes{Pipes: p, conn: g, out: wire.NewLineWriter(p.In, nil)}, nil
}

// pipes is the carrier of Pipes: one goroutine reads, and one writes.
type pipes struct {
	Pipes
	conn   guard
	out    *wire.LineWriter
	wg     sync.WaitGroup // counts the goroutine that reads
	closed sync.Once
}

func (p *pipes) start(ctx context.Context) {
	p.wg.Go(func() { p.read(ctx) })
}

// read reads lines until the server or the connection ends.
func (p *pipes) read(ctx context.Context) {
	lines := wire.NewLineReader(&lineMeter{r: p.Out, most: mostSkipped}, p.conn.cfg.Limits.Answer)
	for p.conn.Err() == nil {
		line, err := lines.Next()
		long, isLong := errors.AsType[*wire.LongLineError](err)
		switch {
		case isLong:
			p.conn.tooLong(long.Answer, nil)
		case errors.Is(err, io.EOF):
			p.conn.fail(ErrEnded)
		case err != nil:
			p.conn.fail(fmt.Errorf("%w: %w", ErrEnded, err))
		default:
			p.conn.receive(ctx, line, nil)
		}
	}
}

func (p *pipes) send(ctx context.Context, cl *call, line []byte) error {
	queued, err := p.out.Try(line)
	if queued || err != nil {
		return p.unwritten(err)
	}
	if cl.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, cl.timeout, errUnread)
		defer stop()
	}
	return p.put(ctx, line)
}

func (p *pipes) put(ctx context.Context, line []byte) error {
	return p.unwritten(p.out.SendContext(ctx, line))
}

// unwritten returns the error of a line that was not queued.
func (p *pipes) unwritten(err error) error {
	if err == nil {
		return nil
	}
	if over := p.conn.Err(); over != nil {
		return over
	}
	return fmt.Errorf("nothing was sent to the server: %w", err)
}

func (p *pipes) offer(_ context.Context, line []byte) {
	if err := p.out.Offer(line); err != nil {
		p.conn.cfg.Log.Debug("a message to an upstream server was not sent", "error", err)
	}
}

// cancel queues a cancel even if the queue is full: each request has at most one.
func (p *pipes) cancel(_ context.Context, cl *call, reason string) {
	if err := p.out.Insist(cancelLine(cl.id, reason)); err != nil {
		p.conn.cfg.Log.Debug("a cancel to an upstream server was not sent", "error", err)
	}
}

func (p *pipes) agreed(*Info) {}

func (p *pipes) listen(context.Context) {}

func (p *pipes) fallback(context.Context, error) bool { return false }

func (p *pipes) close() {
	p.closed.Do(func() {
		p.out.Close()
		p.In.Close()
		if p.Stop != nil {
			p.Stop()
		} else if out, ok := p.Out.(io.Closer); ok {
			out.Close()
		}
	})
	<-p.out.Done()
	p.wg.Wait()
}

// lineMeter is a reader that fails at a line that is too long to be skipped.
type lineMeter struct {
	r    io.Reader
	most int
	n    int // bytes since the last line break
}

func (m *lineMeter) Read(b []byte) (int, error) {
	if m.n > m.most {
		return 0, errEndless
	}
	n, err := m.r.Read(b)
	if at := bytes.LastIndexByte(b[:n], '\n'); at >= 0 {
		m.n = n - at - 1
	} else {
		m.n += n
	}
	return n, err
}
