package fleet

import (
	"errors"
	"net"
	"syscall"
	"testing"

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
