package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/pause"
)

// Times between two attempts to connect to a front. They grow from the first to the last,
// and have a random part, so that workers do not all connect at the same time.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// connect links the worker to a front, again and again when the link ends, until ctx ends.
func (w *Worker) connect(ctx context.Context, f front) {
	wait := firstRetry
	said := ""
	for ctx.Err() == nil {
		began := time.Now()
		err := w.link(ctx, f)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastRetry { // the link has existed for some time
			wait, said = firstRetry, ""
		}
		if why := err.Error(); why != said {
			w.cfg.Log.Warn("a front is not linked; the worker tries again", "front", f.address, "err", why)
			said = why
		}
		_ = pause.For(ctx, wait/2+rand.N(wait/2+1))
		wait = min(2*wait, lastRetry)
	}
}

// link connects to a front, and returns why the link has ended.
func (w *Worker) link(ctx context.Context, f front) error {
	says := hello{Name: w.cfg.Name, Process: w.process, Link: w.dialled.Add(1), Fronts: len(w.fronts), Version: w.cfg.Version, Protocol: helloProtocol}
	c, said, err := w.dial(ctx, f.address, f.host, says, nil)
	if err != nil {
		return err
	}
	defer w.forget(c)
	other := &peer{chain: c.overTLS().ConnectionState().PeerCertificates, usage: x509.ExtKeyUsageServerAuth}
	w.cfg.Log.Info("a front is linked", "front", f.address)
	if !w.servers[firstConns].conns.give(ctx, c) {
		return ctx.Err()
	}
	if said.Bulk {
		var running sync.WaitGroup
		defer running.Wait()
		linked, cancel := context.WithCancel(ctx)
		defer cancel()
		says.Bulk, says.Protocol = true, bulkProtocol
		running.Go(func() { w.bulk(linked, c, f.host, says) })
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.lost:
			return errors.New("the link has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := w.files.check(other, time.Now()); err != nil {
				return err
			}
		}
	}
}

// bulkEvery is how often a worker tries to make the bulk connection of a link.
const bulkEvery = time.Minute

// bulk makes the bulk connection of a long link. TCP delivers in order, so everything behind a
// lost packet waits for a round trip: with a connection of its own for what is large, small
// messages wait for fewer packets. If the bulk connection ends, bulk ends the first one, so a
// link ends as a whole. It returns when ctx ends, which is when the first connection ends.
func (w *Worker) bulk(ctx context.Context, first *conn, host string, says hello) {
	tick := time.NewTicker(bulkEvery)
	defer tick.Stop()
	said := ""
	for {
		if first.long() || w.cfg.far {
			b, _, err := w.dial(ctx, first.RemoteAddr().String(), host, says, first)
			if err == nil {
				if w.servers[bulkConns].conns.give(ctx, b) {
					select {
					case <-b.lost:
					case <-ctx.Done():
					}
				}
				first.Close()
				w.forget(b)
				return
			}
			if why := err.Error(); why != said && ctx.Err() == nil {
				w.cfg.Log.Warn("a long link has no bulk connection; the worker tries again each minute", "front", first.RemoteAddr().String(), "err", err)
				said = why
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// dial makes a connection of a link: the bulk connection of first, or the first one if first is
// nil. The caller passes it to forget.
func (w *Worker) dial(ctx context.Context, address, host string, says hello, first *conn) (c *conn, said welcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, said, fmt.Errorf("connect: %w", err)
	}
	over := tls.Client(newSocket(raw), w.files.client(host))
	c = newConn(over)
	c.first = first
	if err = over.HandshakeContext(ctx); err != nil {
		err = fmt.Errorf("connect: %w", err)
	} else if over.ConnectionState().NegotiatedProtocol != protocol {
		err = errors.New("this is not the address of --link of a front")
	} else {
		said, err = c.greet(ctx, says)
	}
	if err != nil {
		c.Close()
		return nil, said, err
	}
	w.mu.Lock()
	w.running[c] = struct{}{}
	w.mu.Unlock()
	c.tail.begin(0, c.probe)
	return c, said, nil
}

// forget closes a connection of a link, and removes it from running.
func (w *Worker) forget(c *conn) {
	w.mu.Lock()
	delete(w.running, c)
	w.mu.Unlock()
	c.Close()
}

// greet sends the hello, and returns the welcome. It returns an error if the front refuses the
// connection, or if ctx ends.
func (c *conn) greet(ctx context.Context, says hello) (said welcome, err error) {
	defer context.AfterFunc(ctx, c.hangUp)()
	if err = send(c, says); err == nil {
		err = receive(c, &said)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return said, fmt.Errorf("greet the front, which may not know the certificate of --link-cert: %w", err)
	case said.Refused != "":
		return said, fmt.Errorf("the front refuses the connection: %.500s", said.Refused)
	}
	return said, nil
}

// sendState writes the state of the worker to a front, one line for each change, until the
// link ends.
func (w *Worker) sendState(rw http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(rw)
	lines := json.NewEncoder(rw)
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	var sent *few[string]
	var signed Signed
	var moves *few[Marked]
	for {
		w.mu.Lock()
		s, news := state{Drains: w.drains, Time: time.Now()}, w.news
		w.mu.Unlock()
		if w.cfg.PolicyDigest != nil {
			s.PolicyDigest = w.cfg.PolicyDigest()
		}
		if w.cfg.PolicyNumber != nil {
			s.Number = w.cfg.PolicyNumber()
		}
		if all := few[string](w.cfg.Places()); sent == nil || !slices.Equal(all, *sent) {
			s.Places, sent = &all, &all
		}
		if a := w.cfg.Audit; a != nil {
			if newest := a.Newest(); newest != signed {
				s.Signed, signed = &newest, newest
			}
		}
		if w.cfg.Moves != nil {
			if all := few[Marked](w.cfg.Moves()); moves == nil || !slices.Equal(all, *moves) {
				s.Moves, moves = &all, &all
			}
		}
		if lines.Encode(s) != nil || out.Flush() != nil {
			return
		}
		select {
		case <-news:
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// stateEvery is how often a worker sends its state if it has not changed.
const stateEvery = 10 * time.Second

// listener is a net.Listener for connections that this end has dialled. Accept returns the
// connections that are passed to give.
type listener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newListener() *listener { return &listener{conns: make(chan net.Conn), over: make(chan struct{})} }

// give passes a connection to Accept, unless ctx or the listener ends first.
func (l *listener) give(ctx context.Context, c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.over:
	case <-ctx.Done():
	}
	return false
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It may be called several times.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// Addr returns the address of a link, which cannot be dialled.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "links", Net: "unix"} }
