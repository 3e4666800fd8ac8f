package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTune checks the options of the sockets of a link at both ends, and that a shorter time
// that the operator has set stays.
func TestTune(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := (&net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return tune(c) }}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for name, c := range map[string]net.Conn{"dialed": dialed, "accepted": accepted} {
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			t.Fatalf("%s: got a %T", name, c)
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if name == "accepted" {
			err = tune(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		get := func(option int) (n int, err error) {
			if e := raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) }); e != nil {
				t.Fatal(e)
			}
			return n, err
		}
		if n, err := get(unix.TCP_NOTSENT_LOWAT); err != nil || n != lowUnsent {
			t.Errorf("%s: TCP_NOTSENT_LOWAT is %d, want %d: %v", name, n, lowUnsent, err)
		}
		const tick = 10_000 // the kernel rounds up to a timer tick of at most 10 ms
		if n, err := get(unix.TCP_RTO_MIN_US); !errors.Is(err, unix.ENOPROTOOPT) && (err != nil || n > minResend+tick) {
			t.Errorf("%s: TCP_RTO_MIN_US is %d, want %d: %v", name, n, minResend, err)
		}
		shorter := func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US, minResend/10) }
		if err := errors.Join(raw.Control(shorter), tune(raw)); err != nil {
			t.Error(err)
		}
		if n, err := get(unix.TCP_RTO_MIN_US); err == nil && n > minResend/10+tick {
			t.Errorf("%s: TCP_RTO_MIN_US is %d after tune, want %d as before", name, n, minResend/10)
		}
	}
}

// socketPair returns a socket and the other end of its connection.
func socketPair(t *testing.T) (*socket, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	c, ok := newSocket(accepted).(*socket)
	if !ok {
		t.Fatalf("a connection of TCP is no socket")
	}
	return c, dialed
}

// A socket of a link does not fill the kernel's queue: what waits there is written before all
// that comes later. All bytes arrive when the other end reads again.
func TestSocketKeepsTheQueueShort(t *testing.T) {
	c, dialed := socketPair(t)
	const size = 32 << 20 // more than both ends buffer
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * i >> 8)
	}
	if err := c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Write(sent)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == size {
		t.Fatalf("%d bytes were written to an end that does not read: %v", n, err)
	}
	unsent := 0
	if err := c.raw.Control(func(fd uintptr) { unsent, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }); err != nil {
		t.Fatal(err)
	}
	if most := lowUnsent/2 + 17<<10; err != nil || unsent > most {
		t.Errorf("%d bytes wait in the kernel, want at most %d: %v", unsent, most, err)
	}
	if err := c.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		m, err := c.Write(sent[n:])
		if m != size-n {
			err = errors.Join(err, fmt.Errorf("%d bytes were written of %d", m, size-n))
		}
		written <- errors.Join(err, c.Close())
	}()
	got, err := io.ReadAll(dialed)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes arrived of %d, equal: %v: %v", len(got), size, bytes.Equal(got, sent), err)
	}
	if err := await(t, written, "end of the write"); err != nil {
		t.Error(err)
	}
}

// A write ends with an error when either end closes the connection.
func TestSocketEnds(t *testing.T) {
	for _, here := range []bool{true, false} {
		c, dialed := socketPair(t)
		written := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, 64<<20))
			written <- err
		}()
		if _, err := io.ReadFull(dialed, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		end, want := io.Closer(dialed), []error{unix.EPIPE, unix.ECONNRESET}
		if here {
			end, want = c, []error{net.ErrClosed}
		}
		end.Close()
		err := await(t, written, "end of the write")
		if !slices.ContainsFunc(want, func(e error) bool { return errors.Is(err, e) }) {
			t.Errorf("closed here %v: a write ended with %v, want one of %v", here, err, want)
		}
	}
}

// The end of TLS is not delayed by what the other end does not read.
func TestSocketSaysGoodbye(t *testing.T) {
	c, _ := socketPair(t)
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if n, err := c.Write(make([]byte, maxUrgent)); n != maxUrgent || err != nil {
		t.Errorf("%d bytes were written: %v", n, err)
	}
}
