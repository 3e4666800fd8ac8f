package egress

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
)

// failing is a listener whose first calls of Accept fail.
type failing struct {
	left  int
	conns chan net.Conn
	close func()
}

func (l *failing) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *failing) Close() error   { l.close(); return nil }
func (l *failing) Addr() net.Addr { return &net.TCPAddr{} }

func newFailing(left int) *failing {
	l := &failing{left: left, conns: make(chan net.Conn)}
	var closed atomic.Bool
	l.close = func() {
		if !closed.Swap(true) {
			close(l.conns)
		}
	}
	return l
}

// TestAccept checks that a door still works after its host was short of file descriptors,
// that connections above the bound are closed immediately, and that Close closes those that
// are served.
func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Egress: allowing("a.example")})
		l := newFailing(acceptFailures - 1)
		served := make(chan error)
		var handled atomic.Int64
		go func() {
			served <- d.accept(l, 1, func(_ context.Context, c net.Conn, _ func()) {
				handled.Add(1)
				c.Read(make([]byte, 1))
			})
		}()
		first, door := net.Pipe()
		l.conns <- door
		second, door := net.Pipe()
		l.conns <- door
		if _, err := second.Read(make([]byte, 1)); err == nil {
			t.Error("a connection above the bound was served")
		}
		closed := make(chan error)
		go func() { closed <- d.Close() }()
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("got a byte")
		}
		if err := <-served; err != nil {
			t.Errorf("accept of a closed door: got %v", err)
		}
		<-closed
		if n := handled.Load(); n != 1 {
			t.Errorf("got %d handled, want 1", n)
		}
		if err := d.accept(newFailing(0), 1, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("accept after close: got %v", err)
		}
		if err := open(t, Config{Egress: allowing("a.example")}).accept(newFailing(acceptFailures), 1, nil); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("a listener that is broken: got %v", err)
		}
	})
}
